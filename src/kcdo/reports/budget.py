"""How much a report may compute: a minute, divided among its parts by how fast a model answers."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kcdo.metrics.importance import mean_and_log_sd
from kcdo.progress import SILENT
from kcdo.reports.columns import FittedModel
from kcdo.reports.curves import Axis, compute_curves
from kcdo.reports.effects import predicted_statistics
from kcdo.tables import table_columns

_SECONDS = {"importances": 6.0, "accuracy": 9.0, "effects": 8.0, "curves": 24.0}
_PER_OUTPUT = 0.1  # of these seconds for each of several outputs: about what a report of one takes
_QUICK = 0.5  # seconds; a probe that is slower is not repeated
_LEVELS = ["mean", "q05", "q50", "q95"]


@dataclass(frozen=True)
class Budget:
    """Seconds that one query takes, in each part of a report, as measured, and those there are."""

    seconds: dict[str, float]
    share: float = 1.0  # of the minute

    @classmethod
    def measured(cls, model: FittedModel, X: Any, axes: Sequence[Axis]) -> Self:
        """Ask a model about rows as the parts of a report will, outputs along their axes."""
        asked = {
            "importances": lambda: mean_and_log_sd(model.conditional(X)),
            "accuracy": lambda: _ask_scores(model, X, axes),
            "effects": lambda: predicted_statistics(model.conditional(X)),
            "curves": lambda: _ask_curves(model, X, axes),
        }
        n, d = len(model.conditional(X)), len(axes)
        share = 1.0 if d == 1 else min(1.0, _PER_OUTPUT * d)
        return cls({what: _time(work) / n for what, work in asked.items()}, share)

    def queries(self, what: str, least: int, most: int) -> int:
        """Return how many queries a part of the report may ask.

        Rounded to a power of two times ``most``, so that the same model on the same machine makes
        the same report.
        """
        allowed = self.share * _SECONDS[what] / max(self.seconds[what], 1e-9)
        if allowed >= most:
            return most
        halvings = math.ceil(math.log2(most / allowed))
        return max(least, most >> halvings)


def _ask_scores(model: FittedModel, X: Any, axes: Sequence[Axis]) -> None:
    dist = model.conditional(X)
    middle = dist.summary(_LEVELS)["q50"].reshape(len(dist), -1)
    for k, axis in enumerate(axes):
        one = dist if dist.flat else dist.marginal(k)
        one.cdf(axis.edges)
        one.crps(middle[:, k])


def _ask_curves(model: FittedModel, X: Any, axes: Sequence[Axis]) -> None:
    """Ask for what a reader can choose: of several outputs also the pictures of their pairs."""
    flat = model.conditional(X).flat
    compute_curves(model, X, table_columns(X), axes, flat, SILENT)


def _time(work: Callable[[], object]) -> float:
    """Return how long work takes, without what is only done the first time."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
        if times[0] > _QUICK:
            break
    return min(times)
