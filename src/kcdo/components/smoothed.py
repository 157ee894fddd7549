"""Densities by smoothing: near rows, weighted by how alike their inputs and their predictions are.

Row j has the weight w_j of :mod:`kcdo.components.likeness` for a query x, and the density is
Σ_j w_j of bumps about the residuals of these rows, moved and stretched to m(x) and s(x), or about
their outputs as they are. Many bandwidths are mixed, weighed by held-out rows: all weights are
positive, so that nothing has to be projected.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from kcdo.arrays import Array, Integers
from kcdo.components.likeness import EVERY, Bandwidths, Likeness, RowTable
from kcdo.components.location_map import LARGEST_SQUARE
from kcdo.components.near_location import Location, Regressor, with_the_rest
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.distributions import AffineBatch, Batch, GridLayout, MixtureBatch, NodeBatch
from kcdo.kernels import Kernel, metric_coordinates
from kcdo.measures import Grid
from kcdo.rows import Rows
from kcdo.systems import Queries

About = Literal["residual", "output"]

_PRIOR_ROWS = 4.0  # that say the noise does not vary
_RESIDUAL_NODES, _RESIDUAL_REACH = 320, 8.0
_OUTPUT_NODES = 640
_OUTPUT_REACH = (-6.0, 6.0)  # outputs are about standardised
_ROWS_AT_A_TIME = 1024


@dataclass(frozen=True)
class Smoother:
    """One way to smooth: which rows count, about what their bumps are, and how wide these are."""

    bandwidths: Bandwidths
    about: About
    width: float


@dataclass(frozen=True, eq=False)
class SmoothedParameters:
    """Parameters of location, scale and smoothers: enough to fit them to any rows.

    Parameters
    ----------
    kernel : Kernel
        Of the location.
    noise : float
        Noise ratio of the location.
    smoothers : tuple of Smoother
    shares : (S,)
        Weights of the smoothers, of sum 1.
    spread : Bandwidths
        Of the noise that varies with x.
    inflation : float
        How much larger squared errors of new rows are than held-out rows say.
    beside : tuple of Regressor
        Other regressions that the location averages with that of kernel and noise, which has the
        rest of their shares.
    """

    kernel: Kernel
    noise: float
    smoothers: tuple[Smoother, ...]
    shares: Array
    spread: Bandwidths | None = None
    inflation: float = 1.0
    beside: tuple[Regressor, ...] = ()

    names = ("smoothed",)
    dim = 1

    def __post_init__(self) -> None:
        shape(self.shares, len(self.smoothers))
        need(sum(each.share for each in self.beside) < 1, "shares of regressions")
        need(self.inflation > 0, "an inflation that is not positive")
        need(self.noise > 0 and np.all(self.shares >= 0), "noise or shares that are negative")

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the inputs."""
        return self.kernel, *(each.kernel for each in self.beside)

    def fit(self, rows: Rows, settings: Settings) -> "SmoothedRows":
        """Return the component of these rows."""
        return self.smoothing(self.located(rows, settings))

    def located(self, rows: Rows, settings: Settings) -> "SmoothedRows":
        """Return rows with their locations and scales, not smoothed yet."""
        regressors = with_the_rest(self.kernel, self.noise, self.beside)
        fitted = SmoothedRows.located(regressors, rows, settings, self.inflation)
        return fitted.with_spread(self.spread)

    def smoothing(self, located: "SmoothedRows") -> "SmoothedRows":
        """Return located rows with their smoothers."""
        return located.with_smoothers(self.smoothers, self.shares)


@dataclass(frozen=True, eq=False)
class SmoothedRows:
    """Densities of near rows: bumps about residuals, moved to the location, or about outputs."""

    kernel: Kernel
    location: Location
    table: RowTable
    squares: Array  # (N,): standardised residuals, squared, before noise varies
    spread: Bandwidths | None = None  # of the noise that varies with x
    smoothers: tuple[Smoother, ...] = ()
    shares: Array | None = None
    n_jobs: int | None = None
    inflation: float = 1.0  # of the variance of new rows

    names = ("smoothed",)
    linear = False
    exact_held_out = True
    dim = 1

    def __post_init__(self) -> None:
        shape(self.squares, len(self.table))
        shape(self.table.coordinates, None, None)
        if self.shares is not None:
            shape(self.shares, len(self.smoothers))
            need(self.shares.sum() > 0 and np.all(self.shares >= 0), "shares of smoothers")
        need(all(smoother.width > 0 for smoother in self.smoothers), "widths of smoothers")

    @classmethod
    def located(
        cls,
        regressors: Sequence[Regressor],
        rows: Rows,
        settings: Settings,
        inflation: float = 1.0,
    ) -> "SmoothedRows":
        """Fit the location, with noise that does not vary."""
        X = rows.X.copy()  # not the array of the user
        location, held_out, variance = Location.fit(regressors, X, rows, settings)
        kernel = regressors[0].kernel
        residual = (rows.Y[:, 0] - held_out) / np.sqrt(variance)
        table = RowTable(
            metric_coordinates(kernel, X),
            held_out,
            0.5 * np.log(variance),
            residual,
            rows.Y[:, 0].copy(),
            rows.weights,
            settings.effort.alike_rows,
        )
        squares = np.minimum(residual**2, LARGEST_SQUARE)
        return cls(kernel, location, table, squares, n_jobs=settings.n_jobs, inflation=inflation)

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs; None: they are not looked at before a query comes."""
        return None

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return sum(
            values.nbytes for values in vars(self.table).values() if hasattr(values, "nbytes")
        )

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return 8 * self.table.neighbours + _RESIDUAL_NODES + _OUTPUT_NODES

    # --- noise that varies with x

    def spread_losses(self, spreads: Sequence[Bandwidths], rows: Integers) -> list[float]:
        """Return the held-out normal log score of some rows for each way noise may vary."""
        likeness = self.table.likeness_left_out(rows, self.n_jobs)
        squares, weights = self.squares[rows], self.table.weights[rows]

        def loss(bandwidths: Bandwidths) -> float:
            factor = self._noise_factor(likeness, bandwidths)
            return float(np.average(0.5 * np.log(factor) + 0.5 * squares / factor, weights=weights))

        return [loss(bandwidths) for bandwidths in spreads]

    def with_spread(self, bandwidths: Bandwidths | None) -> "SmoothedRows":
        """Return the component with noise that varies, by which residuals are standardised."""
        if bandwidths is None:
            return self
        factor = np.concatenate(
            [
                self._noise_factor(self.table.likeness_left_out(part, self.n_jobs), bandwidths)
                for part in _parts(len(self.table))
            ]
        )
        table = replace(
            self.table,
            log_scale=self.table.log_scale + 0.5 * np.log(factor),
            residual=self.table.residual / np.sqrt(factor),
        )
        return replace(self, table=table, spread=bandwidths)

    def _noise_factor(self, likeness: Likeness, bandwidths: Bandwidths) -> Array:
        """Return what the variance of each query is multiplied by, (Q,)."""
        w = np.exp(self.table.log_likeness(likeness, bandwidths))
        squares = self.squares[likeness.places(bandwidths)]
        return (np.einsum("qk,qk->q", w, squares) + _PRIOR_ROWS) / (w.sum(axis=1) + _PRIOR_ROWS)

    # --- smoothers

    def with_smoothers(self, smoothers: Sequence[Smoother], shares: Array) -> "SmoothedRows":
        """Return the component with smoothers, whose shares sum to 1."""
        return replace(self, smoothers=tuple(smoothers), shares=shares)

    def smoother_densities(self, smoothers: Sequence[Smoother], rows: Integers) -> Array:
        """Return the held-out density of each smoother at the outputs of some rows, (n, S)."""
        parts = [self._densities(smoothers, rows[part]) for part in _parts(len(rows))]
        return np.concatenate(parts)

    def _densities(self, smoothers: Sequence[Smoother], rows: Integers) -> Array:
        table, likeness = self.table, self.table.likeness_left_out(rows, self.n_jobs)
        shares = {
            bandwidths: table.shares(likeness, bandwidths)
            for bandwidths in {smoother.bandwidths for smoother in smoothers}
        }
        found = np.empty((len(rows), len(smoothers)))
        for column, smoother in enumerate(smoothers):
            about_residual = smoother.about == "residual"
            values = table.residual if about_residual else table.output
            places = likeness.places(smoother.bandwidths)
            gaps = (values[rows, None] - values[places]) / smoother.width
            bumps = np.exp(-0.5 * gaps**2) / (smoother.width * np.sqrt(2.0 * np.pi))
            density = np.einsum("qk,qk->q", shares[smoother.bandwidths], bumps)
            found[:, column] = density / likeness.scale if about_residual else density
        return found

    # --- predictions

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the distributions at points, by name."""
        assert isinstance(queries, np.ndarray), "uncertain inputs are asked at points"
        return self._distributions(self.likeness(queries), np.sqrt(self.inflation))

    def likeness(self, queries: NDArray) -> Likeness:
        """Return the rows that are like queries, with location and scale of these."""
        location, variance = self.location(queries)
        coordinates, scale = metric_coordinates(self.kernel, queries), np.sqrt(variance)
        likeness = self.table.likeness(coordinates, location, scale, self.n_jobs)
        if self.spread is None:
            return likeness
        factor = self._noise_factor(likeness, self.spread)
        return replace(likeness, scale=scale * np.sqrt(factor))

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Return the distributions of some training rows without themselves, by name."""
        return self._distributions(self.table.likeness_left_out(rows, self.n_jobs))

    def location_and_scale(self, rows: Integers) -> tuple[Array, Array]:
        """Return held-out location and scale of some training rows, (n, 1) each."""
        table = self.table
        return table.location[rows, None], np.exp(table.log_scale[rows, None])

    def without_training(self) -> "SmoothedRows":
        """Return itself: predictions need every row."""
        return self

    def _distributions(self, likeness: Likeness, factor: float = 1.0) -> dict[str, Batch]:
        location, scale = likeness.location[:, None], factor * likeness.scale[:, None]
        parts: list[Batch] = []
        shares: list[float] = []
        for about, grid in (("residual", self._residual_grid), ("output", self._output_grid)):
            masses, share = self._masses(likeness, about, grid)
            if share > 0:
                nodes = NodeBatch(GridLayout(grid), masses / share)
                parts.append(AffineBatch(nodes, location, scale) if about == "residual" else nodes)
                shares.append(share)
        return {"smoothed": MixtureBatch(parts, np.array(shares) / sum(shares))}

    def _masses(self, likeness: Likeness, about: str, grid: Grid) -> tuple[Array, float]:
        """Return masses of nodes (Q, M), where rows are counted and smoothed, and their sum."""
        assert self.shares is not None, "no smoothers were chosen"
        chosen = [
            (smoother, share)
            for smoother, share in zip(self.smoothers, self.shares, strict=True)
            if smoother.about == about and share > 0
        ]
        values = self.table.residual if about == "residual" else self.table.output
        nodes = grid.axes[0]
        place = np.clip((values - nodes[0]) / grid.spacing[0], 0.0, len(nodes) - 1.0)
        total = np.zeros((len(likeness), len(nodes)))
        for width, weighed in self._weighed(likeness, chosen).items():
            counted = sum(_counted(w, place[places], len(nodes)) for places, w in weighed)
            total += counted @ _bumps(grid, width)
        return total, float(sum(share for _, share in chosen))

    def _weighed(
        self, likeness: Likeness, chosen: Sequence[tuple[Smoother, float]]
    ) -> dict[float, list[tuple[Integers, Array]]]:
        """Return rows with their weights, (Q, K) each, for every width of bumps.

        Bandwidths that choose among the same rows are added up first: they are counted once.
        """
        found: dict[tuple[float, bool], Array] = {}
        for bandwidths in dict.fromkeys(smoother.bandwidths for smoother, _ in chosen):
            w = self.table.shares(likeness, bandwidths)
            for smoother, share in chosen:
                if smoother.bandwidths == bandwidths:
                    key = smoother.width, bandwidths.distance == EVERY
                    found[key] = found[key] + share * w if key in found else share * w
        weighed: dict[float, list[tuple[Integers, Array]]] = {}
        for (width, by_location), w in found.items():
            places = likeness.alike if by_location else likeness.near
            weighed.setdefault(width, []).append((places, w))
        return weighed

    @cached_property
    def _residual_grid(self) -> Grid:
        reach = np.array([_RESIDUAL_REACH])
        return Grid(-reach, reach, (_RESIDUAL_NODES,))

    @cached_property
    def _output_grid(self) -> Grid:
        widest = max((s.width for s in self.smoothers if s.about == "output"), default=0.1)
        ends = np.clip([self.table.output.min(), self.table.output.max()], *_OUTPUT_REACH)
        lower, upper = ends[0] - 4.0 * widest, ends[1] + 4.0 * widest
        return Grid(np.array([lower]), np.array([upper]), (_OUTPUT_NODES,))

    def __getstate__(self) -> dict[str, object]:
        found_again = ("_residual_grid", "_output_grid")
        return {name: value for name, value in vars(self).items() if name not in found_again}


def _parts(n: int) -> list[Integers]:
    return [np.arange(s, min(s + _ROWS_AT_A_TIME, n)) for s in range(0, n, _ROWS_AT_A_TIME)]


def _counted(weights: Array, places: Array, n_nodes: int) -> Array:
    """Return weights (Q, K) of places between nodes as weights of the nodes, (Q, n_nodes)."""
    first = np.minimum(places.astype(np.intp), n_nodes - 2)
    upper = places - first
    row = np.arange(len(weights))[:, None] * n_nodes
    size = len(weights) * n_nodes
    flat: Array = np.zeros(size)
    flat += np.bincount((row + first).ravel(), (weights * (1.0 - upper)).ravel(), size)
    flat += np.bincount((row + first + 1).ravel(), (weights * upper).ravel(), size)
    return flat.reshape(len(weights), n_nodes)


def _bumps(grid: Grid, width: float) -> Array:
    """Return the probability that a normal bump about each node gives to each cell, (M, M)."""
    return _bumps_by_spacing(len(grid.axes[0]), width / float(grid.spacing[0]))


@lru_cache(maxsize=8)
def _bumps_by_spacing(n_nodes: int, width: float) -> Array:
    """Return the bumps about nodes of spacing 1."""
    edges = np.arange(n_nodes + 1) - 0.5
    # linear counting and linear interpolation blur by a third of a squared spacing
    sd = np.sqrt(max(width**2 - 1.0 / 3.0, (0.3 * width) ** 2))
    level = ndtr((edges - np.arange(n_nodes)[:, None]) / sd)
    masses = np.diff(level, axis=1)
    return masses / masses.sum(axis=1, keepdims=True)
