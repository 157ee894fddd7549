"""Templates of the page: every value put into them is escaped, so that no name becomes markup."""

from functools import cache
from importlib.resources import files
from typing import Any

from kcdo.extras import import_extra
from kcdo.reports.text import number, script_json, with_unit

__all__ = ["load_template"]


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
    environment.globals |= {"asset": lambda name: markup(_asset(name))}
    return environment


def _asset(name: str) -> str:
    return files("kcdo.reports").joinpath("assets", name).read_text(encoding="utf-8")
