"""The parts of the page that need no script: accuracy, data, parameters."""

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.kernels import Kernel, leaves, warped_columns
from kcdo.reports.accuracy import LEVELS, Accuracy, OutputAccuracy
from kcdo.reports.columns import Column
from kcdo.reports.figures import calibration_curve, column_histogram, pit_histogram
from kcdo.reports.text import escape, number, with_unit

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
    "loss": "Held-out loss",
    "weights": "Weights of the forms",
}
_SHOWN_ELSEWHERE = {"importances", "kernel_x"}
_DULL_IF_EMPTY = {"jitter", "iterations", "residual", "binning_error", "weights"}


def accuracy_section(accuracy: Accuracy, outputs: Sequence[Column], about_rows: str) -> str:
    """Return scores, coverage and calibration; ``about_rows`` says which rows they are of."""
    score = number(accuracy.log_score)
    if accuracy.n_impossible:
        score += (
            f" <small>without {accuracy.n_impossible} of {accuracy.n_rows:,} rows, which the model "
            "gives density 0</small>"
        )
    parts = [about_rows, '<dl class="scores">']
    parts.append(_score("Log score", score, "mean log density, higher is better"))
    for column, found in zip(outputs, accuracy.outputs, strict=True):
        name = f" of {escape(column.label)}" if len(outputs) > 1 else ""
        parts += _output_scores(column, found, name)
    parts.append("</dl>")
    for column, found in list(zip(outputs, accuracy.outputs, strict=True))[:_MOST_FIGURES]:
        parts.append(_calibration(column, found, len(outputs) > 1))
    return "".join(parts)


def data_section(inputs: Sequence[Column], outputs: Sequence[Column]) -> str:
    """Return a table with a line for every column."""
    lines = [_data_line(column, "output") for column in outputs if len(column.values)]
    lines += [_data_line(column, "input") for column in inputs]
    head = "".join(
        f'<th scope="col"{style}>{name}</th>'
        for name, style in (
            ("Column", ""),
            ("Role", ""),
            ("Type", ""),
            ("Distribution", ""),
            ("Range", ""),
            ("Mean", ' class="num"'),
            ("Missing", ' class="num"'),
        )
    )
    return _table(head, lines, "Columns of the data")


def parameter_section(
    report: Any, inputs: Sequence[Column], shares: Array, meaning_of_share: str
) -> str:
    """Return how much each input matters and what the fit chose."""
    scales = _scales(report.kernel_x, len(inputs))
    order = np.argsort(-shares, kind="stable")
    lines = [
        f'<tr><th scope="row">{escape(inputs[i].name)}</th>'
        f'<td class="share"><span class="track"><span class="fill" '
        f'style="width:{100 * shares[i] / shares.max():.1f}%"></span></span>'
        f"<span>{shares[i]:.0%}</span></td><td>{escape(scales[i])}</td></tr>"
        for i in order.tolist()
    ]
    head = '<th scope="col">Input</th><th scope="col">Importance</th><th scope="col">Kernel</th>'
    importance = _table(head, lines, "Importance of the inputs")
    pairs = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in fit_rows(report)
    )
    return (
        f"<p>Importance: {escape(meaning_of_share)}.</p>{importance}"
        f'<h3>The fit</h3><dl class="pairs">{pairs}</dl>'
    )


def fit_rows(report: Any) -> list[tuple[str, str]]:
    """Return what a fit reports as pairs of a name and a value, dull zeros left out."""
    names = [f.name for f in fields(report)] if is_dataclass(report) else list(vars(report))
    pairs = []
    for name in names:
        value = getattr(report, name)
        if name in _SHOWN_ELSEWHERE or value is None or (name in _DULL_IF_EMPTY and not value):
            continue
        pairs.append((_MEANINGS.get(name, _sentence(name)), _value(name, value)))
    return pairs


def _output_scores(column: Column, found: OutputAccuracy, name: str) -> list[str]:
    gain = 1 - found.crps / found.crps_without_inputs if found.crps_without_inputs > 0 else 0.0
    note = f"{abs(gain):.0%} {'below' if gain >= 0 else 'above'} the score without inputs"
    crps = escape(with_unit(number(found.crps), column.unit))
    rmse = escape(with_unit(number(found.rmse), column.unit))
    held = found.coverage(0.9)
    return [
        _score(f"CRPS{name}", crps, f"lower is better; {note}"),
        _score(f"RMSE of the mean{name}", rmse, "lower is better"),
        _score(f"90% intervals{name}", f"{held:.1%}", "of the rows inside; ideal is 90%"),
    ]


def _score(name: str, value: str, note: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}<p>{note}</p></dd></div>"


def _calibration(column: Column, found: OutputAccuracy, named: bool) -> str:
    lines = [
        f'<tr><th scope="row">{level:.0%}</th><td class="num">{found.coverage(level):.1%}</td>'
        f'<td class="num">{escape(with_unit(number(width, 3), column.unit))}</td></tr>'
        for level, width in zip(LEVELS, found.widths, strict=True)
    ]
    head = (
        '<th scope="col">Level</th><th scope="col" class="num">Rows inside</th>'
        '<th scope="col" class="num">Mean width</th>'
    )
    title = f"Calibration of {escape(column.label)}" if named else "Calibration"
    return (
        f"<h3>{title}</h3><p>{_verdict(found)}</p>"
        '<div class="figures">'
        f"<figure>{calibration_curve(found.pit, column.label)}<figcaption>Rows inside their "
        "central interval. On the diagonal: as promised; above: too wide; below: too narrow."
        "</figcaption></figure>"
        f"<figure>{pit_histogram(found.pit, column.label)}<figcaption>PIT: where outputs fall in "
        "their predicted distribution. Flat: calibrated; a bowl: too narrow; a hill: too wide."
        "</figcaption></figure>"
        f"<div>{_table(head, lines, 'Central intervals')}</div></div>"
    )


def _verdict(found: OutputAccuracy) -> str:
    n = len(found.pit)
    off = [found.coverage(level) - level for level in LEVELS]
    errors = [2.5 * np.sqrt(level * (1 - level) / n) for level in LEVELS]
    if all(abs(o) <= e + 0.01 for o, e in zip(off, errors, strict=True)):
        return "Intervals hold as many rows as they promise, up to chance."
    if all(o >= -e for o, e in zip(off, errors, strict=True)):
        return "Intervals hold more rows than they promise: the densities are too wide."
    if all(o <= e for o, e in zip(off, errors, strict=True)):
        return "Intervals hold fewer rows than they promise: the densities are too narrow."
    return "Some intervals hold more rows than they promise, others fewer."


def _data_line(column: Column, role: str) -> str:
    present = column.present
    kind: str = column.kind
    if column.period is not None:
        kind = f"{kind}, periodic ({with_unit(number(column.period), column.unit)})"
    if column.kind == "category":
        counts = column.counts()
        kind = f"category, {len(counts)} values"
        shown = ", ".join(str(value) for value, _ in counts[:3]) + (" …" if len(counts) > 3 else "")
        mean = "–"
    elif len(present):
        ends = f"{number(float(present.min()))} to {number(float(present.max()))}"
        shown = with_unit(ends, column.unit)
        mean = with_unit(number(float(present.mean())), column.unit)
    else:
        shown, mean = "–", "–"
    missing = int(np.count_nonzero(column.missing))
    return (
        f'<tr><th scope="row">{escape(column.name)}</th><td data-name="Role">{role}</td>'
        f'<td data-name="Type">{escape(kind)}</td><td>{column_histogram(column)}</td>'
        f'<td data-name="Range">{escape(shown)}</td>'
        f'<td class="num" data-name="Mean">{escape(mean)}</td>'
        f'<td class="num" data-name="Missing">{f"{missing:,}" if missing else "none"}</td></tr>'
    )


def _table(head: str, lines: Sequence[str], name: str) -> str:
    # Focusable, so that the arrow keys can scroll a table wider than a phone.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _scales(kernel: Kernel, p: int) -> list[str]:
    """Return the kernels that act on each column, with their scales."""
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
