"""The joint density of two outputs, as contours with regions of highest density."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.nearness import nearness
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import (
    DENSITY_COLOURS,
    INK,
    LINE_STYLES,
    VERMILION,
    axes_or_new,
    draw_rows,
    percent,
)
from kcdo.plotting.queries import Column, output_names, place_of, row_labels
from kcdo.plotting.slices import drawn_rows
from kcdo.tables import table_columns
from kcdo.validation import check_outputs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure


_TAIL = 0.001
_SIDE = 120


class JointDensityDisplay:
    """Joint density of two outputs at one input, with regions of highest density.

    Make it with :meth:`from_estimator` or :meth:`from_distribution`, draw it again with
    :meth:`plot`.

    Parameters
    ----------
    axes : pair of arrays of shape (n,) and (m,)
        Values of the two outputs.
    density : array of shape (n, m)
        Their joint density.
    regions : mapping of float to float
        Density at the edge of the region of highest density of each level.
    mean : array of shape (2,)
        Conditional mean.
    data : array of shape (N, 2), optional
        Observed outputs.
    weights : array of shape (N,), optional
        How near each row is to the query: its opacity.
    output_names : pair of str
        Labels of the axes.
    title : str
        What is conditioned on.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    density_ : matplotlib.contour.QuadContourSet
        The filled contours.
    regions_ : matplotlib.contour.QuadContourSet
        The edges of the regions.
    """

    ax_: "Axes"
    figure_: "Figure"
    density_: "QuadContourSet"
    regions_: "QuadContourSet"

    def __init__(
        self,
        *,
        axes: tuple[Array, Array],
        density: Array,
        regions: Mapping[float, float],
        mean: Array,
        data: Array | None = None,
        weights: Array | None = None,
        output_names: Sequence[str] = ("y0", "y1"),
        title: str = "",
    ) -> None:
        self.axes, self.density, self.regions, self.mean = axes, density, regions, mean
        self.data, self.weights = data, weights
        self.output_names, self.title = tuple(output_names), title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        inputs: Any = None,
        outputs: tuple[Column, Column] = (0, 1),
        levels: Sequence[float] = (0.5, 0.9),
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the joint density of two outputs that a model predicts at one input.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model of at least two outputs.
        X : array or data frame of shape (1, p)
            The query.
        y : array or data frame of shape (N, d), optional
            Observed outputs, drawn as points; a frame also names the axes.
        inputs : array or data frame of shape (N, p), optional
            Inputs of these rows: points are the fainter, the farther from the query they are, in
            units over which predictions move by half their width.
        outputs : pair of int or str
            The outputs across and upwards.
        levels : sequence of float
            Levels of the regions of highest density.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        JointDensityDisplay

        Examples
        --------
        >>> import kcdo
        >>> X, Y = kcdo.make_donut(4, random_state=0)
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
        >>> display = kcdo.JointDensityDisplay.from_estimator(model, [[0.5]])
        >>> sorted(display.regions)
        [0.5, 0.9]
        """
        dist = estimator.conditional(X)
        title, weights = "", None
        if len(dist) == 1:
            title = f"given {row_labels(X)[0]}"
            if y is not None and inputs is not None:
                query = {i: column.tolist()[0] for i, column in enumerate(table_columns(X))}
                inputs, y = drawn_rows(inputs, y)
                weights = nearness(estimator, inputs, query)
        return cls.from_distribution(
            dist, y, weights=weights, outputs=outputs, levels=levels, title=title, ax=ax
        )

    @classmethod
    def from_distribution(
        cls,
        dist: Predictive,
        y: Any = None,
        *,
        weights: Array | None = None,
        outputs: tuple[Column, Column] = (0, 1),
        levels: Sequence[float] = (0.5, 0.9),
        title: str = "",
        ax: "Axes | None" = None,
        colorbar: bool = True,
    ) -> Self:
        """Draw the joint distribution of two outputs of one query.

        Parameters
        ----------
        dist : ConditionalDistribution
            One prediction, of at least two outputs.
        y, outputs, levels, ax
            As in :meth:`from_estimator`.
        weights : array of shape (N,), optional
            How near each row of y is to the query, from 0 to 1: its opacity.
        title : str
            What is conditioned on.
        colorbar : bool
            Whether to add the scale of the density.

        Returns
        -------
        JointDensityDisplay
        """
        if len(dist) != 1:
            raise InvalidInputError(
                f"contours show one query; got {len(dist)}. Choose one: dist[i]."
            )
        d = dist.n_outputs
        if d < 2:
            raise InvalidInputError(
                "contours need two outputs; there is one. Use kcdo.RidgelineDisplay."
            )
        names = output_names(dist, y)
        places = [place_of(column, names, "output") for column in outputs]
        pair: Any = dist if d == 2 and places == [0, 1] else dist.marginal(places)  # type: ignore[arg-type]
        axes = _lines(pair)
        if _is_by_draws(pair):
            density = dist.pair_picture(tuple(places), *axes)[0]  # type: ignore[attr-defined]
            regions = _levels_on_grid(density, levels)
        else:
            density = pair.pdf(_grid(axes)).reshape(_SIDE, _SIDE)
            regions = {level: pair.hpd(level)[0].density_level for level in sorted(levels)}
        display = cls(
            axes=axes,
            density=density,
            regions=regions,
            mean=pair.mean()[0],
            data=None if y is None else check_outputs(y)[0][:, places],
            weights=weights,
            output_names=[names[i] for i in places],
            title=title,
        )
        return display.plot(ax=ax, colorbar=colorbar)

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
        JointDensityDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        self.ax_ = ax = axes_or_new(ax, figsize=(5.6, 4.8))
        self.figure_ = ax.figure  # type: ignore[assignment]
        heights = np.linspace(0.0, self.density.max(), 14)
        self.density_ = ax.contourf(
            *self.axes, self.density.T, levels=heights, cmap=DENSITY_COLOURS
        )
        if colorbar:
            label = f"p({', '.join(self.output_names)})"
            self.figure_.colorbar(self.density_, ax=ax, label=label, pad=0.02, format="%.2g")
        if self.data is not None:
            draw_rows(ax, self.data, self.weights)
        self.regions_ = self._draw_regions(ax)
        ax.plot(*self.mean, "x", color=VERMILION, markersize=7, label="mean")
        ax.set(xlabel=self.output_names[0], ylabel=self.output_names[1], title=self.title)
        ax.set_xlim(self.axes[0][0], self.axes[0][-1])
        ax.set_ylim(self.axes[1][0], self.axes[1][-1])
        ax.legend(loc="best", fontsize="small", framealpha=0.8)
        return self

    def _draw_regions(self, ax: "Axes") -> "QuadContourSet":
        """Edges of the regions; the widest has the lowest density."""
        edges = {height: level for level, height in self.regions.items()}
        heights = sorted(edges)
        drawn = ax.contour(
            *self.axes,
            self.density.T,
            levels=heights,
            colors=INK,
            linewidths=1.2,
            linestyles=(LINE_STYLES * 9)[: len(heights)][::-1],
        )
        ax.clabel(drawn, fmt={h: percent(edges[h]) for h in heights}, fontsize=8)
        return drawn


def _is_by_draws(pair: Any) -> bool:
    """Whether densities of a pair of outputs are means over draws of others; of rivals, never."""
    return hasattr(pair, "standard_error") and bool(np.any(pair.standard_error() > 0))


def _lines(pair: Predictive) -> tuple[Array, Array]:
    """Values of both outputs that hold all but the tails."""
    ends = pair.quantile([_TAIL, 1.0 - _TAIL])[0]
    margin = 0.05 * (ends[1] - ends[0])
    across, up = np.linspace(ends[0] - margin, ends[1] + margin, _SIDE).T
    return across, up


def _grid(axes: tuple[Array, Array]) -> Array:
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def _levels_on_grid(density: Array, levels: Sequence[float]) -> dict[float, float]:
    """Return the density at the edge of each region of highest density, of cells of equal size."""
    heights = np.sort(density, axis=None)[::-1]
    masses = np.cumsum(heights) / heights.sum()
    return {level: float(heights[np.searchsorted(masses, level)]) for level in sorted(levels)}
