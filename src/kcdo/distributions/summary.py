"""Columns of a summary, all from one pass over the masses."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kcdo.distributions.layouts import Layout
from kcdo.errors import InvalidInputError

Array = NDArray[np.floating]

_NAMES = ("mean", "sd", "var", "mode", "logpdf")


class Summary:
    """What to compute of each chunk of masses, prepared once."""

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        self._layout = layout
        self._columns = list(columns)
        if not self._columns:
            raise InvalidInputError("summary needs at least one column; got none.")
        self._levels = {name: _level(name) for name in self._columns if name not in _NAMES}
        if {"mean", "sd", "var"} & set(self._columns):
            self._centre, first, second = layout.moments()
            self._powers = np.hstack([first, np.einsum("mdd->md", second)])

    @property
    def needs_positive(self) -> bool:
        """Whether a signed density has no answer."""
        return bool(self._levels) or "logpdf" in self._columns

    @property
    def needs_outputs(self) -> bool:
        """Whether Y must be given."""
        return "logpdf" in self._columns

    def compute(self, masses: Array, Y: Array | None) -> dict[str, Array]:
        """Return the columns of one chunk: (q, d) each, (q,) for logpdf."""
        found: dict[str, Array] = {}
        if hasattr(self, "_powers"):
            mean, square = np.split(masses @ self._powers, 2, axis=1)
            var = square - mean**2
            found["mean"] = mean + self._centre
            found["var"] = np.where(var >= 0, var, np.nan)
            found["sd"] = np.sqrt(found["var"])
        if "mode" in self._columns:
            found["mode"] = self._layout.mode(masses)
        if Y is not None and self.needs_outputs:
            found["logpdf"] = self._logpdf(masses, Y)
        if self._levels:
            values = self._layout.quantile(masses, np.array(list(self._levels.values())))
            found.update({name: values[:, k] for k, name in enumerate(self._levels)})
        return {name: found[name] for name in self._columns}

    def _logpdf(self, masses: Array, Y: Array) -> Array:
        bumps = self._layout.pdf_matrix(Y)  # (M, q): only the diagonal of masses @ bumps is wanted
        if isinstance(bumps, np.ndarray):
            density = np.einsum("qm,mq->q", masses, bumps)
        else:
            density = np.asarray(bumps.T.multiply(masses).sum(axis=1)).ravel()
        with np.errstate(divide="ignore"):
            return np.log(density)


def _level(name: str) -> float:
    try:
        level = float(name[1:]) / 100 if name.startswith("q") else float("nan")
    except ValueError:
        level = float("nan")
    if not 0 <= level <= 1:
        raise InvalidInputError(
            f"unknown column {name!r} in a summary: use {', '.join(_NAMES)} or quantiles such as "
            "q05, q50, q97.5."
        )
    return level
