"""What a user asks of a reference measure: a box, or a sample."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.measures.nodes import Grid, Measure, Scattered
from kcdo.memory import require_memory

MAX_NODES = {1: 4096, 2: 128, 3: 48}  # nodes per axis when their number is chosen from the data
_MOST_ON_AN_AXIS = 100_000


class Reference(ABC):
    """An option that says which reference measure to make once the outputs are known."""

    @abstractmethod
    def realise(self, Y: Array, scales: Array | None = None) -> Measure:
        """Return the measure for outputs Y (N, d) and, if known, the output kernel's scales."""


@dataclass(frozen=True)
class _Box(Reference):
    """Corners of a box: given, or the range of the data widened by a margin."""

    lower: float | tuple[float, ...] | None = None
    upper: float | tuple[float, ...] | None = None
    margin: float = 0.1

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _corner(getattr(self, name), name))
        if not 0 <= self.margin < np.inf:
            raise InvalidInputError(f"margin must be >= 0 and finite; got {self.margin!r}.")
        if self.lower is not None and self.upper is not None:
            d = max(np.size(self.lower), np.size(self.upper))
            _check_width(_per_column(self.lower, d, "lower"), _per_column(self.upper, d, "upper"))

    def corners(self, Y: Array, scales: Array | None) -> tuple[Array, Array]:
        """Return the corners (d,), (d,): open sides get the data's range and a margin.

        The margin is a share of the range, and at least three output-kernel scales.
        """
        d = Y.shape[1]
        low, high = Y.min(axis=0), Y.max(axis=0)
        widen = self.margin * (high - low)
        widen = widen if scales is None else np.maximum(widen, 3.0 * scales)
        smallest = 1e-12 * np.maximum(np.abs(low), np.abs(high))
        widen = np.where(high - low + widen > smallest, widen, np.maximum(smallest, 1e-300) * 1e3)
        lower = low - widen if self.lower is None else _per_column(self.lower, d, "lower")
        upper = high + widen if self.upper is None else _per_column(self.upper, d, "upper")
        _check_width(lower, upper)
        return lower, upper


@dataclass(frozen=True)
class UniformBox(_Box):
    """Lebesgue measure on a box, as a regular grid of cell-centred nodes.

    Parameters
    ----------
    lower, upper : float or (d,), optional
        Corners; a side that is not given follows the data.
    margin : float
        Share of the data's range added on a side that is not given.
    nodes : int or (d,), optional
        Nodes per axis; by default the spacing is a quarter of the output kernel's scale.
    edge_nodes : bool
        Put the outer nodes on the corners, as the paper does: the box grows by half a cell.

    Examples
    --------
    >>> grid = UniformBox(0.0, 1.0, nodes=4).realise(np.array([[0.5]]))
    >>> grid.nodes.ravel(), grid.cell_volume
    (array([0.125, 0.375, 0.625, 0.875]), 0.25)
    """

    nodes: int | tuple[int, ...] | None = None
    edge_nodes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes is not None:
            counts = np.atleast_1d(np.asarray(self.nodes))
            if counts.dtype.kind not in "iu" or np.any(counts < 2):
                raise InvalidInputError(
                    f"UniformBox: nodes must be whole numbers >= 2; got {self.nodes!r}."
                )
            if counts.max() > _MOST_ON_AN_AXIS:
                raise InvalidInputError(
                    f"UniformBox: {counts.max()} nodes on one axis would take minutes, and need "
                    "not: four in the scale of the output kernel resolve it. Give at most "
                    f"{_MOST_ON_AN_AXIS}."
                )
            value = int(counts[0]) if np.ndim(self.nodes) == 0 else tuple(counts.tolist())
            object.__setattr__(self, "nodes", value)

    def realise(self, Y: Array, scales: Array | None = None) -> Grid:
        """Return the grid."""
        lower, upper = self.corners(Y, scales)
        d = len(lower)
        if self.nodes is not None:
            counts = _per_column(self.nodes, d, "nodes").astype(int)
        else:
            most = MAX_NODES.get(d, 16)
            wanted = 4.0 * (upper - lower) / (scales if scales is not None else upper - lower)
            counts = np.clip(np.ceil(wanted), 16, most).astype(int)
        if self.edge_nodes:
            half = 0.5 * (upper - lower) / (counts - 1)
            lower, upper = lower - half, upper + half
        require_memory(
            16.0 * float(np.prod(counts.astype(float))) * d,
            f"a grid of {' x '.join(map(str, counts))} nodes",
            "give fewer nodes, or scattered ones: kcdo.QuasiRandomBox or kcdo.Sample.",
        )
        return Grid(lower, upper, tuple(counts.tolist()))


@dataclass(frozen=True)
class QuasiRandomBox(_Box):
    """Lebesgue measure on a box, carried by scrambled Sobol points.

    Parameters
    ----------
    lower, upper, margin
        As for :class:`UniformBox`.
    n_nodes : int
        Number of points, best a power of two.
    seed : int
        Seed of the scrambling.

    Examples
    --------
    >>> QuasiRandomBox(0.0, 2.0, n_nodes=8).realise(np.array([[1.0]])).total
    2.0
    """

    n_nodes: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_nodes < 2:
            raise InvalidInputError(f"QuasiRandomBox: n_nodes must be >= 2; got {self.n_nodes}.")

    def realise(self, Y: Array, scales: Array | None = None) -> Scattered:
        """Return the points, each with an equal share of the volume."""
        lower, upper = self.corners(Y, scales)
        power = int(np.ceil(np.log2(self.n_nodes)))
        points = qmc.Sobol(len(lower), rng=np.random.default_rng(self.seed)).random_base2(power)
        points = lower + (upper - lower) * points[: self.n_nodes]
        volume = float(np.prod(upper - lower))
        return Scattered(points, np.full(self.n_nodes, volume / self.n_nodes))


class Sample(Reference):
    """The measure that a sample represents; densities with respect to it are ratios.

    Parameters
    ----------
    points : (M, d) or (M,)
        The sample.
    weights : (M,), optional
        Positive weights v; by default 1/M each, a probability measure.

    Examples
    --------
    >>> Sample([0.0, 1.0, 2.0, 3.0])
    Sample(4 points, total mass 1)
    """

    def __init__(self, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        nodes = np.asarray(points, dtype=float)
        nodes = nodes[:, None] if nodes.ndim == 1 else nodes
        if nodes.ndim != 2 or len(nodes) < 2 or not np.all(np.isfinite(nodes)):
            raise InvalidInputError("Sample needs at least two finite points, as (M, d) or (M,).")
        v = np.full(len(nodes), 1.0 / len(nodes))
        v = v if weights is None else np.asarray(weights, dtype=float)
        if v.shape != (len(nodes),) or not np.all(np.isfinite(v) & (v > 0)):
            raise InvalidInputError("Sample: weights must be one positive number per point.")
        self.measure = Scattered(nodes, v)

    def to_state(self) -> dict[str, Any]:
        """Return what a file keeps: the measure, which a model may share."""
        return {"measure": self.measure}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Sample":
        """Return the sample of a file."""
        new = cls.__new__(cls)
        new.measure = state["measure"]
        return new

    @classmethod
    def importance(cls, points: ArrayLike, ratio: ArrayLike) -> "Sample":
        """Return the measure with density ``ratio`` = dρ/dq at points drawn from q.

        >>> Sample.importance([0.0, 0.5], ratio=[2.0, 2.0])
        Sample(2 points, total mass 2)
        """
        v = np.asarray(ratio, dtype=float)
        return cls(points, v / max(v.size, 1))

    def realise(self, Y: Array, scales: Array | None = None) -> Scattered:
        """Return the sample as a measure; it must have as many columns as Y."""
        if Y.shape[1] != self.measure.dim:
            raise InvalidInputError(
                f"the reference sample has {self.measure.dim} columns, the outputs {Y.shape[1]}."
            )
        return self.measure

    def __repr__(self) -> str:
        return f"Sample({self.measure.n_nodes} points, total mass {self.measure.total:g})"


def _corner(value: object, name: str) -> float | tuple[float, ...] | None:
    if value is None:
        return None
    array = np.asarray(value, dtype=float)
    if array.ndim > 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise InvalidInputError(f"{name} must be finite numbers, one or one per output.")
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _per_column(value: object, d: int, name: str) -> Array:
    array = np.asarray(value, dtype=float)
    if array.ndim and len(array) != d:
        raise InvalidInputError(
            f"{name} has {len(array)} entries, but there are {d} output columns."
        )
    return np.broadcast_to(array, (d,)).copy()


def _check_width(lower: Array, upper: Array) -> None:
    if not np.all(upper > lower):
        raise InvalidInputError(
            f"the reference box has no width: lower {lower} must be below upper {upper} in "
            "every column."
        )
