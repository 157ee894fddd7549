"""How a fitted estimator shows itself in a notebook."""

from dataclasses import fields
from html import escape
from typing import Any

_STYLE = "border-collapse: collapse; font-size: 0.9em; margin-top: 0.5em"
_CELL = "text-align: left; padding: 0.1em 0.8em 0.1em 0"


class ReportHtml:
    """Adds the fit's report, as a table, to scikit-learn's diagram of an estimator.

    Before a fit, and where scikit-learn is told to show text, nothing changes.
    """

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        report = getattr(self, "report_", None)
        return diagram if report is None else diagram + report_table(report)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:  # not where the display is set to "text"
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def report_table(report: Any) -> str:
    """Return a report, a dataclass, as an HTML table of names and values."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL}">{escape(f.name)}</th>'
        f'<td style="{_CELL}">{escape(_text(getattr(report, f.name)))}</td></tr>'
        for f in fields(report)
    )
    return f'<table style="{_STYLE}"><caption style="{_CELL}">Fit</caption>{rows}</table>'


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
