"""What a fit chose, as a table."""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.validation import check_is_fitted

from kcdo.errors import InvalidInputError
from kcdo.plotting.canvas import GREY, INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.table import Table

_WIDTH = 56  # characters of a value before it is broken into lines
_LINE = 0.19  # inches


class ReportDisplay:
    """The report of a fit as a table of names and values.

    Parameters
    ----------
    entries : mapping of str to anything
        What to show, in order.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    table_ : matplotlib.table.Table

    Examples
    --------
    >>> import kcdo
    >>> display = kcdo.ReportDisplay({"alpha_prime": 0.012345, "memory": 3_000_000}).plot()
    >>> display.rows
    [('alpha prime', '0.0123'), ('memory', '2.86 MiB')]
    """

    ax_: "Axes"
    figure_: "Figure"
    table_: "Table"

    def __init__(self, entries: Mapping[str, Any]) -> None:
        if not entries:
            raise InvalidInputError("there is nothing to show: the report is empty.")
        self.rows = [(_words(name), _text(name, value)) for name, value in entries.items()]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: "Axes | None" = None) -> Self:
        """Draw the report of a fitted model.

        Parameters
        ----------
        estimator : ConditionalDensityOperator
            A fitted model.
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ReportDisplay
        """
        check_is_fitted(estimator)
        report = getattr(estimator, "report_", None)
        if not is_dataclass(report):
            raise InvalidInputError(
                f"{type(estimator).__name__} has no report: use a ConditionalDensityOperator."
            )
        return cls({f.name: getattr(report, f.name) for f in fields(report)}).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ReportDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        lines = [1 + value.count("\n") for _, value in self.rows]
        total = sum(lines) + 0.6 * len(lines)
        self.ax_ = ax = axes_or_new(ax, figsize=(6.4, 0.3 + _LINE * total))
        self.figure_ = ax.figure  # type: ignore[assignment]
        ax.set_axis_off()
        self.table_ = ax.table(
            cellText=[list(row) for row in self.rows],
            colWidths=[0.28, 0.72],
            cellLoc="left",
            bbox=(0.0, 0.0, 1.0, 1.0),  # type: ignore[arg-type]
            edges="horizontal",
        )
        self.table_.auto_set_font_size(False)
        self.table_.set_fontsize(9)
        for (row, column), cell in self.table_.get_celld().items():
            cell.set_height((lines[row] + 0.6) / total)
            cell.set_edgecolor(GREY)
            cell.set_text_props(color=INK, weight="normal" if column else "bold")
        return self


def _words(name: str) -> str:
    return re.sub("^n_", "number of ", name).replace("_", " ")


def _text(name: str, value: Any) -> str:
    """A value in few characters, with its unit where the name has one."""
    if name == "memory":
        return f"{value / 2**20:.3g} MiB"
    if name == "seconds":
        return f"{value:.3g} s"
    if isinstance(value, Mapping):
        text = ", ".join(f"{k}: {_text('', v)}" for k, v in value.items())
    elif value is None:
        text = "–"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:.3g}"
    else:
        # of a kernel or filter: more digits than anyone reads
        text = re.sub(r"\d+\.\d{4,}(e[+-]\d+)?", lambda m: f"{float(m[0]):.4g}", str(value))
    lines = textwrap.wrap(text.replace("(", "( "), _WIDTH)  # may break after a bracket
    return "\n".join(lines).replace("( ", "(") or "–"
