"""Templates of the page: every value put into them is escaped, so that no name becomes markup."""

from functools import cache
from importlib.resources import files
from typing import Any

from kcdo.extras import import_extra
from kcdo.reports.text import number, script_json, with_unit

__all__ = ["load_template"]

# In this order they are one script: each uses what those before it define.
_SCRIPTS = (
    "numbers",
    "curves",
    "state",
    "chart",
    "density",
    "along",
    "joint",
    "actual",
    "controls",
    "main",
)


def load_template(name: str) -> Any:
    """Return a jinja2 template of this package; without jinja2 say which extra has it."""
    return _environment().get_template(name)


@cache
def _environment() -> Any:
    jinja2 = import_extra("jinja2", extra="report", what="Reports")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kcdo.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,  # a misspelt name is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
    )
    markup = import_extra("markupsafe", extra="report", what="Reports").Markup
    environment.filters |= {
        "number": number,
        "unit": with_unit,
        "percent": lambda share, digits=0: f"{share:.{digits}%}",
        "thousands": lambda count: f"{count:,}",
        # Not a value but JSON in which "<" cannot occur, for a script element.
        "script_json": lambda data: markup(script_json(data)),
    }
    # Our own style sheet and script, which are code and must not be escaped.
    environment.globals |= {
        "style": lambda: markup(_asset("report.css")),
        "script": lambda: markup("".join(_asset("script", f"{name}.js") for name in _SCRIPTS)),
    }
    return environment


def _asset(*names: str) -> str:
    return files("kcdo.reports").joinpath("assets", *names).read_text(encoding="utf-8")
