"""Uncertain inputs: a distribution over x in place of a point."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError

_KERNEL_POINTS, _MIXTURE_POINTS = 1024, 256


class GaussianInput:
    """Inputs x' ~ N(mean, cov), one Gaussian per query.

    Parameters
    ----------
    mean : (Q, p)
        Means; a vector of length p is one query.
    cov : (Q, p, p), (Q, p), (p, p), (p,) or number
        Covariances: full or diagonal (variances), one per query or one for all.
    n_points : int, optional
        Quasi-random points per query where no closed form exists: by default 1024 where only a
        kernel is averaged over them, 256 where each point has a distribution of its own, as in
        ``selection="auto"``.

    Examples
    --------
    >>> GaussianInput([[0.0, 1.0], [2.0, 3.0]], cov=[0.1, 0.2])
    GaussianInput(2 queries, 2 columns, diagonal covariance)
    """

    def __init__(self, mean: ArrayLike, cov: ArrayLike, *, n_points: int | None = None) -> None:
        self.mean = np.atleast_2d(_finite(mean, "mean"))
        if self.mean.ndim != 2 or self.mean.size == 0:
            raise InvalidInputError(
                f"mean must be (Q, p) with at least one query; got shape {self.mean.shape}."
            )
        if n_points is not None and n_points < 8:
            raise InvalidInputError(f"n_points must be at least 8; got {n_points}.")
        self.n_points = _KERNEL_POINTS if n_points is None else int(n_points)
        self.mixture_points = _MIXTURE_POINTS if n_points is None else int(n_points)
        self.cov = _covariances(_finite(cov, "cov"), *self.mean.shape)

    @property
    def diagonal(self) -> bool:
        """Whether the columns are independent (``cov`` holds variances, shape (Q, p))."""
        return self.cov.ndim == 2

    @property
    def variances(self) -> Array:
        """Variances of the columns, (Q, p)."""
        return self.cov if self.diagonal else np.diagonal(self.cov, axis1=1, axis2=2)

    def full_cov(self) -> Array:
        """Covariance matrices, (Q, p, p)."""
        return self.cov[:, :, None] * np.eye(self.cov.shape[1]) if self.diagonal else self.cov

    def replace(self, mean: Array) -> "GaussianInput":
        """Return the same uncertainty about other (already checked) means."""
        return self._with(mean, self.cov)

    def columns(self, columns: Sequence[int]) -> "GaussianInput":
        """Return the marginal distribution of some columns."""
        c = np.asarray(columns)
        cov = self.cov[:, c] if self.diagonal else self.cov[:, c[:, None], c[None, :]]
        return self._with(self.mean[:, c], cov)

    def independent(self, groups: Sequence[Sequence[int]]) -> bool:
        """Whether groups of columns have no column in common and are independent of one another."""
        group_of = np.full(self.mean.shape[1], -1)
        for number, columns in enumerate(groups):
            if np.any(group_of[columns] >= 0):
                return False
            group_of[columns] = number
        if self.diagonal:
            return True
        across = group_of[:, None] != group_of[None, :]
        return not np.any(self.cov[:, across])

    def __getitem__(self, rows: slice | Integers) -> "GaussianInput":
        return self._with(self.mean[rows], self.cov[rows])

    def for_mixtures(self) -> "GaussianInput":
        """Return the inputs with as many points as each has a distribution of its own."""
        new = self._with(self.mean, self.cov)
        new.n_points = self.mixture_points
        return new

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        kind = "diagonal" if self.diagonal else "full"
        q, p = self.mean.shape
        return f"GaussianInput({q} queries, {p} columns, {kind} covariance)"

    def _with(self, mean: Array, cov: Array) -> "GaussianInput":
        new = GaussianInput.__new__(GaussianInput)
        new.mean, new.cov = mean, cov
        new.n_points, new.mixture_points = self.n_points, self.mixture_points
        return new


class SampleInput:
    """Inputs given by weighted samples, one sample per query.

    Parameters
    ----------
    samples : (Q, S, p), or a list of (S_i, p)
        The samples; rows may differ in number from query to query when given as a list. A
        vector of numbers is one column; a vector of texts or objects is for a kernel on those.
    weights : (S,), (Q, S) or a list of (S_i,), optional
        Non-negative weights, normalised to sum 1 within each query; equal by default.

    Examples
    --------
    >>> SampleInput([[[0.0], [1.0]], [[2.0], [3.0]]])
    SampleInput(2 queries, 4 points)
    """

    def __init__(self, samples: ArrayLike, weights: ArrayLike | None = None) -> None:
        groups = [_sample_matrix(s) for s in samples]  # type: ignore[union-attr]
        if not groups:
            raise InvalidInputError("SampleInput needs at least one query; got none.")
        if len({g.shape[1:] for g in groups}) > 1:
            raise InvalidInputError(
                "the samples of a SampleInput must agree in their columns; got shapes "
                f"{[g.shape for g in groups[:10]]}."
            )
        self.points = np.concatenate(groups)
        sizes = np.array([len(g) for g in groups])
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.weights = _sample_weights(weights, sizes)

    def replace(self, points: Array) -> "SampleInput":
        """Return the same weights on other (already checked) points."""
        return SampleInput._make(points, self.starts, self.weights)

    def __getitem__(self, rows: slice | Integers) -> "SampleInput":
        chosen = np.arange(len(self))[rows]
        picks = [np.arange(self.starts[i], self.starts[i + 1]) for i in chosen]
        starts = np.concatenate([[0], np.cumsum([len(p) for p in picks])])
        index = np.concatenate(picks)
        return SampleInput._make(self.points[index], starts, self.weights[index])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return f"SampleInput({len(self)} queries, {len(self.points)} points)"

    @classmethod
    def _make(cls, points: Array, starts: Integers, weights: Array) -> "SampleInput":
        new = cls.__new__(cls)
        new.points, new.starts, new.weights = points, starts, weights
        return new


@dataclass(frozen=True)
class Expectation:
    """E k(X, x') for Q uncertain inputs, with its standard error (0 where the form is closed)."""

    values: Array
    error: float

    def scaled(self, factor: float) -> "Expectation":
        """Return the expectation of a kernel times a positive factor."""
        return Expectation(factor * self.values, factor * self.error)

    def plus(self, other: "Expectation") -> "Expectation":
        """Return the expectation of a sum of kernels; its error is at most that of both."""
        return Expectation(self.values + other.values, self.error + other.error)

    def times(self, other: "Expectation") -> "Expectation":
        """Return the expectation of a product of kernels of independent columns.

        Its error is bounded by |ab - a'b'| <= |a| δb + |b| δa + δa δb.
        """
        largest, others = (float(np.abs(each.values).max()) for each in (self, other))
        error = largest * other.error + others * self.error + self.error * other.error
        return Expectation(self.values * other.values, error)


def _finite(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values, dtype=float)
    if not np.all(np.isfinite(array)):
        raise InvalidInputError(f"{name} contains NaN or infinity.")
    return array


def _covariances(cov: Array, q: int, p: int) -> Array:
    """Bring any accepted shape of ``cov`` to (Q, p) or (Q, p, p) and check it."""
    if cov.shape == (q, p) == (p, p) and p > 1 and _could_be_covariance(cov):
        raise InvalidInputError(
            f"cov of shape {cov.shape} is ambiguous for {q} queries with {p} columns: pass "
            "cov[None] for one matrix for all queries, or shape (Q, p, p)."
        )
    if cov.shape in {(q, p), (q, p, p)}:
        pass
    elif cov.shape in {(), (p,)}:
        cov = np.broadcast_to(cov, (q, p))
    elif cov.shape in {(p, p), (1, p, p)}:
        cov = np.broadcast_to(cov.reshape(p, p), (q, p, p))
    else:
        raise InvalidInputError(
            f"cov has shape {cov.shape}; for a mean of shape {(q, p)} give {(q, p, p)}, "
            f"{(q, p)} for variances, or one {(p, p)}, {(p,)} or number for all queries."
        )
    _check_covariances(cov)
    return cov


def _check_covariances(cov: Array) -> None:
    variances = cov if cov.ndim == 2 else np.diagonal(cov, axis1=1, axis2=2)
    if variances.min() < 0:
        raise InvalidInputError("cov is not a covariance: it has a negative variance.")
    if cov.ndim == 2:
        return
    # as correlations, so that columns of very different units are held to the same standard
    sd = np.sqrt(np.where(variances > 0, variances, 1.0))
    correlations = cov / (sd[:, :, None] * sd[:, None, :])
    if np.abs(correlations - np.swapaxes(correlations, 1, 2)).max() > 1e-8:
        raise InvalidInputError("cov is not symmetric.")
    if np.linalg.eigvalsh(correlations).min() < -1e-8:
        raise InvalidInputError(
            "cov is not a covariance: some combination of columns has a negative variance."
        )


def _could_be_covariance(matrix: Array) -> bool:
    """Whether a square array of variances could as well be one positive definite covariance."""
    if not np.array_equal(matrix, matrix.T):
        return False
    return bool(np.linalg.eigvalsh(matrix).min() > 1e-10 * np.abs(matrix).max())


def _sample_matrix(sample: ArrayLike) -> Array:
    matrix = np.asarray(sample)
    if matrix.ndim == 1 and matrix.dtype.kind not in "OSU":  # text and objects stay as they are
        matrix = matrix[:, None]
    if matrix.ndim not in {1, 2} or len(matrix) == 0:
        raise InvalidInputError(
            f"each sample of a SampleInput must be a non-empty (S, p) array; got {matrix.shape}."
        )
    return matrix


def _sample_weights(weights: ArrayLike | None, sizes: Integers) -> Array:
    query = np.repeat(np.arange(len(sizes)), sizes)
    if weights is None:
        return 1.0 / sizes[query]
    rows: list[Any] = list(weights)  # type: ignore[arg-type]
    if not rows or np.ndim(rows[0]) == 0:
        rows = [rows] * len(sizes)
    if [len(r) for r in rows] != list(sizes):
        raise InvalidInputError("weights of a SampleInput must match its samples in length.")
    flat = _finite(np.concatenate([np.asarray(r, dtype=float) for r in rows]), "weights")
    totals = np.add.reduceat(flat, np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    if flat.min() < 0 or totals.min() <= 0:
        raise InvalidInputError("weights of a SampleInput must be >= 0 with a positive sum.")
    return flat / totals[query]
