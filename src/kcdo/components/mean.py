"""The conditional mean embedding, from which no density is reconstructed."""

from dataclasses import dataclass

from kcdo.arrays import Array
from kcdo.consistency import kernel_fits, shape
from kcdo.embeddings import MeanEmbedding, SampleEmbedding
from kcdo.kernels import Kernel
from kcdo.systems import ExactSystem, Queries


@dataclass(frozen=True, eq=False)
class MeanOperator:
    """x' ↦ Σ_n w_n(x') k_y(y_n, ·): the conditional mean embedding."""

    system: ExactSystem
    outputs: Array
    kernel: Kernel

    def __post_init__(self) -> None:
        shape(self.outputs, len(self.system.row_weights), None)
        kernel_fits(self.kernel, self.outputs)

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.system.n_inputs

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.outputs.shape[1]

    def embeddings(self, queries: Queries) -> list[SampleEmbedding]:
        """Return the embedding of Y given each query."""
        rows = self.system.weights(queries)
        return [SampleEmbedding(self.outputs, w, kernel=self.kernel) for w in rows]

    def sum_rule(self, prior: MeanEmbedding) -> SampleEmbedding:
        """Return the embedding of Y when x has the embedding ``prior``: w = A⁻¹ μ(X)."""
        section = prior(self.system.centres)[None]
        weights = self.system.weights_of(section)[0]
        return SampleEmbedding(self.outputs, weights, kernel=self.kernel)
