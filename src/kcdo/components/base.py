"""What a component is: one part of a mixture, or several that share their work.

A component is fitted at given parameters, predicts, and predicts its own training rows as if they
had not been there. One more component is one more module and one more line in
``CHOOSERS`` of ``fitting/automatic.py``.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components.settings import Settings
from kcdo.distributions import Batch, GroupedBatch
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import Kernel, gaussian_draws
from kcdo.rows import Rows
from kcdo.systems import Queries


class Component(Protocol):
    """A fitted part of a mixture; it may offer several distributions, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the distributions it offers, as in :class:`Combination`."""

    @property
    def linear(self) -> bool:
        """Whether it answers uncertain inputs by itself; else it is asked at points of them."""

    @property
    def exact_held_out(self) -> bool:
        """Whether held-out distributions are those of a fit without the row."""

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs; None for any."""

    @property
    def dim(self) -> int:
        """Number of outputs d."""

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query while its distribution is computed."""

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the distributions of the queries, by name."""

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Return the distributions of some training rows without themselves, by name."""

    def without_training(self) -> "Component":
        """Return what predictions need, without what only held-out ones do."""


class ComponentParameters(Protocol):
    """Parameters of a component: enough to fit it to any rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the distributions that the component offers."""

    @property
    def dim(self) -> int | None:
        """Number of outputs d; None for any."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the inputs."""

    def fit(self, rows: Rows, settings: Settings) -> Component:
        """Return the component of these rows."""


def predict_anywhere(component: Component, queries: Queries) -> dict[str, Batch]:
    """Return the distributions of the queries, also of uncertain ones."""
    if component.linear or not isinstance(queries, GaussianInput | SampleInput):
        return component.predict(queries)
    points, starts, weights = points_of(queries)
    found = component.predict(points)  # all points at once: one by one is many times slower
    return {name: GroupedBatch(batch, starts, weights) for name, batch in found.items()}


def width_anywhere(component: Component, queries: Queries) -> int:
    """Return the numbers held for each query, uncertain or not."""
    count = 1 if component.linear else n_points(queries)
    return count * component.width(queries)


def points_of(
    queries: GaussianInput | SampleInput,
) -> tuple[NDArray, Integers, Array]:
    """Return points (S, p) that stand for uncertain inputs, where those of each begin, weights."""
    if isinstance(queries, SampleInput):
        return queries.points, queries.starts, queries.weights
    draws = gaussian_draws(queries.for_mixtures())
    n_rows, n, p = draws.shape
    starts = np.arange(0, n_rows * n + 1, n)
    return draws.reshape(-1, p), starts, np.full(n_rows * n, 1.0 / n)


def n_points(queries: Queries) -> int:
    """Return the points that stand for each query."""
    if isinstance(queries, GaussianInput):
        return queries.mixture_points
    return int(np.diff(queries.starts).max()) if isinstance(queries, SampleInput) else 1
