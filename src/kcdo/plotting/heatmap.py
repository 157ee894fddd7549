"""The density of one output over one input, as a heat map."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import find_peaks

from kcdo.arrays import Array
from kcdo.distributions.lines import PROMINENCE
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import (
    DENSITY_COLOURS,
    INK,
    LINE_STYLES,
    VERMILION,
    axes_or_new,
    draw_rows,
    percent,
    visible,
)
from kcdo.plotting.queries import Column, numbers, one_output, place_of
from kcdo.plotting.slices import Slice
from kcdo.tables import input_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection, QuadMesh
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


_TAIL = 0.002  # mass of each query that may lie beyond either end of the picture
_TOP = 0.1  # share of the height of a peak that counts as its top


class DensityHeatmapDisplay:
    """Heat map of p(y|x) over one input, with data, intervals and modes.

    Make it with :meth:`from_estimator` or :meth:`from_distribution`, draw it again with
    :meth:`plot`.

    Parameters
    ----------
    x : array of shape (n,)
        Values of the input.
    y : array of shape (m,)
        Values of the output.
    density : array of shape (n, m)
        p(y|x).
    median : array of shape (n,)
        Conditional median.
    intervals : mapping of float to array of shape (n, 2)
        Equal-tailed intervals by level.
    modes : array of shape (k, 2)
        Integers (x, y) of local maxima of the density in y: the middles of the top tenths of peaks.
    data : array of shape (N, 2), optional
        Observed (x, y).
    weights : array of shape (N,), optional
        How near each row is to the slice: its opacity.
    input_name, output_name : str
        Labels of the axes.
    title : str
        Where other inputs are held.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    mesh_ : matplotlib.collections.QuadMesh
    lines_ : list of matplotlib.lines.Line2D
        Median, then the two ends of each interval.
    modes_ : matplotlib.lines.Line2D
    points_ : matplotlib.collections.PathCollection or None
    """

    ax_: "Axes"
    figure_: "Figure"
    mesh_: "QuadMesh"
    lines_: "list[Line2D]"
    modes_: "Line2D"
    points_: "PathCollection | None"

    def __init__(
        self,
        *,
        x: Array,
        y: Array,
        density: Array,
        median: Array,
        intervals: Mapping[float, Array],
        modes: Array,
        data: Array | None = None,
        weights: Array | None = None,
        input_name: str = "x",
        output_name: str = "y",
        title: str = "",
    ) -> None:
        self.x, self.y, self.density = x, y, density
        self.median, self.intervals, self.modes = median, intervals, modes
        self.data, self.weights = data, weights
        self.input_name, self.output_name, self.title = input_name, output_name, title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        feature: Column = 0,
        output: Column = 0,
        at: Mapping[Column, Any] | None = None,
        intervals: Sequence[float] = (0.5, 0.9),
        resolution: tuple[int, int] = (200, 250),
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the density of an output over one input of a fitted model.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model.
        X : array or data frame of shape (N, p)
            Inputs: they give the range of the feature and where the other inputs rest.
        y : array or data frame of shape (N,) or (N, d), optional
            Outputs, drawn as points: the fainter, the farther the other inputs of a row are from
            where they rest, in units over which predictions move by half their width.
        feature, output : int or str
            The input across and the output upwards, by position or name.
        at : mapping, optional
            Values at which other inputs are held, by name or position; by default an observed
            median, or the most frequent category.
        intervals : sequence of float
            Levels of the equal-tailed intervals.
        resolution : (int, int)
            Number of values across and upwards.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        DensityHeatmapDisplay

        Examples
        --------
        >>> import kcdo
        >>> X, Y = kcdo.make_donut(4, random_state=0)
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
        >>> display = kcdo.DensityHeatmapDisplay.from_estimator(model, X, Y[:, 0])
        >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
        ('x', 'y')
        """
        place = place_of(feature, input_names(X), "input")
        observed = numbers(X, place)
        values = np.linspace(observed.min(), observed.max(), resolution[0])
        cut = Slice.of(estimator, X, y, values, place=place, output=output, at=at)
        data = None
        if cut.column is not None and cut.outputs is not None:
            data = (cut.column.astype(float), cut.outputs)
        return cls.from_distribution(
            cut.dist,
            values,
            data=data,
            weights=cut.weights,
            intervals=intervals,
            resolution=resolution[1],
            input_name=cut.input_name,
            output_name=cut.output_name,
            title=cut.title,
            ax=ax,
        )

    @classmethod
    def from_distribution(
        cls,
        dist: Predictive,
        x: ArrayLike,
        *,
        data: tuple[ArrayLike, ArrayLike] | None = None,
        weights: Array | None = None,
        intervals: Sequence[float] = (0.5, 0.9),
        resolution: int = 250,
        input_name: str = "x",
        output_name: str = "y",
        title: str = "",
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw distributions of one output, whose queries are values of x.

        Parameters
        ----------
        dist : ConditionalDistribution
            Predictions of one output.
        x : array of shape (Q,)
            The value of the input of each query, ascending.
        data : (x, y), optional
            Observed inputs and outputs, drawn as points.
        weights : array of shape (N,), optional
            How near each row is to the slice, from 0 to 1: its opacity.
        intervals, ax
            As in :meth:`from_estimator`.
        resolution : int
            Number of values upwards.
        input_name, output_name : str
            Labels of the axes.
        title : str
            Where other inputs are held.

        Returns
        -------
        DensityHeatmapDisplay
        """
        values = np.asarray(x, dtype=float)
        if values.shape != (len(dist),) or np.any(np.diff(values) <= 0):
            raise InvalidInputError(
                f"x must hold {len(dist)} ascending values, one per query; got shape "
                f"{values.shape}."
            )
        if values.size < 2:
            raise InvalidInputError("a heat map needs at least 2 queries; got 1.")
        if weights is not None and (data is None or len(weights) != len(np.ravel(data[0]))):
            raise InvalidInputError("weights are of the data: there must be one for each row.")
        dist, _, _ = one_output(dist, 0)
        points = None if data is None else np.column_stack([np.ravel(part) for part in data])
        seen = None if points is None else points[visible(weights, points)]
        line = _output_line(dist, seen, resolution)
        density = dist.pdf(line)
        display = cls(
            x=values,
            y=line,
            density=density,
            median=dist.quantile(0.5),
            intervals={level: dist.interval(level) for level in sorted(intervals)},
            modes=_local_modes(values, line, density),
            data=points,
            weights=weights,
            input_name=input_name,
            output_name=output_name,
            title=title,
        )
        return display.plot(ax=ax)

    def plot(self, ax: "Axes | None" = None, *, colorbar: bool = True) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        colorbar : bool
            Whether to add the scale of the density.

        Returns
        -------
        DensityHeatmapDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        self.ax_ = ax = axes_or_new(ax)
        self.figure_ = ax.figure  # type: ignore[assignment]
        from matplotlib.colors import PowerNorm

        self.mesh_ = ax.pcolormesh(
            self.x,
            self.y,
            self.density.T,
            norm=PowerNorm(0.5, vmin=0.0),  # else one sharp place would make all others white
            cmap=DENSITY_COLOURS,
            shading="nearest",
            rasterized=True,
        )
        self.points_ = None
        if self.data is not None:
            self.points_ = draw_rows(ax, self.data, self.weights, zorder=2)
        self.lines_ = self._draw_lines(ax)
        (self.modes_,) = ax.plot(
            *self.modes.T, ".", color=VERMILION, markersize=2.5, label="modes", zorder=4
        )
        ax.set(xlabel=self.input_name, ylabel=self.output_name)
        ax.set_title(self.title, fontsize="medium")
        ax.set_xlim(self.x[0], self.x[-1])
        ax.set_ylim(self.y[0], self.y[-1])
        if colorbar:
            label = f"p({self.output_name} | {self.input_name})"
            self.figure_.colorbar(self.mesh_, ax=ax, label=label, pad=0.02)
        ax.legend(loc="best", fontsize="small", framealpha=0.8, markerscale=2.5)
        return self

    def _draw_lines(self, ax: "Axes") -> "list[Line2D]":
        lines = ax.plot(self.x, self.median, color=INK, linewidth=1.6, label="median", zorder=3)
        for style, (level, ends) in zip(LINE_STYLES[1:] * 9, self.intervals.items(), strict=False):
            drawn = ax.plot(self.x, ends, color=INK, linestyle=style, linewidth=1.0, zorder=3)
            drawn[0].set_label(f"{percent(level)} interval")
            lines += drawn
        return lines


def _output_line(dist: Predictive, data: Array | None, n: int) -> Array:
    """Values of the output that show all but the tails of every query, and the data."""
    ends = dist.quantile([_TAIL, 1.0 - _TAIL])
    low, high = ends[:, 0].min(), ends[:, 1].max()
    if data is not None and len(data):
        low, high = min(low, data[:, 1].min()), max(high, data[:, 1].max())
    margin = 0.02 * (high - low)
    return np.linspace(low - margin, high + margin, n)


def _local_modes(x: Array, y: Array, density: Array) -> Array:
    """Places (x, y) of the local maxima of each row that stand out, (k, 2).

    A density that is linear between nodes peaks at nodes; the middle of the top of the peak moves
    smoothly with x instead.
    """
    found = []
    for value, row in zip(x, np.pad(density, ((0, 0), (1, 1))), strict=True):
        peaks, _ = find_peaks(row, prominence=PROMINENCE * row.max())
        for peak in peaks:
            low = np.flatnonzero(row < (1.0 - _TOP) * row[peak])
            after = np.searchsorted(low, peak)
            top = slice(low[after - 1] + 1, low[after])  # the padding is low on either side
            found.append((value, np.average(y[top.start - 1 : top.stop - 1], weights=row[top])))
    return np.array(found, dtype=float).reshape(-1, 2)
