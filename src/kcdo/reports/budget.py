"""How much a report may compute: a minute, divided among its parts by how fast a model answers."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from kcdo.arrays import Array
from kcdo.reports.columns import FittedModel

_SECONDS = {"accuracy": 9.0, "effects": 8.0, "curves": 16.0}
_QUICK = 0.5  # seconds; a probe that is slower is not repeated
_LEVELS = ["mean", "q05", "q50", "q95"]


@dataclass(frozen=True)
class Budget:
    """Seconds that one query takes, in each part of a report, as measured."""

    seconds: dict[str, float]

    @classmethod
    def measured(cls, model: FittedModel, X: Any, points: list[Array]) -> Self:
        """Ask a model about rows as the report will, for the mass of each output between points."""

        def ask(what: str) -> None:
            dist = model.conditional(X)
            middle = dist.summary(_LEVELS)["q50"].reshape(len(dist), -1)
            for k, y in enumerate(points if what != "effects" else []):
                one = dist if len(points) == 1 and dist.flat else dist.marginal(k)
                one.cdf(y)
                if what == "accuracy":
                    one.crps(middle[:, k])

        n = len(model.conditional(X))
        return cls({what: _time(partial(ask, what)) / n for what in _SECONDS})

    def queries(self, what: str, least: int, most: int) -> int:
        """Return how many queries a part of the report may ask.

        Rounded to a power of two times ``most``, so that the same model on the same machine makes
        the same report.
        """
        allowed = _SECONDS[what] / max(self.seconds[what], 1e-9)
        if allowed >= most:
            return most
        halvings = math.ceil(math.log2(most / allowed))
        return max(least, most >> halvings)


def _time(work: Callable[[], None]) -> float:
    """Return how long work takes, without what is only done the first time."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
        if times[0] > _QUICK:
            break
    return min(times)
