"""A small picture and a table of predictions for notebooks, as plain text: no plotting package."""

from collections.abc import Iterator
from html import escape
from math import floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array

__all__ = ["small_html", "small_svg"]


# Okabe and Ito (2008): safe for the colour-blind, and visible on light and on dark pages
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
_MOST_QUERIES = len(_COLOURS)
_MOST_PANELS = 4
_MOST_ROWS = 10
_POINT_DISTANCE = 3.5  # pixels between the points of a curve
_SIDE = 24  # cells of the heat map of two outputs
_SHADES = 12
_TAIL = 0.005
_SIZE = (360, 130)  # pixels
_FOOT = 18  # pixels below the picture, for the numbers


def small_svg(dist: Any) -> str:
    """Return a small picture of predictions as SVG.

    Density curves of the first five queries, for several outputs side by side; for two outputs the
    joint density of the first query.

    Parameters
    ----------
    dist : ConditionalDistribution
        Predictions.

    Returns
    -------
    str

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
    >>> svg = small_svg(model.conditional([[0.0], [1.0]]))
    >>> svg[:4], svg.count("<polyline")
    ('<svg', 2)
    """
    width, height = _SIZE
    if dist.n_outputs == 2:
        width = height  # two outputs are not one wide and one narrow
        body = _heat_map(dist[:1], width, height - _FOOT)
    else:
        panels = list(_marginals(dist[:_MOST_QUERIES]))
        step = width / len(panels)
        body = "".join(
            _curves(panel, k * step, step - 8, height - _FOOT) for k, panel in enumerate(panels)
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(repr(dist))}">{body}</svg>'
    )


def small_html(dist: Any) -> str:
    """Return the picture above a table of mean, sd and quantiles of the first queries, as HTML."""
    d = dist.n_outputs
    shown = dist[: min(_MOST_QUERIES, max(1, _MOST_ROWS // d))]
    quantiles = np.moveaxis(shown.quantile([0.05, 0.5, 0.95]), 1, 0)
    numbers = [shown.mean(), shown.std(), *quantiles]
    table = np.stack([column.reshape(len(shown), d) for column in numbers], axis=2)
    names = ["query", *(["output"] if d > 1 else []), "mean", "sd", "5 %", "50 %", "95 %"]
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(_row(i, j, table[i, j], d) for i in range(len(shown)) for j in range(d))
    left = len(dist) - len(shown)
    more = f"<div>and {left} more queries</div>" if left else ""
    return (
        f"<div><div>{escape(repr(dist))}</div>{small_svg(dist)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}</div>"
    )


def _row(query: int, output: int, numbers: Array, d: int) -> str:
    mark = f'<span style="color:{_COLOURS[query]}">■</span> ' if d != 2 else ""
    cells = [f"{mark}{query}", *([str(output)] if d > 1 else [])]
    cells += [f"{value:.4g}" for value in numbers]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _marginals(dist: Any) -> Iterator[Any]:
    """The first few outputs, each by itself."""
    if dist.flat:
        yield dist
        return
    yield from (dist.marginal(j) for j in range(min(dist.n_outputs, _MOST_PANELS)))


def _curves(dist: Any, left: float, width: float, height: float) -> str:
    """Density curves of one output, on an axis with numbers."""
    ends = dist.quantile([_TAIL, 1.0 - _TAIL])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    n = max(25, int(width / _POINT_DISTANCE))
    line = np.linspace(low, high, n)
    densities = dist.pdf(line)
    across = left + width * np.linspace(0.0, 1.0, n)
    up = height - (height - 4.0) * densities / densities.max()
    curves = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{points}"/>'
        for colour, points in zip(_COLOURS, (_points(across, y) for y in up), strict=False)
    )
    axis = _path((left, height), (left + width, height))
    return curves + axis + _tick_labels(low, high, left, width, height)


def _heat_map(one: Any, width: float, height: float) -> str:
    """Joint density of two outputs: cells as opaque as the density is high."""
    ends = one.quantile([_TAIL, 1.0 - _TAIL])[0]
    middles = (np.arange(_SIDE) + 0.5) / _SIDE
    axes = (ends[0] + middles[:, None] * (ends[1] - ends[0])).T
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    density = one.pdf(grid.reshape(-1, 2)).reshape(_SIDE, _SIDE)
    shade = np.round(_SHADES * density / density.max())
    cells = "".join(
        f'<path fill-opacity="{k / _SHADES:.2f}" d="{_squares(shade == k)}"/>'
        for k in range(1, _SHADES + 1)
    )
    cells = (
        f'<g fill="{_COLOURS[0]}" shape-rendering="crispEdges" '
        f'transform="translate(0 {height}) scale({width / _SIDE:.4f} {-height / _SIDE:.4f})">'
        f"{cells}</g>"
    )
    frame = _path((0.5, 0.5), (0.5, height), (width - 0.5, height))
    return cells + frame + _tick_labels(ends[0, 0], ends[1, 0], 0.0, width, height)


def _squares(chosen: NDArray[np.bool_]) -> str:
    """Unit squares at some places of a matrix, as one path."""
    return "".join(f"M{i} {j}h1v1h-1z" for i, j in np.argwhere(chosen))


def _tick_labels(low: float, high: float, left: float, width: float, height: float) -> str:
    """Round numbers below the axis."""
    parts = []
    for value in _round_numbers(low, high):
        x = left + width * (value - low) / (high - low)
        parts.append(_path((x, height), (x, height + 3)))
        parts.append(
            f'<text x="{x:.1f}" y="{height + 14:.1f}" font-size="10" text-anchor="middle" '
            f'fill="currentColor">{value:.6g}</text>'
        )
    return "".join(parts)


def _round_numbers(low: float, high: float) -> list[float]:
    """A few multiples of 1, 2 or 5 times a power of ten, well inside [low, high]."""
    span = high - low
    rough = span / 5.0
    unit = 10.0 ** floor(log10(rough))
    step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough)
    first, last = np.ceil((low + 0.04 * span) / step), np.floor((high - 0.04 * span) / step)
    return [float(k * step) + 0.0 for k in np.arange(first, last + 1)]  # 0.0 turns -0 into 0


def _path(*points: tuple[float, float]) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<path fill="none" stroke="currentColor" d="M{places}"/>'


def _points(x: Array, y: Array) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
