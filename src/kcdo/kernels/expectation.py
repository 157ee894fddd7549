"""E k(X, x') when the input x' is itself uncertain (docs/theory.md)."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels.base import Kernel
from kcdo.kernels.gram import cross_gram

_REPLICATES = 8  # independently scrambled point sets, whose spread states the error


def expectation(
    kernel: Kernel, X: NDArray, inputs: GaussianInput | SampleInput, *, n_jobs: int | None = None
) -> Expectation:
    """Return E k(x_i, x') for every query, (Q, N), with its standard error.

    Closed forms where they exist: Gaussian kernel with any Gaussian; Laplace with a diagonal
    Gaussian; sums, and products over independent groups of columns, of those; any kernel with a
    sample. Otherwise scrambled Sobol points, whose error is the spread of eight scramblings. A
    Gaussian without variance is a point, which may be one of the rows.

    Examples
    --------
    >>> from kcdo import Gaussian, GaussianInput
    >>> expectation(Gaussian(1.0), np.array([[0.0]]), GaussianInput([[0.0]], 3.0))
    Expectation(values=array([[0.5]]), error=0.0)
    """
    if isinstance(inputs, SampleInput):
        return Expectation(_sample_mean(kernel, X, inputs, n_jobs), 0.0)
    if X.shape[1] != inputs.mean.shape[1]:
        raise InvalidInputError(
            f"the uncertain inputs have {inputs.mean.shape[1]} columns, the data {X.shape[1]}."
        )
    found, certain = _gaussian(kernel, X, inputs, n_jobs), ~inputs.variances.any(axis=1)
    if certain.any():
        found.values[certain] = cross_gram(kernel, inputs.mean[certain], X, n_jobs=n_jobs)
    return found


def _gaussian(kernel: Kernel, X: NDArray, inputs: GaussianInput, n_jobs: int | None) -> Expectation:
    closed = kernel.gaussian_expectation(X, inputs)
    if closed is not None:
        return Expectation(closed, 0.0)
    inside = kernel.inner_inputs(inputs) if kernel.children else None
    if inside is None:
        return _quasi_random(kernel, X, inputs, n_jobs)
    rows = kernel.inner_rows(X)

    def part(child: Kernel) -> Expectation:
        return expectation(child, rows, inside, n_jobs=n_jobs)

    found = kernel.expectation_of_parts(part, inputs)
    return _quasi_random(kernel, X, inputs, n_jobs) if found is None else found


def _standard_normal_points(n_points: int, p: int) -> Array:
    """Return independently scrambled Sobol sets, one after the other, as standard normals."""
    power = max(0, int(np.ceil(np.log2(n_points / _REPLICATES))))
    sets = [
        qmc.Sobol(p, rng=np.random.default_rng(replicate)).random_base2(power)
        for replicate in range(_REPLICATES)
    ]
    return ndtri(np.clip(np.concatenate(sets), 1e-12, 1 - 1e-12))


def gaussian_draws(inputs: GaussianInput) -> Array:
    """Return quasi-random points of each Gaussian, (Q, S, p); equal weights."""
    p = inputs.mean.shape[1]
    white = _standard_normal_points(inputs.n_points, p)
    if inputs.diagonal:
        return inputs.mean[:, None, :] + white[None] * np.sqrt(inputs.cov)[:, None, :]
    sd = np.sqrt(inputs.variances)
    unit = np.where(sd > 0, sd, 1.0)  # correlations: columns may differ vastly in scale
    values, vectors = np.linalg.eigh(inputs.cov / (unit[:, :, None] * unit[:, None, :]))
    roots = sd[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return inputs.mean[:, None, :] + np.einsum("sp,qkp->qsk", white, roots)


def _sample_mean(kernel: Kernel, X: NDArray, inputs: SampleInput, n_jobs: int | None) -> Array:
    values = np.empty((len(inputs), len(X)))
    for q in range(len(inputs)):  # one sample at a time: memory S x N
        rows = slice(inputs.starts[q], inputs.starts[q + 1])
        values[q] = inputs.weights[rows] @ cross_gram(kernel, inputs.points[rows], X, n_jobs=n_jobs)
    return values


def _quasi_random(
    kernel: Kernel, X: NDArray, inputs: GaussianInput, n_jobs: int | None
) -> Expectation:
    values = np.empty((len(inputs), len(X)))
    error = 0.0
    for q in range(len(inputs)):
        draws = gaussian_draws(inputs[q : q + 1])[0]
        each = cross_gram(kernel, draws, X, n_jobs=n_jobs)
        means = each.reshape(_REPLICATES, -1, len(X)).mean(axis=1)
        values[q] = means.mean(axis=0)
        error = max(error, float(means.std(axis=0, ddof=1).max() / np.sqrt(_REPLICATES)))
    return Expectation(values, error)
