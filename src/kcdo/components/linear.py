"""A linear regression with normal noise: what few rows tell of outputs that follow a line.

Columns z are standardised, the slopes have the prior N(0, σ²/R), and intercept and log σ any value.
With ω the weights of the rows, W their sum and G = ZᵀΩZ + R I about the means, the next output is

    y ~ t_{W-1}( ȳ + (z - z̄)ᵀβ ,  S/(W-1) (1 + 1/W + (z - z̄)ᵀG⁻¹(z - z̄)) ) ,   β = G⁻¹ZᵀΩy ,

S the penalised sum of squares yᵀΩ(y - ŷ). Without row i, of leverage h_i = ω_i q_i, the sum is
S - ω_i e_i²/(1 - h_i), the error e_i/(1 - h_i) and the variance ratio 1 + q_i/(1 - h_i).

A line says nothing about inputs far from those of the rows: as these are left behind, mean and
variance become those of all outputs.
"""

from dataclasses import dataclass, replace

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.distributions import Batch, StudentTail
from kcdo.rows import Rows
from kcdo.systems import Queries

NAMES = ("linear",)
_LEAST_FREEDOM = 3.0  # degrees of freedom: a mean and a variance exist
_LEAST_REMAINING = 1e-12  # of 1 - leverage
_LEAST_SQUARE = 1e-290
_REACH = 2.0  # sds of a column beyond the rows, in which belief in a line falls to e^-1/2


@dataclass(frozen=True, eq=False)
class LinearParameters:
    """The columns, how they are standardised, and the ridge R of their slopes."""

    n_inputs: int
    columns: Integers  # (p,) of the inputs
    offset: Array  # (p,)
    scale: Array  # (p,)
    lower: Array  # (p,) least and largest values that the line is believed at, standardised
    upper: Array
    ridge: float

    names = NAMES
    dim = 1
    kernels = ()

    def __post_init__(self) -> None:
        shape(self.columns, None)
        for values in (self.offset, self.scale, self.lower, self.upper):
            shape(values, len(self.columns))
        exist = (self.columns >= 0) & (self.columns < self.n_inputs)
        need(np.all(exist), "columns that do not exist")
        need(0 < self.ridge < np.inf, "a ridge that is not positive")
        need(len(self.scale) and self.scale.min() > 0, "columns without a scale")

    def standardised(self, X: Array) -> Array:
        """Return the columns of inputs in their units."""
        return (X[:, self.columns] - self.offset) / self.scale

    def belief(self, z: Array) -> Array:
        """Return how far the line is believed at standardised inputs, (Q,): 1 among the rows."""
        beyond = np.maximum(np.maximum(self.lower - z, z - self.upper), 0.0)
        return np.exp(-0.5 * np.minimum(beyond.max(axis=1) / _REACH, 1e3) ** 2)

    def fit(self, rows: Rows, settings: Settings) -> "LinearRegression":
        """Return the component of these rows."""
        return LinearSystem.of(self, rows).factor(self.ridge)


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """Rows about their means, as singular vectors: to be solved for any ridge."""

    parameters: LinearParameters
    rows: Rows
    means: tuple[Array, float]  # of the standardised columns, and of the outputs
    left: Array  # (N, r), of √ω z
    singular: Array  # (r,)
    right: Array  # (r, p)

    @classmethod
    def of(cls, parameters: LinearParameters, rows: Rows) -> "LinearSystem":
        """Take the rows apart, once."""
        Z, weights = parameters.standardised(rows.X), rows.weights
        mean = np.average(Z, axis=0, weights=weights)
        level = float(np.average(rows.Y[:, 0], weights=weights))
        roots = np.sqrt(weights)[:, None]
        parts = np.linalg.svd(roots * (Z - mean), full_matrices=False)
        return cls(parameters, rows, (mean, level), *parts)

    def factor(self, ridge: float) -> "LinearRegression":
        """Return the regression with one ridge."""
        weights, (mean, level) = self.rows.weights, self.means
        total, roots = weights.sum(), np.sqrt(weights)
        centred = self.rows.Y[:, 0] - level
        powers = self.singular**2 + ridge
        projected = self.left.T @ (roots * centred)
        slopes = (projected * self.singular / powers) @ self.right
        errors = centred - (self.left @ (projected * self.singular**2 / powers)) / roots
        q = 1.0 / total + (self.left**2 @ (self.singular**2 / powers)) / weights
        squares = float(weights @ (centred * errors))
        return LinearRegression(
            replace(self.parameters, ridge=ridge),
            mean,
            level,
            slopes,
            self.right,
            powers,
            max(squares, _LEAST_SQUARE),
            max(float(weights @ centred**2), _LEAST_SQUARE),
            float(total),
            _LeftOut(self.rows.Y[:, 0], errors, q, weights),
        )


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """What held-out distributions of the training rows need."""

    y: Array
    errors: Array  # of the fit
    q: Array  # leverages over weights
    weights: Array


@dataclass(frozen=True, eq=False)
class LinearRegression:
    """x ↦ a Student t about a line, as wide as the noise and as what is unknown of the line."""

    parameters: LinearParameters
    mean: Array  # (p,) of the standardised columns
    level: float  # mean of the outputs
    slopes: Array  # (p,)
    right: Array  # (r, p) singular vectors
    powers: Array  # (r,) squared singular values and ridge
    squares: float  # S
    all_squares: float  # of the outputs about their mean
    total: float  # W
    left_out: _LeftOut | None = None

    names = NAMES
    linear = False
    exact_held_out = True
    dim = 1

    def __post_init__(self) -> None:
        p = len(self.parameters.offset)
        for values in (self.mean, self.slopes):
            shape(values, p)
        shape(self.right, len(self.powers), p)
        need(min(self.squares, self.all_squares, self.total) > 0, "a regression of no rows")
        need(np.all(self.powers >= self.parameters.ridge), "singular values")

    @property
    def n_inputs(self) -> int:
        """Number of columns of the inputs, of which it may see some."""
        return self.parameters.n_inputs

    @property
    def nbytes(self) -> int:
        """Memory of the regression."""
        return self.right.nbytes + self.slopes.nbytes

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return len(self.powers)

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the distributions at points, by name."""
        assert isinstance(queries, np.ndarray), "uncertain inputs are asked at points"
        z, ridge = self.parameters.standardised(queries), self.parameters.ridge
        belief = self.parameters.belief(z)
        z = np.where(belief[:, None] > 0, z - self.mean, 0.0)
        # G⁻¹ is 1/R but for the directions that the rows know
        known = (z @ self.right.T) ** 2 @ (1.0 / ridge - 1.0 / self.powers)
        ratio = 1.0 + 1.0 / self.total + np.maximum(np.sum(z**2, axis=1) / ridge - known, 0.0)
        squares = belief * self.squares * ratio + (1.0 - belief) * self.all_squares
        return self._about(self.level + belief * (z @ self.slopes), squares, 1.0)

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Return the distributions of some training rows without themselves, by name."""
        assert self.left_out is not None, "the training rows are gone"
        y, errors, q, weights = (values[rows] for values in vars(self.left_out).values())
        one_minus_leverage = np.maximum(1.0 - weights * q, _LEAST_REMAINING)
        left = self.squares - weights * errors**2 / one_minus_leverage
        squares = np.maximum(left, _LEAST_SQUARE) * (1.0 + q / one_minus_leverage)
        return self._about(y - errors / one_minus_leverage, squares, 1.0 + weights)

    def without_training(self) -> "LinearRegression":
        """Return what predictions need."""
        return replace(self, left_out=None)

    def _about(self, location: Array, squares: Array, gone: Array | float) -> dict[str, Batch]:
        """Return Student distributions; ``gone`` of the total weight are no degrees of freedom."""
        freedom = np.maximum(self.total - gone, _LEAST_FREEDOM)
        scale = np.sqrt(squares / freedom)
        tail = StudentTail(location[:, None], scale[:, None], float(np.min(freedom)))
        return {"linear": tail}
