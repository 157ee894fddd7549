"""Where the parts of effect curves lie; templates/effects.html draws them as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.reports.columns import Column
from kcdo.reports.effects import Effect
from kcdo.reports.figures import Tick
from kcdo.reports.text import number, with_unit

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 250, 170, 44, 12, 34, 8
_LETTER = 8.0  # width of a letter of a label
_ROOM_FOR_DOTS = 6  # letters; of shorter labels a mark of what is missing leaves too little
_BANDS = (("most", "q05", "q95"), ("half", "q25", "q75"))


@dataclass(frozen=True)
class Dot:
    """A mean, with what to say when the pointer rests on it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Band:
    """An area between two quantiles, or for categories a bar for each."""

    kind: str
    path: str


@dataclass(frozen=True)
class EffectFigure:
    """The effect of one input on one output, ready to be drawn."""

    name: str
    text: str
    bands: list[Band]
    bars: list[Band]
    median: str
    mean: str
    dots: list[Dot]
    ticks: list[Tick]
    grid: list[float]  # heights of the lines behind
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    bottom: int = _HEIGHT - _BOTTOM


def effect_figures(
    effects: Sequence[Effect], inputs: Sequence[Column], output: Column, k: int
) -> list[EffectFigure]:
    """Return the effects of all inputs on output k, on one axis upwards."""
    if not effects:
        return []
    every = np.concatenate([e.averages[name][:, k] for e in effects for name in ("q05", "q95")])
    low, high = float(every.min()), float(every.max())
    margin = 0.04 * (high - low) or 1.0
    heights = _Heights(low - margin, high + margin, output)
    return [_figure(effect, inputs[effect.column], heights, k) for effect in effects]


@dataclass(frozen=True)
class _Heights:
    """The axis upwards."""

    low: float
    high: float
    output: Column

    def place(self, values: Array) -> Array:
        return _TOP + (self.high - values) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)

    def ticks(self) -> Array:
        step = 10.0 ** np.floor(np.log10((self.high - self.low) / 2))
        fitting = [f for f in (5, 2, 1) if (self.high - self.low) / (f * step) >= 2]
        step *= fitting[0] if fitting else 1
        return step * np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1)


def _figure(effect: Effect, column: Column, heights: _Heights, k: int) -> EffectFigure:
    found = {name: values[:, k] for name, values in effect.averages.items()}
    y = {name: heights.place(values) for name, values in found.items()}
    category = column.kind == "category"
    share = _shares(effect, category)
    x = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
    texts = [_sentence(effect, column, heights.output, found, i) for i in range(len(x))]
    return EffectFigure(
        name=column.name,
        text=f"Effect of {column.label} on {heights.output.label}. {texts[0]}; … {texts[-1]}",
        bands=[]
        if category
        else [Band(kind, _area(x, y[low], y[high])) for kind, low, high in _BANDS],
        bars=[Band(kind, _bars(x, y[low], y[high])) for kind, low, high in _BANDS]
        if category
        else [],
        median="" if category else _path(x, y["q50"]),
        mean="" if category else _path(x, y["mean"]),
        dots=[Dot(*place) for place in zip(x.tolist(), y["mean"].tolist(), texts, strict=True)],
        ticks=[*_x_ticks(effect, x, category), *_y_ticks(heights)],
        grid=heights.place(heights.ticks()).tolist(),
    )


def _shares(effect: Effect, category: bool) -> Array:
    if category:
        return (np.arange(len(effect.values)) + 0.5) / len(effect.values)
    values = effect.values.astype(float)
    return (values - values[0]) / (values[-1] - values[0])


def _sentence(
    effect: Effect, column: Column, output: Column, found: dict[str, Array], i: int
) -> str:
    mean, low, high = (number(float(found[name][i])) for name in ("mean", "q05", "q95"))
    value = with_unit(effect.texts[i], column.unit)
    return f"{value}: mean {with_unit(mean, output.unit)}, 90% {low} to {high}"


def _x_ticks(effect: Effect, x: Array, category: bool) -> list[Tick]:
    n, y = len(x), _HEIGHT - _BOTTOM + 15.0
    shown = range(n) if category else sorted({0, n // 2, n - 1})
    room = (_WIDTH - _LEFT - _RIGHT) / len(shown)
    return [Tick(float(x[i]), y, _short(effect.texts[i], room), "middle") for i in shown]


def _y_ticks(heights: _Heights) -> list[Tick]:
    places = heights.ticks()
    ends = zip(heights.place(places).tolist(), places.tolist(), strict=True)
    return [Tick(_LEFT - 5.0, y + 3.5, number(value, 3), "end") for y, value in ends]


def _short(text: str, room: float) -> str:
    """Return a label that fits into some width, so that all can be read."""
    longest = max(2, int(room / _LETTER))
    if len(text) <= longest:
        return text
    return f"{text[: longest - 2]}…" if longest >= _ROOM_FOR_DOTS else text[:longest]


def _path(x: Array, y: Array) -> str:
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _area(x: Array, low: Array, high: Array) -> str:
    return _path(np.r_[x, x[::-1]], np.r_[low, high[::-1]]) + "Z"


def _bars(x: Array, low: Array, high: Array) -> str:
    return "".join(f"M{a:.1f},{b:.1f}V{c:.1f}" for a, b, c in zip(x, low, high, strict=True))
