"""The page as a whole: gathers the parts, keeps the size, writes the file."""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kcdo._version import __version__
from kcdo.arrays import Array
from kcdo.atomic import atomic_file
from kcdo.errors import InvalidInputError
from kcdo.reports.accuracy import measure_accuracy
from kcdo.reports.columns import Column, FittedModel
from kcdo.reports.curves import STATISTICS, compute_curves, most_curves, output_axes
from kcdo.reports.inputs import Control, controls
from kcdo.reports.rendering import load_template
from kcdo.reports.sections import accuracy_section, data_section, parameter_section
from kcdo.reports.shown import Shown
from kcdo.reports.text import script_json

_MOST_BYTES = 10_000_000
_ACCURACY_ROWS = 5000  # beyond, a sample: the scores change in the third digit only
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
        given, as many rows as were fitted are taken to be these, and otherwise nothing is claimed.
    title : str, optional
        Heading of the page.
    output_names : sequence of str, optional
        Names of the outputs, by default those of the columns of Y.
    max_bytes : int
        Largest size of the file; the grid of inputs gets coarser to keep it.

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
    shown = Shown.of(model, X, Y, output_names)
    importances, measured_on = shown.importances(held_out)
    parts = {
        "title": title or _title(shown, importances),
        "subtitle": _subtitle(shown),
        "accuracy": _accuracy(shown, held_out),
        "data": data_section(shown.given_inputs, shown.given_outputs),
        "parameters": parameter_section(model.report_, shown.inputs, importances, measured_on),
        "version": __version__,
        "date": datetime.date.today().isoformat(),
    }
    taken = len(page.render(parts, explorer=None).encode()) + _MARGIN_BYTES
    text = page.render(parts, explorer=_explorer(shown, importances, max_bytes - taken))
    with atomic_file(target) as file:
        file.write(text.encode())
    return target


def _checked_path(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"cannot write {target}: the folder {target.parent} does not exist; create it first."
        )
    if target.is_dir():
        raise InvalidInputError(f"cannot write {target}: it is a folder; name a file in it.")
    return target


def _accuracy(shown: Shown, held_out: bool | None) -> dict[str, Any] | None:
    if not shown.has_outputs:
        return None
    rows = shown.some_rows(_ACCURACY_ROWS)
    dist = shown.model.conditional(shown.table(rows))
    Y = np.column_stack([column.values[rows] for column in shown.outputs])
    accuracy = measure_accuracy(dist, Y, shown.flat, shown.model.marginal())
    return accuracy_section(accuracy, shown.outputs, shown.measured(len(rows), held_out))


def _title(shown: Shown, importances: Array) -> str:
    order = [shown.inputs[i].label for i in np.argsort(-importances, kind="stable")]
    given = ", ".join(order[:3]) + (f" and {len(order) - 3} more" if len(order) > 3 else "")
    names = [column.label for column in shown.outputs]
    return f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''} given {given}"


def _subtitle(shown: Shown) -> str:
    p = len(shown.inputs)
    return (
        f"Conditional density fitted to {shown.n_fitted:,} rows and "
        f"{'1 input' if p == 1 else f'{p} inputs'}; {shown.n_given:,} rows in this report."
    )


def _explorer(shown: Shown, importances: Array, most_bytes: int) -> dict[str, Any]:
    """Return what the script of the page reads, in at most so many bytes."""
    axes = output_axes(shown.model, shown.X, shown.inputs, shown.outputs)
    most = controls(shown.inputs, importances, most_curves(shown.model, axes, most_bytes))
    words = len(script_json([_control(c, shown.inputs[c.column]) for c in most]))
    n_curves = most_curves(shown.model, axes, most_bytes - words)
    if n_curves < 1:
        raise InvalidInputError(
            "max_bytes leaves no room for a single curve: raise it by "
            f"{10_000 - min(most_bytes, 0):,} or more."
        )
    chosen = controls(shown.inputs, importances, n_curves)
    curves = compute_curves(shown.model, shown.X, chosen, axes, shown.flat)
    return {
        "inputs": [_control(control, shown.inputs[control.column]) for control in chosen],
        "outputs": [
            {"label": column.label, "unit": column.unit, **packed}
            for column, packed in zip(shown.outputs, curves["outputs"], strict=True)
        ],
        "joint": curves["joint"],
        "statistics": STATISTICS,
    }


def _control(control: Control, column: Column) -> dict[str, Any]:
    return {
        "label": column.label,
        "unit": column.unit,
        "kind": control.kind,
        "texts": control.texts,
        "values": control.values.tolist() if control.kind == "slider" else None,
        "start": control.start,
    }
