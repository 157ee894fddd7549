"""What a map of outputs is; no map, and one map per output."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.consistency import need
from kcdo.errors import InvalidInputError


class Transform(ABC):
    """A map T of each column onto the whole line, smooth and strictly increasing."""

    #: whether T⁻¹ grows no faster than a line, so that a few points give moments through it
    nearly_linear = False

    @abstractmethod
    def forward(self, y: Array) -> Array:
        """T(y); -inf and inf at the bounds and beyond them."""

    @abstractmethod
    def inverse(self, t: Array) -> Array:
        """T⁻¹(t)."""

    @abstractmethod
    def log_derivative(self, y: Array) -> Array:
        """Logarithm of T'(y), for y strictly within the bounds."""

    @abstractmethod
    def log_slope(self, t: Array) -> Array:
        """Logarithm of T'(y) at y = T⁻¹(t), finite even where y is a bound but for rounding."""

    @abstractmethod
    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether each entry lies strictly within the bounds."""

    def kinks(self) -> Array:
        """Return the values of T, (K,), between which it is smooth: its slope is continuous there.

        Integrals are cut there. Of one column.
        """
        return np.empty(0)

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries that lie exactly on a bound moved inside."""
        return y

    def of_columns(self, dims: Sequence[int]) -> "Transform":
        """Return the map of some columns."""
        return self


@dataclass(frozen=True)
class Identity(Transform):
    """No bounds: T(y) = y."""

    def forward(self, y: Array) -> Array:
        """Return y."""
        return y

    def inverse(self, t: Array) -> Array:
        """Return t."""
        return t

    def log_derivative(self, y: Array) -> Array:
        """Return zeros."""
        return np.zeros_like(y)

    def log_slope(self, t: Array) -> Array:
        """Return zeros."""
        return np.zeros_like(t)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Return True for every number that is finite."""
        return np.isfinite(y)


@dataclass(frozen=True)
class Columns(Transform):
    """One map per output column.

    >>> from kcdo.transforms import Between
    >>> Columns((Identity(), Between(0.0, 1.0))).forward(np.array([[3.0, 0.5]]))
    array([[3., 0.]])
    """

    parts: tuple[Transform, ...]

    def __post_init__(self) -> None:
        need(self.parts, "a transform of no outputs")
        nested = any(isinstance(part, Columns) for part in self.parts)
        need(not nested, "transforms in transforms")

    def forward(self, y: Array) -> Array:
        """Return T_i(y_i) of each column."""
        return self._each("forward", y)

    def inverse(self, t: Array) -> Array:
        """Return T_i⁻¹(t_i) of each column."""
        return self._each("inverse", t)

    def log_derivative(self, y: Array) -> Array:
        """Return log T_i'(y_i) of each column."""
        return self._each("log_derivative", y)

    def log_slope(self, t: Array) -> Array:
        """Return log T_i'(y_i) at y_i = T_i⁻¹(t_i) of each column."""
        return self._each("log_slope", t)

    def kinks(self) -> Array:
        """Return the kinks of the one map there is."""
        (part,) = self.parts
        return part.kinks()

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on a bound of their column moved inside."""
        return self._each("off_bounds", y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether each entry lies within its column's bounds."""
        return self._each("inside", y)

    def of_columns(self, dims: Sequence[int]) -> "Columns":
        """Return the maps of some columns."""
        return Columns(tuple(self.parts[i] for i in dims))

    def _each(self, method: str, values: Array) -> Any:
        if values.shape[-1:] != (len(self.parts),):
            raise InvalidInputError(
                f"{len(self.parts)} transforms need (..., {len(self.parts)}) values; got "
                f"{values.shape}."
            )
        columns = [getattr(part, method)(values[..., i]) for i, part in enumerate(self.parts)]
        return np.stack(columns, axis=-1)
