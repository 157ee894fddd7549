"""Where the parts of small pictures lie; templates/figures.html draws them as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.metrics import CalibrationTest, HistogramTest
from kcdo.reports.columns import Column

_SIDE, _LEFT, _RIGHT, _BOTTOM, _TOP = 240, 54, 18, 40, 10  # of the two calibration figures


@dataclass(frozen=True)
class Bar:
    """A rectangle, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Spark:
    """Bars in a line of a table, and what they show, in words."""

    text: str
    bars: list[Bar]
    width: float = 96.0
    height: float = 28.0


@dataclass(frozen=True)
class Tick:
    """A number beside an axis."""

    x: float
    y: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Figure:
    """A square picture with axes.

    ``band`` is where chance leaves a calibrated model, ``ideal`` what is promised; both are paths,
    as is ``curve``.
    """

    text: str
    across: str
    upwards: str
    ticks: list[Tick]
    band: str
    ideal: str
    curve: str = ""
    bars: tuple[Bar, ...] = ()
    side: int = _SIDE
    left: int = _LEFT
    right: int = _SIDE - _RIGHT
    bottom: int = _SIDE - _BOTTOM
    middle: float = (_TOP + _SIDE - _BOTTOM) / 2


def column_histogram(column: Column) -> Spark | None:
    """Return bars of how the values of a column are spread; for categories their counts."""
    if not len(column.present):
        return None
    if column.kind == "category":
        heights = [count for _, count in column.counts()[:16]]
        gap, note = 1.5, "bars: rows per category, most frequent first"
    else:
        heights, gap, note = _counts(column), 0.4, "histogram"
    return _spark(heights, gap, f"{column.label}, {note}")


def pit_histogram(test: HistogramTest, label: str) -> Figure:
    """Return the histogram of F(y|x) with the band of the test."""
    return _shares(test, f"PIT histogram of {label}", "F(y | x)")


def rank_histogram(test: HistogramTest) -> Figure:
    """Return the histogram of joint outputs' ranks among draws, with the band of the test."""
    return _shares(test, "Rank histogram of all outputs", "rank among draws")


def _shares(test: HistogramTest, title: str, across: str) -> Figure:
    """Return bars of shares that are equal if calibrated."""
    share, n = test.shares, len(test.shares)
    top = 1.15 * max(share.max(), test.high, 2 / n)
    width = (_SIDE - _LEFT - _RIGHT) / n
    bars = [
        Bar(_LEFT + i * width + 1, _y(s / top), width - 2, _y(0) - _y(s / top))
        for i, s in enumerate(share.tolist())
    ]
    low, high = test.low / top, test.high / top
    worst = int(np.argmax(np.abs(share - 1 / n)))
    return Figure(
        text=(
            f"{title}: {n} bars, each {1 / n:.0%} if calibrated; farthest from it "
            f"is bar {worst + 1} with {share[worst]:.0%}"
        ),
        across=across,
        upwards="share of rows",
        ticks=_x_ticks(("0", "0.5", "1"))
        + _y_ticks([t for t in (0.0, 0.1, 0.2, 0.4, 0.6, 0.8) if t < top], top),
        band=_path([(0, high), (1, high), (1, low), (0, low)]) + "Z",
        ideal=_path([(0, 1 / n / top), (1, 1 / n / top)]),
        bars=tuple(bars),
    )


def calibration_curve(test: CalibrationTest, label: str) -> Figure:
    """Return the share of rows inside their central interval, with the band of the test."""
    levels = [0.0, *test.levels.tolist(), 1.0]
    upper, lower, held = (
        list(zip(levels, [0.0, *values.tolist(), 1.0], strict=True))
        for values in (test.high, test.low, test.coverage)
    )
    at_90 = float(np.interp(0.9, test.levels, test.coverage))
    return Figure(
        text=(
            f"Calibration of {label}: 90% intervals hold {at_90:.1%} of the rows; the curve "
            + ("stays inside" if test.verdict == "calibrated" else "leaves")
            + " the band that chance allows"
        ),
        across="level of the interval",
        upwards="rows inside",
        ticks=_x_ticks(("0", "50%", "100%")) + _y_ticks((0, 0.5, 1), 1.0),
        band=_path(upper + lower[::-1]) + "Z",
        ideal=_path([(0, 0), (1, 1)]),
        curve=_path(held),
    )


def _counts(column: Column) -> list[int]:
    low, high = np.quantile(column.present, [0.002, 0.998])
    distinct = len(np.unique(column.present))
    if not high > low:
        return [len(column.present)]
    bins = min(24, distinct) if distinct <= 40 else 24
    return np.histogram(column.present, bins=bins, range=(low, high))[0].tolist()


def _spark(heights: Sequence[float], gap: float, text: str) -> Spark:
    width, height = Spark.width, Spark.height
    step, top = width / len(heights), max(heights)
    bars = [
        Bar(i * step, height * (1 - h / top), max(step - gap, 0.5), height * h / top)
        for i, h in enumerate(heights)
        if h
    ]
    return Spark(text, bars)


def _x(share: float) -> float:
    return _LEFT + share * (_SIDE - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_SIDE - _TOP - _BOTTOM)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)


def _x_ticks(texts: tuple[str, str, str]) -> list[Tick]:
    places = zip((0.0, 0.5, 1.0), texts, strict=True)
    return [Tick(_x(x), _SIDE - _BOTTOM + 15, text, "middle") for x, text in places]


def _y_ticks(places: Sequence[float], top: float) -> list[Tick]:
    return [Tick(_LEFT - 5, _y(place / top) + 3.5, f"{place:.0%}", "end") for place in places]
