"""A model of several outputs by the chain rule: one univariate model for each link of an order."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components.base import n_points, points_of
from kcdo.components.density import DensityOperator
from kcdo.components.mixture import Mixture, ModelParameters
from kcdo.components.settings import Settings
from kcdo.components.univariate import Univariate, UnivariateParameters
from kcdo.consistency import need, shape
from kcdo.distributions import (
    Batch,
    ChainBatch,
    GroupedBatch,
    MixtureBatch,
    NodeBatch,
    ScatteredLayout,
    default_draws,
)
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.parallel import ordered_map
from kcdo.rows import Rows
from kcdo.systems import Queries, Solver

_SOME_ROWS = 512  # whose outputs stand for those of all
_FEWEST_DRAWS = 32  # at each point of an uncertain input


@dataclass(frozen=True, eq=False)
class Chain:
    """p(y | x) = ∏_j p(y_o(j) | x, y_o(1), …, y_o(j-1)) for one order o of the outputs.

    Link j has the inputs with the outputs ``order[:j]`` appended as its inputs.
    """

    order: tuple[int, ...]
    links: tuple[Mixture | Univariate, ...]

    def __post_init__(self) -> None:
        _check_order(self.order, len(self.links))
        need(all(link.dim == 1 for link in self.links), "links of several outputs")
        p = self.links[0].n_inputs
        for j, link in enumerate(self.links):
            need(p is None or link.n_inputs in (p + j, None), "inputs of the links of a chain")

    def without_training(self) -> "Chain":
        """Return what predictions need."""
        return replace(self, links=tuple(link.without_training() for link in self.links))


@dataclass(frozen=True, eq=False)
class ChainModel:
    """Chains of one or several orders, mixed by weights.

    Parameters
    ----------
    chains : tuple of Chain
        One for each order.
    weights : (k,)
        Of the chains.
    outputs : (n, d)
        Outputs of some training rows, drawn by their weights: p(y) is made of them.
    """

    chains: tuple[Chain, ...]
    weights: Array
    outputs: Array

    def __post_init__(self) -> None:
        need(self.chains, "a model without a chain")
        need(len({len(chain.order) for chain in self.chains}) == 1, "outputs of the chains")
        shape(self.weights, len(self.chains))
        _check_weights(self.weights)
        shape(self.outputs, None, self.dim)

    @property
    def primary(self) -> DensityOperator:
        """The density operator of the first link: what a report describes."""
        return self.chains[0].links[0].primary

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.chains[0].links[0].n_inputs

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return len(self.chains[0].order)

    @property
    def signed(self) -> bool:
        """Whether densities may be negative: never."""
        return False

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.chains[0].links[0].n_jobs

    @property
    def nbytes(self) -> int:
        """Memory of all links, in bytes."""
        return sum(link.nbytes for chain in self.chains for link in chain.links)

    def batch(self, queries: Queries) -> Batch:
        """Return the joint distributions of the queries."""
        if isinstance(queries, GaussianInput | SampleInput):
            points, starts, weights = points_of(queries)
            each = max(1, default_draws(self.dim) // n_points(queries))
            n_draws = max(_FEWEST_DRAWS, 1 << (each.bit_length() - 1))  # sets of 2^k are even
            inner = self._at_points(points, n_draws, warns=False)
            return GroupedBatch(inner, starts, weights)
        return self._at_points(queries, default_draws(self.dim))

    def _at_points(self, X: NDArray, n_draws: int, warns: bool = True) -> Batch:
        parts = [
            ChainBatch(X, chain.links, chain.order, n_draws, n_jobs=self.n_jobs, warns=warns)
            for chain in self.chains
        ]
        return parts[0] if len(parts) == 1 else MixtureBatch(parts, self.weights)

    def marginal_batch(self) -> Batch:
        """Return the distribution of the outputs, whatever the inputs, as a batch of one.

        Outputs of training rows with normal bumps about them, as wide as Scott's rule says.
        """
        n, d = self.outputs.shape
        sd = np.maximum(self.outputs.std(axis=0), 1e-12 * (1.0 + np.abs(self.outputs[0])))
        layout = ScatteredLayout(self.outputs, np.tile(sd * n ** (-1.0 / (d + 4)), (n, 1)))
        return NodeBatch(layout, np.full((1, n), 1.0 / n))

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query: its draws, and one link at a time."""
        each = default_draws(self.dim) * self.dim + self._link_width()
        return n_points(queries) * each

    def marginal_width(self, queries: Queries) -> int:
        """Return the numbers held for each query where one output is asked: a link at draws."""
        return self.width(queries) * default_draws(self.dim)

    def _link_width(self) -> int:
        sizes = []
        for chain in self.chains:
            for j, link in enumerate(chain.links):
                sizes.append(link.width(np.zeros((1, (self.n_inputs or 1) + j))))
        return max(sizes)

    def without_training(self) -> "ChainModel":
        """Return what predictions need, without what only held-out ones do."""
        return replace(self, chains=tuple(chain.without_training() for chain in self.chains))


@dataclass(frozen=True, eq=False)
class ChainParameters:
    """Parameters of the links of one order, and the solvers of their ridge systems."""

    order: tuple[int, ...]
    links: tuple[ModelParameters | UnivariateParameters, ...]
    solvers: tuple[Solver, ...]

    def __post_init__(self) -> None:
        _check_order(self.order, len(self.links))
        need(len(self.solvers) == len(self.links), "solvers of the links of a chain")

    def fit(self, rows: Rows, settings: Settings) -> Chain:
        """Return the chain of these rows; nothing is chosen."""

        def fit_link(j: int) -> Mixture | Univariate:
            own = replace(settings, solver=self.solvers[j])
            return self.links[j].fit(link_rows(rows, self.order, j), own)

        links = ordered_map(fit_link, range(len(self.order)), settings.n_jobs)
        return Chain(self.order, tuple(links))


@dataclass(frozen=True, eq=False)
class ChainModelParameters:
    """Parameters of a chain model: enough to fit the same model to other rows."""

    chains: tuple[ChainParameters, ...]
    shares: Array

    def __post_init__(self) -> None:
        need(self.chains, "parameters without a chain")
        shape(self.shares, len(self.chains))
        _check_weights(self.shares)

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the orders, by name."""
        names = ["chain " + "-".join(map(str, chain.order)) for chain in self.chains]
        return dict(zip(names, self.shares.tolist(), strict=True))

    def fit(self, rows: Rows, settings: Settings) -> ChainModel:
        """Return the model of these rows; nothing is chosen."""
        chains = tuple(chain.fit(rows, settings) for chain in self.chains)
        return ChainModel(chains, self.shares, some_outputs(rows, settings.seed))


def link_rows(rows: Rows, order: tuple[int, ...], j: int) -> Rows:
    """Return the rows of link j: earlier outputs are appended to the inputs, one output is left."""
    earlier = list(order[:j])
    return replace(rows, X=np.hstack([rows.X, rows.Y[:, earlier]]), Y=rows.Y[:, [order[j]]])


def some_outputs(rows: Rows, seed: int) -> Array:
    """Return outputs of some rows, drawn by their weights; of few equal ones all."""
    if len(rows) <= _SOME_ROWS and np.ptp(rows.weights) == 0:
        return rows.Y
    shares = rows.weights / rows.total
    chosen = np.random.default_rng(seed).choice(len(rows), _SOME_ROWS, p=shares)
    return rows.Y[np.sort(chosen)]


def _check_order(order: tuple[int, ...], n_links: int) -> None:
    need(n_links and sorted(order) == list(range(n_links)), "the order of a chain")


def _check_weights(weights: Array) -> None:
    need(np.all(weights >= 0) and abs(weights.sum() - 1.0) < 1e-6, "weights that do not sum to 1")
