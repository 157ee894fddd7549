"""Whether predictions hold what they promise: PIT histogram and calibration curve."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics import (
    CalibrationTest,
    HistogramTest,
    calibration_test,
    pit_histogram_test,
    pit_values,
)
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import BLUE, GREY, INK, LINE_STYLES, PALETTE, pyplot, tidy
from kcdo.plotting.queries import output_names
from kcdo.validation import check_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEVELS = np.linspace(0.05, 0.95, 19)


class CalibrationDisplay:
    """PIT histogram and calibration curve, with bands that chance leaves in 5 of 100 samples.

    For several outputs each has its own line. Make it with :meth:`from_estimator` or
    :meth:`from_distribution`, draw it again with :meth:`plot`.

    Parameters
    ----------
    pit : array of shape (Q, d)
        PIT values of every output.
    sample_weight : array of shape (Q,), optional
        Weights of the histogram.
    output_names : sequence of d str
        Names of the outputs.

    Attributes
    ----------
    ax_ : array of two matplotlib.axes.Axes
        Histogram and curve.
    figure_ : matplotlib.figure.Figure
    tests_ : list of d CalibrationTest
        The curves with their bands, which hold the whole curve of a calibrated model.
    histograms_ : list of d HistogramTest
        The bars with their bands, which hold all bars of a calibrated model.
    """

    ax_: NDArray[Any]
    figure_: "Figure"
    tests_: list[CalibrationTest]
    histograms_: list[HistogramTest]

    def __init__(
        self,
        *,
        pit: Array,
        sample_weight: Array | None = None,
        output_names: Sequence[str] = ("y",),
    ) -> None:
        self.pit, self.sample_weight, self.output_names = pit, sample_weight, list(output_names)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: ArrayLike | None = None,
        ax: "Sequence[Axes] | None" = None,
    ) -> Self:
        """Draw the calibration of a model on data that it has not seen.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model.
        X : array or data frame of shape (Q, p)
            Inputs held out.
        y : array or data frame of shape (Q,) or (Q, d)
            Their outputs.
        sample_weight : array of shape (Q,), optional
            Weights of the rows.
        ax : pair of matplotlib axes, optional
            Where to draw histogram and curve; by default a new figure.

        Returns
        -------
        CalibrationDisplay

        Examples
        --------
        >>> import kcdo
        >>> X, Y = kcdo.make_donut(6, random_state=0)
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[::2], Y[::2])
        >>> display = kcdo.CalibrationDisplay.from_estimator(model, X[1::2], Y[1::2])
        >>> display.pit.shape
        (150, 2)
        """
        dist = estimator.conditional(X)
        return cls.from_distribution(dist, y, sample_weight=sample_weight, ax=ax)

    @classmethod
    def from_distribution(
        cls,
        dist: Predictive,
        y: Any,
        *,
        sample_weight: ArrayLike | None = None,
        ax: "Sequence[Axes] | None" = None,
    ) -> Self:
        """Draw the calibration of predictions.

        Parameters
        ----------
        dist : ConditionalDistribution
            Predictions.
        y, sample_weight, ax
            As in :meth:`from_estimator`.

        Returns
        -------
        CalibrationDisplay
        """
        pit = pit_values(dist, y)
        weights = None if sample_weight is None else check_weights(sample_weight, len(pit), least=1)
        display = cls(
            pit=pit.reshape(len(pit), -1),
            sample_weight=weights,
            output_names=output_names(dist, y),
        )
        return display.plot(ax=ax)

    def plot(self, ax: "Sequence[Axes] | None" = None, *, bins: int | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : pair of matplotlib axes, optional
            Where to draw histogram and curve; by default a new figure.
        bins : int, optional
            Bars of the histogram; by default 5 to 20, by the number of rows.

        Returns
        -------
        CalibrationDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        if ax is None:
            ax = pyplot().subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")[1]
        panels = np.asarray(ax, dtype=object).ravel()
        if len(panels) != 2:
            raise InvalidInputError(
                f"ax must be a pair of axes, for histogram and curve; got {len(panels)}."
            )
        self.ax_, self.figure_ = panels, panels[0].figure
        bins = int(np.clip(self._n_effective() / 20, 5, 20)) if bins is None else bins
        self._draw_histogram(panels[0], bins)
        self._draw_curve(panels[1])
        return self

    def _draw_histogram(self, ax: "Axes", bins: int) -> None:
        edges = np.linspace(0.0, 1.0, bins + 1)
        self.histograms_ = [
            pit_histogram_test(u, bins, sample_weight=self.sample_weight) for u in self.pit.T
        ]
        band = self.histograms_[0]  # the same for every output
        ax.axhspan(band.low * bins, band.high * bins, color=GREY, alpha=0.5, linewidth=0, zorder=0)
        ax.axhline(1.0, color=INK, linewidth=0.8, linestyle="--")
        heights = np.array([test.shares * bins for test in self.histograms_])
        if len(heights) == 1:
            ax.stairs(heights[0], edges, fill=True, color=BLUE, alpha=0.75)
        for bars, style in zip(heights, self._styles(), strict=True):
            ax.stairs(bars, edges, baseline=None, linewidth=1.4, **style)
        top = 1.15 * max(float(heights.max()), band.high * bins)
        ax.set(xlabel="PIT value", ylabel="density", xlim=(0, 1), ylim=(0, top))
        ax.set_title("PIT histogram", fontsize="medium")
        tidy(ax)

    def _draw_curve(self, ax: "Axes") -> None:
        weights = self.sample_weight
        self.tests_ = [calibration_test(u, _LEVELS, sample_weight=weights) for u in self.pit.T]
        band, levels = self.tests_[0], np.array([0.0, *_LEVELS, 1.0])
        low, high = (np.array([0.0, *side, 1.0]) for side in (band.low, band.high))
        label = "whole curve, 95 % by chance"
        ax.fill_between(levels, low, high, color=GREY, alpha=0.5, linewidth=0, label=label)
        ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
        for test, style in zip(self.tests_, self._styles(), strict=True):
            ax.plot(test.levels, test.coverage, marker="o", markersize=3.5, linewidth=1.4, **style)
        ax.set(xlabel="nominal coverage of intervals", ylabel="share of outputs inside")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set_title("Calibration curve", fontsize="medium")
        ax.legend(loc="upper left", fontsize="small", frameon=False)
        tidy(ax)

    def _styles(self) -> list[dict[str, Any]]:
        """Colour and dashes of each output: either alone tells them apart."""
        names = self.output_names
        return [
            {
                "color": PALETTE[i % len(PALETTE)],
                "linestyle": LINE_STYLES[i % len(LINE_STYLES)],
                "label": name,
            }
            for i, name in enumerate(names)
        ]

    def _n_effective(self) -> float:
        if self.sample_weight is None:
            return float(len(self.pit))
        return float(self.sample_weight.sum() ** 2 / (self.sample_weight**2).sum())
