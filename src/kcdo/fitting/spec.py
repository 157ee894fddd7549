"""What the user fixed of a model; what is left open is for rules and searches to choose."""

from dataclasses import dataclass, field, replace

from kcdo.components import Combination, Settings
from kcdo.kernels import Gaussian, Kernel
from kcdo.linalg import Filter
from kcdo.measures import Reference
from kcdo.progress import SILENT, Deadline, Progress
from kcdo.regularisation import Scheme

Ridge = float | Scheme | None


@dataclass(frozen=True)
class ModelSpec:
    """What the user asked for; ``None`` leaves the choice to a rule or a search.

    ``settings`` say how whatever was chosen is fitted.
    """

    kernel_x: Kernel = field(default_factory=Gaussian)
    kernel_y: Kernel | None = None
    reference: Reference | None = None
    alpha: Ridge = None
    alpha_prime: Ridge = None
    filter: Filter | None = None
    combination: Combination = field(default_factory=Combination)
    settings: Settings = field(default_factory=Settings)
    progress: Progress = SILENT
    transforms: bool = True  # whether one output may be seen through normal scores
    twins: bool = True  # whether rows of the very same inputs may have a say of their own

    @property
    def n_jobs(self) -> int | None:
        """Threads; None: all cores."""
        return self.settings.n_jobs

    @property
    def seed(self) -> int:
        """Seed of every subsample."""
        return self.settings.seed

    @property
    def may_combine(self) -> bool:
        """Whether other components make sense: not with signed densities or a box of the user."""
        return self.settings.positivity != "signed" and self.reference is None

    def in_silence(self, deadline: Deadline) -> "ModelSpec":
        """Return the spec of a piece of work beside others: it cannot tell of its stages."""
        return replace(self, progress=Progress(deadline=deadline))
