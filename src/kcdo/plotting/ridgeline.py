"""Conditional densities at several inputs, one above the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import INK, VERMILION, axes_or_new, tidy
from kcdo.plotting.queries import Column, one_output, row_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


_MOST = 40
_OVERLAP = 1.7  # height of the highest ridge in distances between ridges
_TAIL = 0.002
_FILL = "#8FBFDD"  # opaque: ridges in front hide those behind


class RidgelineDisplay:
    """Conditional densities of one output, one ridge per query, on one scale.

    Make it with :meth:`from_estimator` or :meth:`from_distribution`, draw it again with
    :meth:`plot`.

    Parameters
    ----------
    y : array of shape (m,)
        Values of the output.
    densities : array of shape (Q, m)
        p(y|x) of every query.
    medians : array of shape (Q,)
        Conditional medians.
    labels : sequence of Q str
        Names of the queries.
    output_name : str
        Label of the axis.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D
        The ridges, the first query at the bottom.
    """

    ax_: "Axes"
    figure_: "Figure"
    lines_: "list[Line2D]"

    def __init__(
        self,
        *,
        y: Array,
        densities: Array,
        medians: Array,
        labels: Sequence[str],
        output_name: str = "y",
    ) -> None:
        self.y, self.densities, self.medians = y, densities, medians
        self.labels, self.output_name = list(labels), output_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        output: Column = 0,
        output_name: str | None = None,
        labels: Sequence[str] | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the densities that a model predicts at some inputs.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model.
        X : array or data frame of shape (Q, p)
            The queries, at most 40.
        output : int or str
            The output shown, if there are several.
        output_name : str, optional
            Label of the axis.
        labels : sequence of Q str, optional
            Names of the queries; by default their values of the inputs that differ.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        RidgelineDisplay

        Examples
        --------
        >>> import kcdo
        >>> X, Y = kcdo.make_donut(4, random_state=0)
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
        >>> display = kcdo.RidgelineDisplay.from_estimator(model, [[-1.0], [0.0], [1.0]])
        >>> display.labels
        ['x = -1', 'x = 0', 'x = 1']
        """
        dist = estimator.conditional(X)
        return cls.from_distribution(
            dist,
            output=output,
            output_name=output_name,
            labels=row_labels(X) if labels is None else labels,
            ax=ax,
        )

    @classmethod
    def from_distribution(
        cls,
        dist: Predictive,
        *,
        output: Column = 0,
        output_name: str | None = None,
        labels: Sequence[str] | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw distributions, one ridge per query.

        Parameters
        ----------
        dist : ConditionalDistribution
            Predictions of at most 40 queries.
        output, output_name, labels, ax
            As in :meth:`from_estimator`.

        Returns
        -------
        RidgelineDisplay
        """
        if len(dist) > _MOST:
            raise InvalidInputError(
                f"{len(dist)} ridges would not be readable: choose at most {_MOST} queries."
            )
        if labels is not None and len(labels) != len(dist):
            raise InvalidInputError(f"{len(dist)} queries need as many labels; got {len(labels)}.")
        dist, name, _ = one_output(dist, output)
        ends = dist.quantile([_TAIL, 1.0 - _TAIL])
        line = np.linspace(ends[:, 0].min(), ends[:, 1].max(), 400)
        display = cls(
            y=line,
            densities=dist.pdf(line),
            medians=dist.quantile(0.5),
            labels=[f"query {i}" for i in range(len(dist))] if labels is None else labels,
            output_name=output_name or name,
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
        RidgelineDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        n = len(self.densities)
        self.ax_ = ax = axes_or_new(ax, figsize=(6.4, 1.6 + 0.5 * n))
        self.figure_ = ax.figure  # type: ignore[assignment]
        unit = _OVERLAP / self.densities.max()
        self.lines_ = []
        for i, (density, median) in enumerate(zip(self.densities, self.medians, strict=True)):
            depth = 2.0 + 0.01 * (n - i)  # lower ridges stand in front
            ridge = i + unit * density
            ax.fill_between(self.y, i, ridge, color=_FILL, linewidth=0, zorder=depth)
            self.lines_ += ax.plot(self.y, ridge, color=INK, linewidth=1.0, zorder=depth)
            top = i + unit * float(np.interp(median, self.y, density))
            ax.plot([median, median], [i, top], color=VERMILION, linewidth=1.4, zorder=depth)
        ax.lines[-1].set_label("median")
        ax.set_yticks(range(n), self.labels)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel=self.output_name, xlim=(self.y[0], self.y[-1]))
        ax.legend(loc="upper right", fontsize="small", frameon=False)
        tidy(ax)
        ax.spines["left"].set_visible(False)
        return self
