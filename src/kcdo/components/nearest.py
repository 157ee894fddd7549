"""The density of the rows next to each query, for what centres far apart do not follow."""

from dataclasses import dataclass

from kcdo.components.density import DensityComponent, DensityOperator, OperatorParameters
from kcdo.components.settings import Settings
from kcdo.consistency import need
from kcdo.rows import Rows
from kcdo.systems import NearestSystem

NAMES = ("nearest",)


@dataclass(frozen=True, eq=False)
class NearestDensity(DensityComponent):
    """The conditional density operator of the rows next to each query."""

    names = NAMES
    linear = False  # only points have neighbours

    def __post_init__(self) -> None:
        need(isinstance(self.operator.system, NearestSystem), "near rows")


@dataclass(frozen=True, eq=False)
class NearestParameters(OperatorParameters):
    """Parameters of the operator of near rows; the scales of its kernel say what is near."""

    names = NAMES

    def fit(self, rows: Rows, settings: Settings) -> NearestDensity:
        """Return the component of these rows."""
        return NearestDensity(self.operator(rows, settings))

    def operator(self, rows: Rows, settings: Settings) -> DensityOperator:
        """Return the operator of these rows."""
        system = settings.near(self.kernel, rows).factor(self.alpha)
        return DensityOperator.solved(system, self.output, rows.Y, settings.positivity)
