"""Small pictures as SVG text; the style sheet of the page gives them their colours."""

from collections.abc import Sequence

import numpy as np

from kcdo.arrays import Array
from kcdo.reports.columns import Column
from kcdo.reports.text import escape

_SIDE, _LEFT, _RIGHT, _BOTTOM, _TOP = 240, 54, 18, 40, 10  # of the two calibration figures
_PIT_BINS = 10
_CURVE_LEVELS = np.linspace(0.0, 1.0, 41)


def column_histogram(column: Column) -> str:
    """Return bars of how the values of a column are spread; for categories their counts."""
    if not len(column.present):
        return ""
    if column.kind == "category":
        heights = [count for _, count in column.counts()[:16]]
        gap, note = 1.5, "bars: rows per category, most frequent first"
    else:
        heights, gap, note = _counts(column), 0.4, "histogram"
    return _bars(heights, gap, f"{column.label}, {note}")


def pit_histogram(pit: Array, label: str) -> str:
    """Return the histogram of F(y|x), with what chance allows if the model is calibrated."""
    share = np.histogram(pit, bins=_PIT_BINS, range=(0, 1))[0] / len(pit)
    expected, spread = _chance(1 / _PIT_BINS, len(pit))
    top = 1.15 * max(share.max(), expected + spread, 2 / _PIT_BINS)
    width = (_SIDE - _LEFT - _RIGHT) / _PIT_BINS
    bars = [
        f'<rect class="bar" x="{_LEFT + i * width + 1:.1f}" y="{_y(s / top):.1f}" '
        f'width="{width - 2:.1f}" height="{_y(0) - _y(s / top):.1f}"/>'
        for i, s in enumerate(share.tolist())
    ]
    low, high = _y(max(0.0, expected - spread) / top), _y((expected + spread) / top)
    band = (
        f'<rect class="chance" x="{_LEFT}" y="{high:.1f}" width="{_SIDE - _LEFT - _RIGHT}" '
        f'height="{low - high:.1f}"/>'
        f'<line class="ideal" x1="{_LEFT}" x2="{_SIDE - _RIGHT}" y1="{_y(expected / top):.1f}" '
        f'y2="{_y(expected / top):.1f}"/>'
    )
    ticks = _x_ticks((0, 0.5, 1), ("0", "0.5", "1")) + _y_ticks(
        [t for t in (0.0, 0.1, 0.2, 0.4, 0.6, 0.8) if t < top], top
    )
    body = "".join(bars) + band + ticks + _axis_names("F(y | x)", "share of rows")
    worst = int(np.argmax(np.abs(share - expected)))
    text = (
        f"PIT histogram of {label}: ten bars, each {expected:.0%} if calibrated; farthest from it "
        f"is bar {worst + 1} with {share[worst]:.0%}"
    )
    return _figure(body, text)


def calibration_curve(pit: Array, label: str) -> str:
    """Return the share of rows inside their central interval against the level promised."""
    distance = np.sort(np.abs(2 * pit - 1))
    held = np.searchsorted(distance, _CURVE_LEVELS, side="right") / len(pit)
    held[0] = 0.0
    expected, spread = _chance(_CURVE_LEVELS, len(pit))
    upper = [(x, min(1.0, y)) for x, y in zip(expected, expected + spread, strict=True)]
    lower = [(x, max(0.0, y)) for x, y in zip(expected, expected - spread, strict=True)]
    body = (
        f'<path class="chance" d="{_path(upper + lower[::-1])}Z"/>'
        f'<path class="ideal" d="{_path([(0, 0), (1, 1)])}"/>'
        f'<path class="curve" d="{_path(list(zip(_CURVE_LEVELS, held, strict=True)))}"/>'
    )
    percent = ("0", "50%", "100%")
    body += _x_ticks((0, 0.5, 1), percent) + _y_ticks((0, 0.5, 1), 1.0)
    body += _axis_names("level of the interval", "rows inside")
    at_90 = held[np.argmin(np.abs(_CURVE_LEVELS - 0.9))]
    return _figure(body, f"Calibration of {label}: 90% intervals hold {at_90:.1%} of the rows")


def _counts(column: Column) -> list[int]:
    low, high = np.quantile(column.present, [0.002, 0.998])
    distinct = len(np.unique(column.present))
    if not high > low:
        return [len(column.present)]
    bins = min(24, distinct) if distinct <= 40 else 24
    return np.histogram(column.present, bins=bins, range=(low, high))[0].tolist()


def _bars(heights: Sequence[float], gap: float, text: str) -> str:
    width, height = 96.0, 28.0
    step, top = width / len(heights), max(heights)
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{height * (1 - h / top):.1f}" '
        f'width="{max(step - gap, 0.5):.1f}" height="{height * h / top:.1f}"/>'
        for i, h in enumerate(heights)
        if h
    )
    return (
        f'<svg class="spark" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(text)}">{bars}</svg>'
    )


def _chance(probability: Array | float, n: int) -> tuple[Array, Array]:
    """Return a probability and twice the standard error of its estimate from n rows."""
    p = np.asarray(probability, dtype=float)
    return p, 2 * np.sqrt(p * (1 - p) / n)


def _x(share: float) -> float:
    return _LEFT + share * (_SIDE - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_SIDE - _TOP - _BOTTOM)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)


def _x_ticks(places: Sequence[float], texts: Sequence[str]) -> str:
    ticks = [
        f'<text class="tick" x="{_x(x):.1f}" y="{_SIDE - _BOTTOM + 15}" '
        f'text-anchor="middle">{text}</text>'
        for x, text in zip(places, texts, strict=True)
    ]
    base = f'<line class="axis" x1="{_LEFT}" x2="{_SIDE - _RIGHT}" y1="{_y(0)}" y2="{_y(0)}"/>'
    return base + "".join(ticks)


def _y_ticks(places: Sequence[float], top: float) -> str:
    return "".join(
        f'<text class="tick" x="{_LEFT - 5}" y="{_y(place / top) + 3.5:.1f}" '
        f'text-anchor="end">{place:.0%}</text>'
        for place in places
    )


def _axis_names(below: str, beside: str) -> str:
    middle = (_TOP + _SIDE - _BOTTOM) / 2
    return (
        f'<text class="name" x="{(_LEFT + _SIDE - _RIGHT) / 2}" y="{_SIDE - 6}" '
        f'text-anchor="middle">{below}</text>'
        f'<text class="name" transform="translate(9 {middle}) rotate(-90)" '
        f'text-anchor="middle">{beside}</text>'
    )


def _figure(body: str, text: str) -> str:
    return (
        f'<svg class="figure" viewBox="0 0 {_SIDE} {_SIDE}" role="img" '
        f'aria-label="{escape(text)}">{body}</svg>'
    )
