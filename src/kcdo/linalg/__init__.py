"""Linear algebra that knows no kernels: factorisations, structured operators, spectral filters."""

from kcdo.linalg.cholesky import CholeskyFactor, NotPositiveDefiniteError
from kcdo.linalg.conjugate import ConjugateGradients
from kcdo.linalg.filters import (
    Filter,
    IteratedTikhonov,
    PrintedForm,
    SpectralCutoff,
    Tikhonov,
)
from kcdo.linalg.lowrank import narrow_factors
from kcdo.linalg.pivoting import randomly_pivoted_cholesky
from kcdo.linalg.spectral import (
    DenseSpectrum,
    Inverse,
    KroneckerSpectrum,
    ResolventInverse,
    SpectralInverse,
)
from kcdo.linalg.symmetric import mirrored, symmetric_inverse, weighted_square
from kcdo.linalg.toeplitz import GridToeplitz, grid_places

__all__ = [
    "CholeskyFactor",
    "ConjugateGradients",
    "DenseSpectrum",
    "Filter",
    "GridToeplitz",
    "Inverse",
    "IteratedTikhonov",
    "KroneckerSpectrum",
    "NotPositiveDefiniteError",
    "PrintedForm",
    "ResolventInverse",
    "SpectralCutoff",
    "SpectralInverse",
    "Tikhonov",
    "grid_places",
    "mirrored",
    "narrow_factors",
    "randomly_pivoted_cholesky",
    "symmetric_inverse",
    "weighted_square",
]
