"""The page as a whole: gathers the parts, keeps the size, writes the file."""

import datetime
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kcdo._version import __version__
from kcdo.arrays import Integers
from kcdo.atomic import atomic_file
from kcdo.errors import InvalidInputError
from kcdo.metrics.in_turn import held_out_in_turn
from kcdo.metrics.nearness import input_scales
from kcdo.progress import Progress
from kcdo.reports.accuracy import Accuracy, measure_in_parts
from kcdo.reports.budget import Budget
from kcdo.reports.columns import FittedModel
from kcdo.reports.curves import output_axes
from kcdo.reports.effects import measure_effects
from kcdo.reports.explorer import MOST_CURVES, Explorer
from kcdo.reports.rendering import load_template
from kcdo.reports.rows import MeasuredData, worst_section
from kcdo.reports.sections import (
    accuracy_section,
    data_section,
    effects_section,
    parameter_section,
)
from kcdo.reports.shown import IMPORTANCE_QUERIES, Shown

_MOST_BYTES = 10_000_000
_ACCURACY_ROWS = 5000  # beyond, a sample: the scores change in the third digit only
_EFFECT_QUERIES = 8000
_EXAMPLES, _JOINT_EXAMPLES = 128, 32
_PROBES, _JOINT_PROBES = 48, 2
_MARGIN_BYTES = 10_000  # for what the explorer says of its outputs


def write_report(
    model: FittedModel,
    path: str | os.PathLike[str],
    X: Any,
    Y: Any = None,
    *,
    held_out: bool | None = None,
    title: str | None = None,
    output_names: Sequence[str] | None = None,
    max_bytes: int = _MOST_BYTES,
    verbose: bool = False,
) -> Path:
    """Write one HTML file that shows a fitted model: densities to explore, accuracy, data.

    The file needs no network and no other file. The reader moves sliders of the most important
    inputs and sees p(y|x) change; the curves are computed here, on a grid of inputs.

    Parameters
    ----------
    model : ConditionalDensityOperator
        A fitted model.
    path : path
        Where to write; an existing file is replaced only once the new one is complete.
    X : array or data frame (N, p)
        Rows that show what inputs are usual, best rows that the model was not fitted to.
    Y : array or data frame (N,) or (N, d), optional
        Their outputs, from which the accuracy is measured. Rows with missing values are left out.
    held_out : bool, optional
        Whether the model has not seen these rows; the report says so beside the accuracy. If not
        given, they may be those of the fit: each is predicted by a fit with the same parameters to
        others of them, or has been by ``kcdo fit``, whose models keep that. Those fits have 20,000
        rows at most, or 5,000 where the model took more than 45 seconds. Of less than half as many
        rows as were fitted nothing is claimed.
    title : str, optional
        Heading of the page.
    output_names : sequence of str, optional
        Names of the outputs, by default those of the columns of Y.
    max_bytes : int
        Largest size of the file; the grid of inputs gets coarser to keep it.
    verbose : bool
        Show the progress on standard error. The work is bounded to about a minute.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import numpy as np, kcdo, tempfile
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(200)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[:150], y[:150])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_report(model, folder + "/report.html", X[150:], y[150:], held_out=True)
    ...     file.stat().st_size < 1_000_000
    True
    """
    check_is_fitted(model)
    page = load_template("page.html")
    target = _checked_path(path)
    text = _Writer(Shown.of(model, X, Y, output_names), held_out, Progress(verbose)).page(
        page, title, max_bytes
    )
    with atomic_file(target) as file:
        file.write(text.encode())
    return target


class _Writer:
    """Measures a model on the data of a report and fills in the page."""

    def __init__(self, shown: Shown, held_out: bool | None, progress: Progress) -> None:
        self._shown, self._held_out, self._progress = shown, held_out, progress
        joint = len(shown.outputs) > 1  # whose answers take many draws
        examples = shown.table(shown.some_rows(_JOINT_EXAMPLES if joint else _EXAMPLES))
        self._axes = output_axes(shown.model.conditional(examples), shown.outputs)
        probes = shown.table(shown.some_rows(_JOINT_PROBES if joint else _PROBES))
        self._budget = Budget.measured(shown.model, probes, self._axes)
        with progress.stage("importances"):
            queries = self._budget.queries("importances", 1, IMPORTANCE_QUERIES)
            self._importances, self._measured_on = shown.importances(held_out, queries)
            self._scales = input_scales(shown.model, shown.table())
        self._order = [int(i) for i in np.argsort(-self._importances, kind="stable")]

    def page(self, template: Any, title: str | None, max_bytes: int) -> str:
        """Return the page as text."""
        shown = self._shown
        data = self._data()
        parts = {
            "title": title or _title(shown, self._order),
            "subtitle": _subtitle(shown),
            "n_outputs": len(shown.outputs),
            "accuracy": None if data is None else self._accuracy(data),
            "worst": None if data is None else worst_section(data, self._order),
            "effects": self._effects(),
            "data": data_section(shown.given_inputs, shown.given_outputs),
            "parameters": parameter_section(
                shown.model.report_, shown.inputs, self._importances, self._measured_on
            ),
            "version": __version__,
            "date": datetime.date.today().isoformat(),
        }
        taken = len(template.render(parts, explorer=None).encode()) + _MARGIN_BYTES
        return template.render(parts, explorer=self._explorer(data, max_bytes - taken))

    def _data(self) -> MeasuredData | None:
        shown = self._shown
        if not shown.has_outputs:
            return None
        kept = shown.foretold if self._held_out is None else None
        if kept is not None:
            return MeasuredData(shown, kept.rows, kept.accuracy)
        with self._progress.stage("accuracy"):
            most = self._budget.queries("accuracy", self._least(100), _ACCURACY_ROWS)
            if self._held_out is None and shown.can_hold_out:
                X, Y = shown.table(), shown.known_outputs()
                parts = held_out_in_turn(shown.model, X, Y, most, most_fitted=shown.most_refitted)
            else:
                some = shown.some_rows(most)
                parts = iter([(some, shown.model.conditional(shown.table(some)))])
            found = self._measured(parts, len(shown.some_rows(most)))
        accuracy = Accuracy.joined([part for _, part in found])
        return MeasuredData(shown, np.concatenate([rows for rows, _ in found]), accuracy)

    def _least(self, queries: int) -> int:
        """Return the least queries of a part: of several outputs each takes hundreds of draws."""
        return queries if self._shown.flat else max(8, queries // 16)

    def _measured(
        self, parts: Iterable[tuple[Integers, Any]], total: int
    ) -> list[tuple[Integers, Accuracy]]:
        """Return rows and how well they are foretold; there are at most ``total`` rows."""
        shown, marginal = self._shown, self._shown.model.marginal()
        found, done = [], 0

        def show(more: int) -> None:
            nonlocal done
            done += more
            self._progress.update(done, total)

        for rows, dist in parts:
            Y = np.column_stack([column.values[rows] for column in shown.outputs])
            found.append((rows, measure_in_parts(dist, Y, shown.flat, marginal, show)))
        return found

    def _accuracy(self, data: MeasuredData) -> dict[str, Any]:
        rows = self._shown.measured(data.n, self._held_out)
        return accuracy_section(data.accuracy, self._shown.outputs, rows)

    def _effects(self) -> dict[str, Any] | None:
        with self._progress.stage("effects"):
            queries = self._budget.queries("effects", self._least(150), _EFFECT_QUERIES)
            effects, left_out = measure_effects(self._shown, self._order, queries)
        return effects_section(effects, left_out, self._shown.inputs, self._shown.outputs)

    def _explorer(self, data: MeasuredData | None, most_bytes: int) -> dict[str, Any]:
        explorer = Explorer(self._shown, data, self._scales, self._order, self._axes)
        queries = self._budget.queries("curves", self._least(250), MOST_CURVES)
        with self._progress.stage("densities"):
            return explorer.packed(queries, most_bytes, self._progress)


def _checked_path(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"cannot write {target}: the folder {target.parent} does not exist; create it first."
        )
    if target.is_dir():
        raise InvalidInputError(f"cannot write {target}: it is a folder; name a file in it.")
    return target


def _title(shown: Shown, order: Sequence[int]) -> str:
    labels = [shown.inputs[i].label for i in order]
    given = ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
    names = [column.label for column in shown.outputs]
    return f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''} given {given}"


def _subtitle(shown: Shown) -> str:
    p = len(shown.inputs)
    return (
        f"Conditional density fitted to {shown.n_fitted:,} rows and "
        f"{'1 input' if p == 1 else f'{p} inputs'}; {shown.n_given:,} rows in this report."
    )
