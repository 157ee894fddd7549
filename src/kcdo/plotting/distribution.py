"""A quick look at predictions: curves for one output, contours for two."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Integers
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import BLUE, INK, LINE_STYLES, PALETTE, axes_or_new, percent, pyplot, tidy
from kcdo.plotting.joint import JointDensityDisplay
from kcdo.plotting.queries import one_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CURVES = 8
_PANELS_ACROSS = 4
_TAIL = 0.002


def plot_distribution(dist: Predictive, ax: Any = None) -> Any:
    """Draw predictions: of one output the density curves, of two the contours of each query.

    One query is shaded where its 50 % and 90 % intervals are; of more than eight, eight evenly
    spaced ones are drawn. Contours of several queries have a panel each, on common axes.

    Parameters
    ----------
    dist : ConditionalDistribution
        Predictions.
    ax : matplotlib axes, optional
        Where to draw, for contours of several queries as many; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes, or an array of them for contours of several queries

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
    >>> ax = kcdo.plot_distribution(model.conditional([[0.0], [1.0]]))
    >>> len(ax.lines)
    2
    """
    d = dist.n_outputs
    if d > 2:
        raise InvalidInputError(
            f"no picture shows {d} outputs at once: choose some, as in dist.marginal([0, 1]), or "
            "draw one query by kcdo.plot_pairs."
        )
    if d == 2 and len(dist) == 1:
        return JointDensityDisplay.from_distribution(dist, ax=ax).ax_
    if d == 2:
        return _draw_panels(dist, ax)
    single, name, _ = one_output(dist, 0)
    return _draw_curves(single, name, axes_or_new(ax))


def _draw_panels(dist: Predictive, ax: Any) -> NDArray[Any]:
    chosen = _some_queries(len(dist))
    across = min(len(chosen), _PANELS_ACROSS)
    if ax is None:
        upwards = -(-len(chosen) // across)
        size = {"figsize": (3.2 * across, 3.0 * upwards), "layout": "constrained"}
        ax = pyplot().subplots(upwards, across, sharex=True, sharey=True, squeeze=False, **size)[1]
        for spare in ax.ravel()[len(chosen) :]:
            spare.set_axis_off()
        ax = ax.ravel()[: len(chosen)]
    panels = np.asarray(ax, dtype=object).ravel()
    if len(panels) != len(chosen):
        raise InvalidInputError(
            f"contours of {len(chosen)} queries need as many axes; got {len(panels)}."
        )
    displays = [
        JointDensityDisplay.from_distribution(dist[i], title=f"query {i}", ax=panel, colorbar=False)
        for i, panel in zip(chosen.tolist(), panels, strict=True)
    ]
    limits = np.array([[(line[0], line[-1]) for line in shown.axes] for shown in displays])
    for k, shown in enumerate(displays):
        shown.ax_.set_facecolor(shown.density_.get_cmap()(0.0))  # beyond its own grid
        shown.ax_.tick_params(labelbottom=k >= len(chosen) - across)
        shown.ax_.set_xlim(limits[:, 0, 0].min(), limits[:, 0, 1].max())
        shown.ax_.set_ylim(limits[:, 1, 0].min(), limits[:, 1, 1].max())
        if k:  # one legend says it for all
            shown.ax_.get_legend().remove()  # type: ignore[union-attr]
    return panels


def _some_queries(n: int) -> Integers:
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_CURVES)).round().astype(int))


def _draw_curves(dist: Predictive, name: str, ax: "Axes") -> "Axes":
    n = len(dist)
    chosen = _some_queries(n)
    part = dist[chosen]
    ends = part.quantile([_TAIL, 1.0 - _TAIL])
    line = np.linspace(ends[:, 0].min(), ends[:, 1].max(), 500)
    for k, (i, density) in enumerate(zip(chosen, part.pdf(line), strict=True)):
        style = LINE_STYLES[0 if k < len(LINE_STYLES) else 1]
        label = f"query {i}" if n > 1 else None
        ax.plot(line, density, color=PALETTE[k], linestyle=style, label=label)
    if n == 1:
        _shade_intervals(part, ax)
    elif n > len(chosen):
        ax.set_title(f"{len(chosen)} of {n} queries", fontsize="medium")
    ax.set(xlabel=name, ylabel="density", xlim=(line[0], line[-1]))
    ax.set_ylim(bottom=0.0)
    ax.legend(fontsize="small", frameon=False)
    tidy(ax)
    return ax


def _shade_intervals(one: Predictive, ax: "Axes") -> None:
    for level, alpha in ((0.9, 0.2), (0.5, 0.35)):
        low, high = one.interval(level)[0]
        inside = np.linspace(low, high, 300)
        label = f"{percent(level)} interval"
        heights = one.pdf(inside)[0]
        ax.fill_between(inside, heights, color=BLUE, alpha=alpha, linewidth=0, label=label)
    median = one.quantile(0.5)[0]
    ax.vlines(median, 0.0, one.pdf([median])[0], color=INK, linewidth=1.0, label="median")
