"""Columns of a summary, all from one pass over the distributions."""

from collections.abc import Sequence

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch
from kcdo.errors import InvalidInputError

_NAMES = ("mean", "sd", "var", "mode", "logpdf")


class Summary:
    """What to compute of each chunk of distributions."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        if not self._columns:
            raise InvalidInputError("summary needs at least one column; got none.")
        self._levels = {name: _level(name) for name in self._columns if name not in _NAMES}

    @property
    def needs_positive(self) -> bool:
        """Whether a signed density has no answer."""
        return bool(self._levels) or "logpdf" in self._columns

    @property
    def needs_outputs(self) -> bool:
        """Whether Y must be given."""
        return "logpdf" in self._columns

    def compute(self, batch: Batch, Y: Array | None) -> dict[str, Array]:
        """Return the columns of one chunk: (q, d) each, (q,) for logpdf."""
        found: dict[str, Array] = {}
        if {"mean", "sd", "var"} & set(self._columns):
            found["mean"], cov = batch.moments()
            var = np.einsum("qdd->qd", cov)
            found["var"] = np.where(var >= 0, var, np.nan)
            found["sd"] = np.sqrt(found["var"])
        if "mode" in self._columns:
            found["mode"] = batch.mode()
        if Y is not None and self.needs_outputs:
            found["logpdf"] = batch.logpdf_pairs(Y)
        if self._levels:
            values = batch.quantile(np.array(list(self._levels.values())))
            found.update({name: values[:, k] for k, name in enumerate(self._levels)})
        return {name: found[name] for name in self._columns}


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
