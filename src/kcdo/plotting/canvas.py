"""What all figures share: axes, and colours that the colour-blind can tell apart."""

from typing import TYPE_CHECKING, Any

from kcdo.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito (2008), without the yellow that is too pale for lines
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
BLUE, VERMILION = PALETTE[:2]
GREY = "#BBBBBB"
INK = "#222222"
DENSITY_COLOURS = "Blues"  # one hue, from white: readable in print and without colour
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
