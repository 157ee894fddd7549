"""How much each input matters, as bars."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kcdo.errors import InvalidInputError
from kcdo.metrics import importances as measured
from kcdo.plotting.canvas import BLUE, axes_or_new, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

_MOST = 30


class ImportanceDisplay:
    """Importances of the inputs as bars, the most important on top.

    Parameters
    ----------
    importances : mapping of str to float
        Importance of each input, between 0 and 1.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    bars_ : matplotlib.container.BarContainer
        From the most important input down.

    Examples
    --------
    >>> import kcdo
    >>> display = kcdo.ImportanceDisplay({"flow": 0.9, "hour": 0.4}).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['flow', 'hour']
    """

    ax_: "Axes"
    figure_: "Figure"
    bars_: "BarContainer"

    def __init__(self, importances: Mapping[str, float]) -> None:
        if not importances:
            raise InvalidInputError("there are no importances to show: the mapping is empty.")
        self.importances = {str(name): float(value) for name, value in importances.items()}
        for name, value in self.importances.items():
            if not (np.isfinite(value) and value >= 0):
                raise InvalidInputError(
                    f"importances must be finite and not negative; {name!r} has {value!r}."
                )

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, ax: "Axes | None" = None) -> Self:
        """Draw how much each input of a fitted model matters, as :func:`kcdo.metrics.importances`.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model.
        X : array or data frame of shape (N, p), optional
            The rows to measure on; by default the training rows, on which ``selection="auto"`` has
            measured.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ImportanceDisplay
        """
        check_is_fitted(estimator)
        if X is not None:
            return cls(measured(estimator, X)).plot(ax=ax)
        importances = getattr(getattr(estimator, "report_", None), "importances", None)
        if not importances:
            raise InvalidInputError(
                'the report of this model has no importances: fit it with selection="auto", or '
                "give rows to measure them on, as X."
            )
        return cls(importances).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw, at most the 30 most important.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ImportanceDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ranked = sorted(self.importances.items(), key=lambda item: -item[1])[:_MOST]
        names, values = [name for name, _ in ranked], [value for _, value in ranked]
        self.ax_ = ax = axes_or_new(ax, figsize=(5.6, 1.3 + 0.32 * len(names)))
        self.figure_ = ax.figure  # type: ignore[assignment]
        self.bars_ = ax.barh(range(len(names)), values, height=0.7, color=BLUE)
        ax.bar_label(self.bars_, fmt="%.2f", padding=3, fontsize="small")
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlim(0.0, 1.1 * max(1.0, *values))
        ax.set_xlabel("importance")
        left = len(self.importances) - len(ranked)
        if left:
            ax.set_title(f"{left} less important inputs are not shown", fontsize="small")
        ax.tick_params(axis="y", length=0)
        tidy(ax)
        return self
