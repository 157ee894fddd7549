"""What all figures share: axes, and colours that the colour-blind can tell apart."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

# Okabe and Ito (2008), without the yellow that is too pale for lines
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
BLUE, VERMILION = PALETTE[:2]
GREY = "#BBBBBB"
INK = "#222222"
DENSITY_COLOURS = "Blues"  # one hue, from white: readable in print and without colour
_FAINTEST = 0.05  # rows less near than that are left out
LINE_STYLES = ("-", "--", "-.", ":")


def pyplot() -> Any:
    """Import ``matplotlib.pyplot``, which shows new figures in notebooks by itself."""
    return import_extra("matplotlib.pyplot", extra="plots", what="Figures")


def axes_or_new(ax: "Axes | None", figsize: tuple[float, float] = (6.4, 4.4)) -> "Axes":
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=figsize, layout="constrained")[1]


def tidy(ax: "Axes") -> None:
    """Remove the frame that says nothing."""
    ax.spines[["top", "right"]].set_visible(False)


def percent(share: float) -> str:
    """Return a share as words: 0.9 as "90 %"."""
    return f"{100 * share:.3g} %"


def visible(weights: Array | None, data: Array) -> NDArray[np.bool_]:
    """Return which rows are near enough to the slice to be drawn."""
    return np.ones(len(data), dtype=bool) if weights is None else weights > _FAINTEST


def draw_rows(ax: "Axes", data: Array, weights: Array | None, **style: Any) -> "PathCollection":
    """Draw rows as points, the fainter the farther they are from the slice that is shown."""
    seen = visible(weights, data)
    across, up = data[seen].T
    look: dict[str, Any] = {"s": 6, "linewidths": 0, "label": _rows_label(weights, seen)} | style
    return ax.scatter(across, up, color=INK, alpha=_opacity(weights, seen), **look)


def draw_rug(ax: "Axes", values: Array, weights: Array) -> "PathCollection":
    """Draw the outputs of rows as strokes along the lower edge, the fainter the farther."""
    return draw_rows(
        ax,
        np.column_stack([values, np.zeros(len(values))]),
        weights,
        marker="|",
        s=120,
        linewidths=1.0,
    )


def _opacity(weights: Array | None, seen: NDArray[np.bool_]) -> Any:
    most = float(np.clip(15.0 / np.sqrt(max(int(seen.sum()), 1)), 0.15, 0.6))
    return most if weights is None or not seen.any() else most * weights[seen]


def _rows_label(weights: Array | None, seen: NDArray[np.bool_]) -> str:
    if not seen.any():
        return "no data near the slice"
    return "data" if weights is None or np.all(weights == 1.0) else "data near the slice"
