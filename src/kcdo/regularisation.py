"""How strongly to regularise: the paper's finite-sample bound and schemes, printed and corrected.

Bound and schemes are for a *probability* reference measure and nodes drawn i.i.d. from it. For
Lebesgue measure on a box of volume V multiply the α by V. A regular grid is not an i.i.d. sample:
there the bound is no statement, and the schemes are a habit rather than a theorem.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from kcdo.errors import InvalidInputError


@dataclass(frozen=True)
class Bound:
    """A finite-sample bound and the probability with which it holds."""

    error: float
    probability: float


def finite_sample_bound(
    n_samples: int,
    n_nodes: int,
    alpha: float,
    *,
    a: float = 0.25,
    b: float = 0.25,
    embedding_norm: float = 1.0,
    kernel_bound: float = 1.0,
) -> Bound:
    """Bound ‖u_α - û‖ for the reconstruction with N samples and M i.i.d. nodes.

    ‖u_α - û‖ <= M^{-b}/α² (‖μ‖ + N^{-a}) + N^{-a}/α with probability at least
    [1 - 2 exp(-N^{1-2a}/(8c²))] [1 - 2 exp(-M^{1-2b}/(8c⁴))], 0 < a, b < 1/2,
    c = sup √ℓ(y,y). The paper prints N^{-2a} and M^{-2b}; its proof, and its own probabilities,
    give these exponents.

    Parameters
    ----------
    n_samples, n_nodes : int
        N and M.
    alpha : float
        Ridge α, for a probability measure ρ.
    a, b : float
        Exponents in (0, 1/2).
    embedding_norm : float
        ‖μ‖.
    kernel_bound : float
        c.

    Examples
    --------
    >>> finite_sample_bound(10**8, 10**8, alpha=0.5).error.__round__(3)
    0.06
    """
    _check_open_interval(a, 0.5, "a")
    _check_open_interval(b, 0.5, "b")
    if min(n_samples, n_nodes) < 1 or not alpha > 0 or not kernel_bound > 0:
        raise InvalidInputError("N and M must be at least 1; alpha and kernel_bound positive.")
    eps_data, eps_nodes = float(n_samples) ** -a, float(n_nodes) ** -b
    error = eps_nodes / alpha**2 * (embedding_norm + eps_data) + eps_data / alpha
    data = 1 - 2 * np.exp(-(float(n_samples) ** (1 - 2 * a)) / (8 * kernel_bound**2))
    nodes = 1 - 2 * np.exp(-(float(n_nodes) ** (1 - 2 * b)) / (8 * kernel_bound**4))
    return Bound(error, float(max(data, 0.0) * max(nodes, 0.0)))


class Scheme(ABC):
    """A rule that turns sample sizes into a ridge."""

    @abstractmethod
    def __call__(self, n_samples: float, n_nodes: int) -> float:
        """Return the ridge for N samples and M nodes."""


@dataclass(frozen=True)
class PowerScheme(Scheme):
    """factor · N^{-exponent}.

    Examples
    --------
    >>> PowerScheme(0.5, 0.5)(100, 64)
    0.05
    """

    factor: float = 0.1
    exponent: float = 0.5

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise InvalidInputError(f"PowerScheme: factor must be positive; got {self.factor}.")

    def __call__(self, n_samples: float, n_nodes: int) -> float:
        """Return the ridge."""
        return self.factor * float(n_samples) ** -self.exponent


@dataclass(frozen=True)
class _ConsistentScheme(Scheme):
    a: float = 0.5
    b: float = 0.5
    c: float = 1.0

    def __post_init__(self) -> None:
        _check_open_interval(self.a, 0.5, "a", closed=True)
        _check_open_interval(self.b, 0.5, "b", closed=True)
        _check_open_interval(self.c, 1.0, "c", closed=True)


@dataclass(frozen=True)
class PrintedScheme(_ConsistentScheme):
    """max(M^{-b}, N^{-2a})^c as printed in the paper; its experiments take the limits ½, ½, 1.

    Examples
    --------
    >>> PrintedScheme()(3750, 3844).__round__(5)
    0.01613
    """

    def __call__(self, n_samples: float, n_nodes: int) -> float:
        """Return the ridge."""
        return max(float(n_nodes) ** -self.b, float(n_samples) ** (-2 * self.a)) ** self.c


@dataclass(frozen=True)
class CorrectedScheme(_ConsistentScheme):
    """max(M^{-b/2}, N^{-a})^c: the scheme under which the corrected bound tends to 0, c < 1.

    Examples
    --------
    >>> CorrectedScheme(a=0.4, b=0.4, c=0.9)(10_000, 10_000).__round__(4)
    0.1905
    """

    def __call__(self, n_samples: float, n_nodes: int) -> float:
        """Return the ridge."""
        return max(float(n_nodes) ** (-self.b / 2), float(n_samples) ** -self.a) ** self.c


def _check_open_interval(value: float, top: float, name: str, *, closed: bool = False) -> None:
    if not (0 < value < top or (closed and value == top)):
        raise InvalidInputError(f"{name} must lie between 0 and {top:g}; got {value!r}.")
