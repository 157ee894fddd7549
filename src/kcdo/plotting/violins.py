"""The density of one output for each category of one input, as violins."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import BLUE, INK, axes_or_new, draw_rows, percent, tidy, visible
from kcdo.plotting.queries import Column, one_output, place_of
from kcdo.plotting.slices import Slice
from kcdo.tables import input_names, table_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection, PathCollection
    from matplotlib.figure import Figure

_MOST = 20
_TAIL = 0.002
_HALF_WIDTH = 0.42  # of the widest violin, in distances between violins
_JITTER = 0.12
_INTERVALS = {0.5: 5.0, 0.9: 1.5}  # levels, and the widths of their lines


class ViolinDisplay:
    """Violins of p(y|x) for the categories of one input, with data, intervals and medians.

    Make it with :meth:`from_estimator` or :meth:`from_distribution`, draw it again with
    :meth:`plot`.

    Parameters
    ----------
    y : array of shape (m,)
        Values of the output.
    densities : array of shape (k, m)
        p(y|x) of every category.
    medians : array of shape (k,)
        Conditional medians.
    intervals : mapping of float to array of shape (k, 2)
        Equal-tailed intervals by level.
    labels : sequence of k str
        Names of the categories.
    data : array of shape (N, 2), optional
        Place of the category, and output, of every row.
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
    violins_ : list of matplotlib.collections.PolyCollection
    points_ : matplotlib.collections.PathCollection or None
    """

    ax_: "Axes"
    figure_: "Figure"
    violins_: "list[FillBetweenPolyCollection]"
    points_: "PathCollection | None"

    def __init__(
        self,
        *,
        y: Array,
        densities: Array,
        medians: Array,
        intervals: Mapping[float, Array],
        labels: Sequence[str],
        data: Array | None = None,
        weights: Array | None = None,
        input_name: str = "x",
        output_name: str = "y",
        title: str = "",
    ) -> None:
        self.y, self.densities, self.medians, self.intervals = y, densities, medians, intervals
        self.labels, self.data, self.weights = list(labels), data, weights
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
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the density of an output for each category of one input of a fitted model.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model.
        X : array or data frame of shape (N, p)
            Inputs: they give the categories and where the other inputs rest.
        y : array or data frame of shape (N,) or (N, d), optional
            Outputs, drawn as points: the fainter, the farther the other inputs of a row are from
            where they rest.
        feature, output : int or str
            The input across, of which the 20 most frequent values are shown, and the output
            upwards, by position or name.
        at : mapping, optional
            Values at which other inputs are held, by name or position; by default an observed
            median, or the most frequent category.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ViolinDisplay

        Examples
        --------
        >>> import kcdo, pandas as pd
        >>> X = pd.DataFrame({"lane": pd.Categorical(["left", "right"] * 20)})
        >>> y = pd.Series([90.0 + i if i % 2 else 70.0 - i for i in range(40)], name="speed")
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
        >>> display = kcdo.ViolinDisplay.from_estimator(model, X, y, feature="lane")
        >>> display.labels
        ['left', 'right']
        """
        place = place_of(feature, input_names(X), "input")
        kinds = _categories(np.asarray(table_columns(X)[place]).tolist())
        cut = Slice.of(estimator, X, y, kinds, place=place, output=output, at=at)
        data, weights = None, None
        if cut.column is not None and cut.outputs is not None and cut.weights is not None:
            places = np.array([kinds.index(v) if v in kinds else -1 for v in cut.column.tolist()])
            shown = places >= 0
            data, weights = np.column_stack([places, cut.outputs])[shown], cut.weights[shown]
        return cls.from_distribution(
            cut.dist,
            [str(kind) for kind in kinds],
            data=data,
            weights=weights,
            input_name=cut.input_name,
            output_name=cut.output_name,
            title=cut.title,
            ax=ax,
        )

    @classmethod
    def from_distribution(
        cls,
        dist: Predictive,
        labels: Sequence[str],
        *,
        data: NDArray | None = None,
        weights: Array | None = None,
        input_name: str = "x",
        output_name: str | None = None,
        title: str = "",
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw distributions of one output, a violin for each query.

        Parameters
        ----------
        dist : ConditionalDistribution
            Predictions of one output.
        labels : sequence of Q str
            Names of the queries.
        data, weights, input_name, output_name, title
            As in :class:`ViolinDisplay`.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ViolinDisplay
        """
        if len(labels) != len(dist):
            raise InvalidInputError(f"{len(dist)} queries need as many labels; got {len(labels)}.")
        dist, name, _ = one_output(dist, 0)
        ends = dist.quantile([_TAIL, 1.0 - _TAIL])
        seen = [ends.ravel()] if data is None else [ends.ravel(), data[visible(weights, data), 1]]
        line = np.linspace(np.concatenate(seen).min(), np.concatenate(seen).max(), 400)
        display = cls(
            y=line,
            densities=dist.pdf(line),
            medians=dist.quantile(0.5),
            intervals={level: dist.interval(level) for level in _INTERVALS},
            labels=labels,
            data=data,
            weights=weights,
            input_name=input_name,
            output_name=output_name or name,
            title=title,
        )
        return display.plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ViolinDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        n = len(self.labels)
        self.ax_ = ax = axes_or_new(ax, figsize=(max(4.0, 1.6 + 0.9 * n), 4.4))
        self.figure_ = ax.figure  # type: ignore[assignment]
        unit = _HALF_WIDTH / self.densities.max()
        self.violins_ = [
            ax.fill_betweenx(
                self.y, i - unit * p, i + unit * p, color=BLUE, alpha=0.35, linewidth=0
            )
            for i, p in enumerate(self.densities)
        ]
        places = np.arange(n)
        for level, width in _INTERVALS.items():
            low, high = self.intervals[level].T
            label = f"{percent(level)} interval"
            ax.vlines(places, low, high, color=BLUE, linewidth=width, label=label, zorder=3)
        ax.plot(places, self.medians, "_", color=INK, markersize=14, label="median", zorder=4)
        self.points_ = None
        if self.data is not None:
            shifts = np.random.default_rng(0).uniform(-_JITTER, _JITTER, len(self.data))
            moved = self.data + np.column_stack([shifts, np.zeros(len(self.data))])
            self.points_ = draw_rows(ax, moved, self.weights, zorder=2)
        ax.set_xticks(places, self.labels)
        ax.set(xlabel=self.input_name, ylabel=self.output_name, xlim=(-0.6, n - 0.4))
        ax.set_ylim(self.y[0], self.y[-1])
        ax.set_title(self.title, fontsize="medium")
        ax.legend(loc="best", fontsize="small", framealpha=0.8)
        tidy(ax)
        return self


def _categories(column: list[Any]) -> list[Any]:
    """Return the most frequent values, in alphabetical or numerical order."""
    kept = [value for value, _ in Counter(column).most_common(_MOST)]
    numbers = all(isinstance(value, int | float) for value in kept)
    return sorted(kept, key=float if numbers else str)
