"""How much a report may compute: a minute, divided among its parts by how fast a model answers."""

import math
import time
from dataclasses import dataclass
from typing import Any, Self

from kcdo.arrays import Array
from kcdo.reports.columns import FittedModel

_SECONDS = {"accuracy": 9.0, "effects": 8.0, "curves": 18.0}
_PROBE_REPEATS = 2


@dataclass(frozen=True)
class Budget:
    """Time per query in seconds, as measured."""

    seconds: float

    @classmethod
    def measured(cls, model: FittedModel, X: Any, points: list[Array]) -> Self:
        """Ask a model about rows as the report will, for densities of each output at its points."""
        best = math.inf  # the first time also loads what is loaded once
        for _ in range(_PROBE_REPEATS):
            started = time.perf_counter()
            dist = model.conditional(X)
            dist.summary(["mean", "q05", "q50", "q95"])
            for k, y in enumerate(points):
                one = dist if dist.mean().ndim == 1 else dist.marginal(k)
                one.pdf(y)
                one.square_integral()
            best = min(best, (time.perf_counter() - started) / len(dist))
        return cls(best)

    def queries(self, what: str, least: int, most: int) -> int:
        """Return how many queries a part of the report may ask.

        Rounded to a power of two times ``most``, so that the same model on the same machine makes
        the same report.
        """
        allowed = _SECONDS[what] / max(self.seconds, 1e-9)
        if allowed >= most:
            return most
        halvings = math.ceil(math.log2(most / allowed))
        return max(least, most >> halvings)
