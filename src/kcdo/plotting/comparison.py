"""How far methods are behind the best, with the errors of that."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kcdo.arrays import Array
from kcdo.plotting.canvas import BLUE, GREY, VERMILION, pyplot, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_comparison(
    names: Sequence[str], panels: Mapping[str, tuple[Array, Array]], note: str = ""
) -> "Figure":
    """Draw differences to the best method, a panel for each score.

    Parameters
    ----------
    names : sequence of str
        Methods, the best first.
    panels : mapping
        What is compared, with differences to the best, (n,), and their standard errors, (n,).
    note : str
        Above the panels.
    """
    height = 1.2 + 0.42 * len(names)
    figure, axes = pyplot().subplots(
        1, len(panels), figsize=(4.2 * len(panels), height), layout="constrained", squeeze=False
    )
    places = np.arange(len(names))
    for ax, (title, (means, errors)) in zip(axes[0], panels.items(), strict=True):
        ax.axvline(0, color=GREY, zorder=0)
        for i in places:
            if not np.isfinite(means[i]):
                ax.annotate("infinite", (0.02, i), xycoords=("axes fraction", "data"), va="center")
                continue
            colour = BLUE if i else VERMILION
            ax.errorbar(means[i], i, xerr=2 * errors[i], fmt="o", color=colour, capsize=3)
        ax.set(title=title, yticks=places, yticklabels=names, ylim=(len(names) - 0.5, -0.5))
        ax.title.set_fontsize("medium")
        ax.locator_params(axis="x", nbins=5)  # of many digits, more would run into one another
        tidy(ax)
    for ax in axes[0][1:]:
        ax.set_yticklabels([])
    if note:
        figure.suptitle(note, fontsize="medium")
    return figure
