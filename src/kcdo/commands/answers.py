"""What ``kcdo predict`` adds to the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from kcdo.arrays import Array
from kcdo.commands.columns import Place, labels
from kcdo.commands.errors import UsageError
from kcdo.commands.models import Model
from kcdo.conformal.thresholds import least_rows
from kcdo.errors import InvalidInputError

NOVELTY = "novelty"


def _level(text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = -1.0
    if not 0 < level < 1:
        raise UsageError(f"--conformal takes levels between 0 and 1, such as 0.9; got {text!r}.")
    return level


class Answers:
    """Columns of answers for the rows of a table.

    Parameters
    ----------
    model : Model
    stats : list of str
        As :meth:`kcdo.ConditionalDistribution.summary` takes them, and "novelty".
    skip_missing : bool
        Whether rows with missing values get NaN; else they are an error.
    levels : sequence of str
        Levels of conformal intervals, such as "0.9".
    """

    def __init__(
        self, model: Model, stats: list[str], skip_missing: bool, levels: Sequence[str] = ()
    ) -> None:
        self._model, self._stats, self._skip = model, stats, skip_missing
        self._levels = [_level(text) for text in levels]
        self._needs_outputs = "logpdf" in stats
        self._roles = model.roles(outputs=self._needs_outputs)

    def check(self, columns: list[str], where: str) -> list[str]:
        """Return the names of the new columns, after comparing with the file and the model."""
        self._check_stats()
        self._check_levels()
        self._model.check_columns(columns, where, outputs=self._needs_outputs)
        added = self._added()
        clash = next((name for name in added if name in columns or added.count(name) > 1), None)
        if clash is not None:
            raise UsageError(
                f"a column {clash!r} would be there twice: rename the one in {where}, or leave it "
                "out of --stats."
            )
        return added

    def of(self, chunk: Any) -> dict[str, Array]:
        """Return the new columns for some rows."""
        frame = chunk.frame(self._roles)
        for name in self._model.categories:
            frame[name] = labels(frame[name])
        present = ~frame.isna().any(axis=1).to_numpy()
        if present.all():
            return self._computed(frame)
        if not self._skip:
            self._refuse(frame, chunk.place)
        found = {name: np.full(len(frame), np.nan) for name in self._added()}
        if present.any():
            for name, values in self._computed(frame[present]).items():
                found[name][present] = values
        return found

    def _computed(self, frame: pd.DataFrame) -> dict[str, Array]:
        X = self._model.inputs(frame)
        Y = self._model.outputs(frame).to_numpy() if self._needs_outputs else None
        asked = [stat for stat in self._stats if stat != NOVELTY]
        summary = self._model.estimator.conditional(X).summary(asked, Y) if asked else {}
        if NOVELTY in self._stats and self._model.training is not None:
            summary = {**summary, NOVELTY: self._model.training.novelty(self._model.codes(frame))}
        found: dict[str, Array] = {}
        for stat in self._stats:
            values = np.asarray(summary[stat]).reshape(len(frame), -1)
            found.update(zip(self._names(stat), values.T, strict=True))
        if self._model.calibrated is not None:
            prediction = self._model.calibrated.conditional(X)
            for level in self._levels:
                ends = prediction.interval(level).reshape(len(frame), -1)
                found.update(zip(self._ends(level), ends.T, strict=True))
        return found

    def _added(self) -> list[str]:
        stats = [name for stat in self._stats for name in self._names(stat)]
        return [*stats, *(name for level in self._levels for name in self._ends(level))]

    def _ends(self, level: float) -> list[str]:
        """Return the columns of the intervals of one level."""
        sides = [f"lower{100 * level:g}", f"upper{100 * level:g}"]
        return [name for side in sides for name in self._names(side)]

    def _names(self, stat: str) -> list[str]:
        """Return the columns of one statistic: one, or one for each of several targets."""
        if stat in ("logpdf", NOVELTY) or len(self._model.targets) == 1:
            return [stat]
        return [f"{stat}_{target}" for target in self._model.targets]

    def _check_levels(self) -> None:
        predictor = self._model.calibrated
        if not self._levels:
            return
        if predictor is None:
            raise UsageError(
                "--conformal needs a calibrated model: fit it with --calibrate 0.2, or save what "
                "kcdo.conformalize returns."
            )
        for level in self._levels:
            least = least_rows(level)
            if len(predictor) < least:
                raise UsageError(
                    f"--conformal {level:g} needs at least {least} calibration rows, and the model "
                    f"has {len(predictor)}: ask for less, or fit with more of them."
                )

    def _check_stats(self) -> None:
        if NOVELTY in self._stats and self._model.training is None:
            raise UsageError(
                "--stats novelty needs the training rows, which models of kcdo fit remember: this "
                "one was saved in Python, or by an older kcdo."
            )
        for stat in self._stats or [""]:
            if stat in ("mean", "sd", "var", "mode", "logpdf", NOVELTY):
                continue
            try:
                level = float(stat[1:]) if stat.startswith("q") else -1.0
            except ValueError:
                level = -1.0
            if not 0 <= level <= 100:
                raise UsageError(
                    f"--stats does not know {stat!r}: use mean, sd, var, mode, logpdf, novelty, "
                    "and quantiles such as q05 or q97.5."
                )

    def _refuse(self, frame: pd.DataFrame, place: Place) -> None:
        absent = frame.isna()
        name = next(name for name in frame if absent[name].any())
        count, first = int(absent[name].sum()), int(np.argmax(absent[name]))
        raise InvalidInputError(
            f"column {name!r} has {count} missing values, the first in {place.row(first)}: fill "
            "them in, or leave the answers of such rows empty by --skip-missing."
        )
