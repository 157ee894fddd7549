"""Spectral filters: regularised inverses of a positive operator, as functions of its eigenvalues.

A filter is the shape only; its strength, the ridge, is an argument, so that the estimators can
choose it. With C = C_ρ, S = D^{1/2} L_Z D^{1/2} and its eigenvalues λ (docs/theory.md),

    u(Z) = D^{-1/2} g(S) D^{1/2} μ(Z),
    u(y) = g(0) μ(y) + ℓ(y, Z) D^{1/2} h(S) D^{1/2} μ(Z),   h(λ) = (g(λ) - g(0)) / λ,

and the second line, exact everywhere, equals the first on the nodes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError


class Filter(ABC):
    """A regularised inverse g(λ), about 1/λ for λ well above the ridge."""

    @abstractmethod
    def gain(self, eigenvalues: Array, ridge: float) -> Array:
        """Return g(λ)."""

    @abstractmethod
    def gain_at_zero(self, ridge: float) -> float:
        """Return g(0)."""

    @abstractmethod
    def slope(self, eigenvalues: Array, ridge: float) -> Array:
        """Return h(λ) = (g(λ) - g(0)) / λ, without cancellation."""

    def gain_powers(self, ridge: float) -> Sequence[float] | None:
        """Return c with g(λ) = Σ_i c_i r^i, r = 1/(λ + ridge), i = 1, 2, ...; None if none are.

        Such a filter needs solves only, not eigenvectors.
        """
        return None

    def slope_powers(self, ridge: float) -> Sequence[float] | None:
        """Return the same for h(λ)."""
        return None

    def ridge_derivative(self, eigenvalues: Array, ridge: float) -> Array | None:
        """Return ∂g/∂ridge, or None where g is no smooth function of it."""
        return None


@dataclass(frozen=True)
class Tikhonov(Filter):
    """g(λ) = 1 / (λ + ridge).

    Examples
    --------
    >>> Tikhonov().gain(np.array([0.9]), ridge=0.1)
    array([1.])
    """

    def gain(self, eigenvalues: Array, ridge: float) -> Array:
        """Return g(λ)."""
        return 1.0 / (eigenvalues + ridge)

    def gain_at_zero(self, ridge: float) -> float:
        """Return g(0)."""
        return 1.0 / ridge

    def slope(self, eigenvalues: Array, ridge: float) -> Array:
        """Return h(λ)."""
        return -1.0 / (ridge * (eigenvalues + ridge))

    def gain_powers(self, ridge: float) -> Sequence[float]:
        """G = r."""
        return (1.0,)

    def slope_powers(self, ridge: float) -> Sequence[float]:
        """H = -r / ridge."""
        return (-1.0 / ridge,)

    def ridge_derivative(self, eigenvalues: Array, ridge: float) -> Array:
        """Return -r²."""
        return -1.0 / (eigenvalues + ridge) ** 2


@dataclass(frozen=True)
class IteratedTikhonov(Filter):
    """g(λ) = (1 - (ridge / (λ + ridge))^times) / λ: higher order, less bias.

    Examples
    --------
    >>> IteratedTikhonov(2).gain(np.array([1.0]), ridge=1.0)
    array([0.75])
    """

    times: int = 2

    def __post_init__(self) -> None:
        if self.times < 1:
            raise InvalidInputError(f"IteratedTikhonov: times must be >= 1; got {self.times}.")

    def gain(self, eigenvalues: Array, ridge: float) -> Array:
        """Return g(λ) = Σ_{i<times} r^i / (λ + ridge), r = ridge / (λ + ridge)."""
        r = ridge / (eigenvalues + ridge)
        return sum(r**i for i in range(self.times)) / (eigenvalues + ridge)

    def gain_at_zero(self, ridge: float) -> float:
        """Return g(0)."""
        return self.times / ridge

    def slope(self, eigenvalues: Array, ridge: float) -> Array:
        """Return h(λ) = -Σ_i Σ_{l<=i} r^l / (ridge (λ + ridge))."""
        r = ridge / (eigenvalues + ridge)
        powers = sum((self.times - i) * r**i for i in range(self.times))
        return -powers / (ridge * (eigenvalues + ridge))

    def gain_powers(self, ridge: float) -> Sequence[float]:
        """G = Σ_i ridge^i r^{i+1}."""
        return tuple(ridge**i for i in range(self.times))

    def slope_powers(self, ridge: float) -> Sequence[float]:
        """H = -Σ_i (times - i) ridge^{i-1} r^{i+1}."""
        return tuple(-(self.times - i) * ridge ** (i - 1) for i in range(self.times))

    def ridge_derivative(self, eigenvalues: Array, ridge: float) -> Array:
        """Return -times (ridge r)^{times - 1} r²."""
        r = 1.0 / (eigenvalues + ridge)
        return -self.times * (ridge * r) ** (self.times - 1) * r**2


@dataclass(frozen=True)
class SpectralCutoff(Filter):
    """g(λ) = 1/λ for λ >= ridge, else 0.

    Examples
    --------
    >>> SpectralCutoff().gain(np.array([0.5, 0.01]), ridge=0.1)
    array([2., 0.])
    """

    def gain(self, eigenvalues: Array, ridge: float) -> Array:
        """Return g(λ)."""
        return np.where(eigenvalues >= ridge, 1.0, 0.0) / np.maximum(eigenvalues, ridge)

    def gain_at_zero(self, ridge: float) -> float:
        """Return g(0)."""
        return 0.0

    def slope(self, eigenvalues: Array, ridge: float) -> Array:
        """Return h(λ)."""
        return np.where(eigenvalues >= ridge, 1.0, 0.0) / np.maximum(eigenvalues, ridge) ** 2


@dataclass(frozen=True)
class PrintedForm(Filter):
    """g(λ) = λ / (λ + ridge)²: what the paper prints, β ∝ (L_Z + a)⁻² L_ZY w.

    The paper's ridge a belongs to L_Z without weights and to an unnormalised kernel:
    ridge = a · v / ∫k for equal node weights v.

    Examples
    --------
    >>> PrintedForm().gain(np.array([1.0]), ridge=1.0)
    array([0.25])
    """

    def gain(self, eigenvalues: Array, ridge: float) -> Array:
        """Return g(λ)."""
        return eigenvalues / (eigenvalues + ridge) ** 2

    def gain_at_zero(self, ridge: float) -> float:
        """Return g(0)."""
        return 0.0

    def slope(self, eigenvalues: Array, ridge: float) -> Array:
        """Return h(λ)."""
        return 1.0 / (eigenvalues + ridge) ** 2

    def gain_powers(self, ridge: float) -> Sequence[float]:
        """G = r - ridge r²."""
        return (1.0, -ridge)

    def slope_powers(self, ridge: float) -> Sequence[float]:
        """H = r²."""
        return (0.0, 1.0)

    def ridge_derivative(self, eigenvalues: Array, ridge: float) -> Array:
        """Return -2 λ r³."""
        return -2.0 * eigenvalues / (eigenvalues + ridge) ** 3
