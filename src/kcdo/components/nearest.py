"""The density of the rows next to each query, for what centres far apart do not follow."""

from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.density import (
    DensityComponent,
    DensityOperator,
    OperatorParameters,
    node_masses,
)
from kcdo.components.node_values import node_values
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.distributions import Batch, NodeBatch, Positivity, layout_of
from kcdo.errors import InvalidInputError
from kcdo.kernels import Kernel, after_warps, metric_coordinates, without_warps
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import NEIGHBOURS, KeptRows, NearestRows, Queries

NAMES = ("nearest",)


@dataclass(frozen=True, eq=False)
class NearestDensity(DensityComponent):
    """The conditional density operator of the rows next to each query."""

    names = NAMES
    linear = False  # only points have neighbours

    def __post_init__(self) -> None:
        need(self.operator.system.near_rows_alone, "near rows")


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


@dataclass(frozen=True, eq=False)
class KeptNearest:
    """The density of the rows next to each query, which stay in a folder.

    Parameters
    ----------
    rows : KeptRows
        The rows.
    kernel : Kernel
        Its scales say what is near; the index of the rows is in this metric.
    noise : float
        Ridge of a row of weight 1.
    unit : float
        What weights of rows are multiplied by.
    output : Reconstruction
        The output side.
    marginal : (M,)
        Density of Y.
    """

    rows: KeptRows
    kernel: Kernel
    noise: float
    unit: float
    output: Reconstruction
    marginal: Array
    positivity: Positivity
    neighbours: int = NEIGHBOURS
    n_jobs: int | None = None

    names = NAMES
    linear = False  # only points have neighbours
    exact_held_out = False  # held-out rows of a stream are judged while it is fitted

    def __post_init__(self) -> None:
        need(0 < self.noise < np.inf and 0 < self.unit < np.inf, "noise that is not positive")
        need(self.rows.dim == self.output.measure.dim, "outputs of near rows")
        shape(self.marginal, self.output.measure.n_nodes)
        need(self.neighbours > 0, "the number of neighbours")

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.rows.n_inputs

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.rows.dim

    @property
    def nbytes(self) -> int:
        """Memory of the index of the rows."""
        return self.rows.index_nbytes

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return max(self.output.measure.n_nodes, 2 * self.neighbours * (1 + self.rows.n_inputs))

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the distributions at points: the near rows of all of them are read at once."""
        assert isinstance(queries, np.ndarray), "uncertain inputs are asked at points"
        points = after_warps(self.kernel, queries)
        coordinates = metric_coordinates(without_warps(self.kernel), points)
        places = self.rows.nearest(coordinates, self.neighbours, self.n_jobs)
        used, among = np.unique(places, return_inverse=True)
        X, Y, weights = self.rows.take(used)
        near = NearestRows(self.kernel, X, self.unit * weights, self.neighbours, self.n_jobs)
        system = near.factor(self.noise / float(near.weights.sum()))
        section = system.weights_among(queries, among.reshape(places.shape))
        measure = self.output.measure
        values, sums = node_values(self.output, section, Y)
        masses = node_masses(values, sums, measure, self.marginal, self.positivity)
        return {"nearest": NodeBatch(layout_of(measure, self.output.kernel.scales), masses)}

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Refuse: held-out rows of a stream are judged while it is fitted."""
        raise InvalidInputError("a streamed fit keeps no held-out predictions of its rows.")

    def without_training(self) -> "KeptNearest":
        """Return itself: predictions need the rows, wherever they are."""
        return self
