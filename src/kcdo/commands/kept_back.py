"""A fit to a table, calibrated and tested on rows that are kept back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.commands.console import Console, counted
from kcdo.commands.fitting import fitted, known_rows, labels
from kcdo.commands.holdout import Holdout, Parts
from kcdo.commands.models import Model
from kcdo.commands.naming import Wanted
from kcdo.commands.options import FitOptions
from kcdo.commands.scores import foretold, scores, scores_in_turn
from kcdo.conformal import conformalize
from kcdo.errors import InvalidInputError
from kcdo.estimators.kin import check_kin
from kcdo.metrics.in_turn import MOST_FITTED, n_fits
from kcdo.progress import duration
from kcdo.reports.foretold import Foretold

_REFIT_SHARE = 0.4  # of the time of a fit that chose its parameters: 0.17 to 0.43 was measured


def fit_table(
    frame: pd.DataFrame,
    wanted: Wanted,
    options: FitOptions,
    files: tuple[str, ...],
    holdout: Holdout | None,
    calibration: Holdout | None,
    console: Console,
) -> Model:
    """Fit to the rows that are not kept back; the model remembers how it does on the others."""
    parts = Parts.of(frame, holdout, calibration)
    together = wanted.group or wanted.time
    if together and not labels(frame, wanted):
        option = "--group" if wanted.group else "--time"
        raise InvalidInputError(f"{option} {together}: all rows have the same value: leave it out.")
    model = fitted(frame[parts.fitted], wanted, options)  # the library names its stages
    apart = (int(parts.test.sum()), holdout.words if holdout else "")
    n_calibration = int(parts.calibration.sum())
    model.remember(frame[parts.fitted], files, apart, n_calibration, options.seed)
    if calibration is not None:
        model = _calibrated(model, frame[parts.calibration], console)
    if holdout is None:
        found, kept = _held_out(model, frame[parts.fitted], wanted, console)
    else:
        found, kept = _tested(model, frame[parts.test], console)
    of_table = np.flatnonzero(parts.fitted if holdout is None else parts.test)
    model.remember_test(found, None if kept is None else kept.at(of_table))
    return model


def _calibrated(model: Model, frame: pd.DataFrame, console: Console) -> Model:
    """Return the model with intervals that hold as many outputs as they promise."""
    known = frame[_known(model, frame, "calibration", console)]
    with console.progress("Calibrating", None):
        X, Y = model.inputs(known), model.outputs(known)
        return Model.of(conformalize(model.estimator, X, Y))


def _tested(model: Model, frame: pd.DataFrame, console: Console) -> tuple[dict[str, Any], Foretold]:
    """Return the scores of rows that were kept back, and how some of them were foretold."""
    known = _known(model, frame, "test", console)
    X, Y = model.inputs(frame[known]), model.outputs(frame[known])
    with console.progress("Testing", len(Y)) as show:
        return scores(model, X, Y, show), foretold(model, X, Y).at(np.flatnonzero(known))


def _held_out(
    model: Model, frame: pd.DataFrame, wanted: Wanted, console: Console
) -> tuple[dict[str, Any], Foretold | None]:
    """Return the scores of rows that were fitted, by fits without them, and how these foretold."""
    kin = check_kin(**({"groups": None, "time": None} | labels(frame, wanted)))
    fits, text = n_fits(len(frame), kin), "Held-out scores"
    if fits == 1:  # whose parts are not told
        share = _REFIT_SHARE * min(1.0, MOST_FITTED / len(frame))
        text += f", about {duration(share * model.estimator.report_.seconds)}"
    with console.progress(text, fits if fits > 1 else None) as show:
        own = frame[wanted.weights].to_numpy() if wanted.weights else None
        return scores_in_turn(model, model.inputs(frame), model.outputs(frame), own, kin, show)


def _known(model: Model, frame: pd.DataFrame, what: str, console: Console) -> NDArray[np.bool_]:
    """Return which rows have categories that the model has seen; say how many others there are."""
    known = known_rows(model, frame)
    if not known.all():
        new = counted(int(np.count_nonzero(~known)), "row")
        console.note(f"Left out of the {what}: {new} with a category that no fitted row has.")
    if not known.any():
        raise InvalidInputError("every row kept back has a category that no fitted row has.")
    return known
