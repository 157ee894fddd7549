"""Linear algebra that knows no kernels: factorisations, structured operators, spectral filters."""

from kcdo.linalg.cholesky import CholeskyFactor
from kcdo.linalg.filters import (
    Filter,
    IteratedTikhonov,
    PrintedForm,
    SpectralCutoff,
    Tikhonov,
)
from kcdo.linalg.spectral import DenseSpectrum, KroneckerSpectrum

__all__ = [
    "CholeskyFactor",
    "DenseSpectrum",
    "Filter",
    "IteratedTikhonov",
    "KroneckerSpectrum",
    "PrintedForm",
    "SpectralCutoff",
    "Tikhonov",
]
