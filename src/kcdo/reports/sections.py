"""What the parts of the page that need no script say: accuracy, data, parameters.

Each function returns the values of the template of the same name.
"""

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.kernels import Kernel, leaves, warped_columns
from kcdo.metrics import HistogramTest
from kcdo.metrics.importance import IMPORTANCE
from kcdo.reports.accuracy import LEVELS, Accuracy, OutputAccuracy
from kcdo.reports.columns import Column
from kcdo.reports.effect_figures import effect_figures
from kcdo.reports.effects import Effect
from kcdo.reports.figures import (
    calibration_curve,
    column_histogram,
    pit_histogram,
    rank_histogram,
)
from kcdo.reports.shown import MeasuredRows
from kcdo.reports.text import number, with_unit

_MOST_FIGURES = 6

_MEANINGS = {
    "method": "Solver",
    "selection": "Parameters chosen by",
    "n_samples": "Rows fitted",
    "n_centres": "Centres (distinct inputs, or those kept)",
    "n_nodes": "Nodes of the output grid",
    "kernel_y": "Kernel of the outputs",
    "alpha": "Ridge of the inputs, α",
    "alpha_prime": "Ridge of the outputs, α′",
    "filter": "Filter of the outputs",
    "jitter": "Jitter added to the diagonal",
    "iterations": "Iterations of the solver",
    "residual": "Residual of the solver",
    "binning_error": "Bound on the error of binning",
    "memory": "Memory",
    "seconds": "Time of the fit",
    "condition": "Condition number",
    "weights": "Weights of the components",
    "stopped": "Left out because the time was over",
}
_VERDICTS = {
    "calibrated": "Intervals hold as many rows as they promise, up to chance: the curve stays "
    "inside the band.",
    "too wide": "Intervals hold more rows than they promise, the densities are too wide: the curve "
    "rises above the band.",
    "too narrow": "Intervals hold fewer rows than they promise, the densities are too narrow: the "
    "curve falls below the band.",
    "mixed": "Some intervals hold more rows than they promise, others fewer: the curve leaves the "
    "band on both sides.",
}
_JOINT = {
    "energy_score": "Energy score",
    "variogram_score": "Variogram score",
    "dawid_sebastiani_score": "Dawid-Sebastiani score",
}
_SHOWN_ELSEWHERE = {"importances", "kernel_x"}
_NOT_TOLD = {"loss"}  # of a search, in units of its own: the log score can be compared
_DULL_IF_EMPTY = {"jitter", "iterations", "residual", "binning_error", "weights", "stopped"}


def accuracy_section(
    accuracy: Accuracy, outputs: Sequence[Column], rows: MeasuredRows
) -> dict[str, Any]:
    """Return scores, coverage and calibration, which are of some rows."""
    pairs = list(zip(outputs, accuracy.outputs, strict=True))
    return {
        "rows": rows,
        "n_rows": rows.n,
        "n_impossible": accuracy.n_impossible,
        "log_score": accuracy.log_score,
        "unit": ", ".join(column.unit or column.label for column in outputs),
        "joint": [(_JOINT[name], value) for name, value in accuracy.joint.items()],
        "ranks": _ranks(accuracy.rank_histogram),
        "outputs": [
            _output_scores(column, found, drawn=k < _MOST_FIGURES)
            for k, (column, found) in enumerate(pairs)
        ],
    }


def effects_section(
    effects: Sequence[Effect], left_out: int, inputs: Sequence[Column], outputs: Sequence[Column]
) -> dict[str, Any] | None:
    """Return the effect curves of the most important inputs on the first outputs."""
    if not effects:
        return None
    figures = [
        {"label": output.label, "figures": effect_figures(effects, inputs, output, k)}
        for k, output in enumerate(outputs[:_MOST_FIGURES])
    ]
    return {
        "outputs": figures,
        "n_rows": effects[0].n_rows,
        "left_out": left_out,
    }


def data_section(inputs: Sequence[Column], outputs: Sequence[Column]) -> list[dict[str, Any]]:
    """Return a line for every column."""
    lines = [_data_line(column, "output") for column in outputs if len(column.values)]
    return lines + [_data_line(column, "input") for column in inputs]


def parameter_section(
    report: Any, inputs: Sequence[Column], importances: Array, rows: str
) -> dict[str, Any]:
    """Return how much each input matters in some rows, and what the fit chose."""
    scales = _scales(report.kernel_x, len(inputs))
    lines = [
        {"name": inputs[i].name, "importance": float(importances[i]), "kernel": scales[i]}
        for i in np.argsort(-importances, kind="stable")
    ]
    meaning = f"{IMPORTANCE}; measured on {rows}"
    return {"meaning": meaning, "inputs": lines, "fit": fit_rows(report)}


def fit_rows(report: Any) -> list[tuple[str, str]]:
    """Return what a fit reports as pairs of a name and a value, dull zeros left out."""
    names = [f.name for f in fields(report)] if is_dataclass(report) else list(vars(report))
    pairs = []
    for name in names:
        value = getattr(report, name)
        dull = value is None or (name in _DULL_IF_EMPTY and not value)
        if dull or name in _SHOWN_ELSEWHERE | _NOT_TOLD:
            continue
        pairs.append((_MEANINGS.get(name, _sentence(name)), _value(name, value)))
    return pairs


def _output_scores(column: Column, found: OutputAccuracy, *, drawn: bool) -> dict[str, Any]:
    gain = 1 - found.crps / found.crps_without_inputs if found.crps_without_inputs > 0 else 0.0
    return {
        "label": column.label,
        "unit": column.unit,
        "crps": found.crps,
        "gain": f"{abs(gain):.0%} {'below' if gain >= 0 else 'above'} the score without inputs",
        "rmse": found.rmse,
        "inside_90": found.coverage(0.9),
        "drawn": drawn,
        "verdict": _VERDICTS[found.calibration.verdict],
        "calibration": calibration_curve(found.calibration, column.label),
        "pit_verdict": _bars_outside(found.histogram),
        "pit": pit_histogram(found.histogram, column.label),
        "intervals": [
            {"level": level, "inside": found.coverage(level), "width": width}
            for level, width in zip(LEVELS, found.widths, strict=True)
        ],
    }


def _ranks(test: HistogramTest | None) -> dict[str, Any] | None:
    """Return the histogram of joint ranks, and what it says; None of one output."""
    if test is None:
        return None
    return {"verdict": _bars_outside(test, "rank"), "figure": rank_histogram(test)}


def _bars_outside(test: HistogramTest, kind: str = "PIT") -> str:
    bins = len(test.shares)
    bars = [f"{i / bins:g} to {(i + 1) / bins:g} ({test.shares[i]:.0%})" for i in test.outside]
    if not bars:
        return f"All bars of the {kind} histogram end inside its band."
    return f"Bars of the {kind} histogram that end outside its band: {', '.join(bars)}."


def _data_line(column: Column, role: str) -> dict[str, Any]:
    kind: str = column.kind
    shown = mean = "–"
    present = column.present
    if column.period is not None:
        kind = f"{kind}, periodic ({with_unit(number(column.period), column.unit)})"
    if column.kind == "category":
        counts = column.counts()
        kind = f"category, {len(counts)} values"
        shown = ", ".join(str(value) for value, _ in counts[:3]) + (" …" if len(counts) > 3 else "")
    elif len(present):
        ends = f"{number(float(present.min()))} to {number(float(present.max()))}"
        shown = with_unit(ends, column.unit)
        mean = with_unit(number(float(present.mean())), column.unit)
    return {
        "name": column.name,
        "role": role,
        "kind": kind,
        "histogram": column_histogram(column),
        "range": shown,
        "mean": mean,
        "missing": int(np.count_nonzero(column.missing)),
    }


def _every_scale(kernel: Kernel) -> list[Array]:
    """Return the scales of a kernel of all columns."""
    return [] if kernel.children else [np.atleast_1d(getattr(kernel, "scale", 1.0))]


def _scales(kernel: Kernel, p: int) -> list[str]:
    """Return the kernels that act on each column, with their scales; none for other columns."""
    if any(len(scales) not in (1, p) for scales in _every_scale(kernel)):
        return [""] * p  # of features of the inputs
    found: list[list[str]] = [[] for _ in range(p)]
    drawn_in = set(warped_columns(kernel, range(p)))
    for leaf, columns in leaves(kernel, list(range(p))):
        name = type(leaf).__name__
        scales = getattr(leaf, "scales", None)
        texts = [f"{name}, scale {number(s)}" for s in scales(len(columns))] if scales else []
        texts = [
            f"{text} of its asinh" if column in drawn_in else text
            for text, column in zip(texts, columns, strict=False)
        ]
        for i, text in zip(columns, texts or [name] * len(columns), strict=True):
            found[i].append(text)
    return ["; ".join(texts) for texts in found]


def _value(name: str, value: Any) -> str:
    if name == "memory":
        return f"{number(value / 1e6, 3)} MB"
    if name == "weights":
        return ", ".join(f"{_sentence(form).lower()} {share:.0%}" for form, share in value.items())
    if name == "seconds":
        return f"{number(value, 3)} s"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | float | np.number):
        return f"{value:,}" if isinstance(value, int) else number(float(value))
    return re.sub(r"\d+\.\d{4,}(?:e[+-]?\d+)?", lambda m: f"{float(m[0]):.4g}", str(value))


def _sentence(name: str) -> str:
    return name.replace("_", " ").capitalize()
