"""Doctests of adapters are collected where the package of the adapter is installed."""

from importlib.util import find_spec

ADAPTERS = ("arviz", "qp", "rail", "skpro")

collect_ignore = [
    "conftest.py",  # it has no doctests, and tests/ has a module of this name
    *(f"kcdo/adapters/{name}.py" for name in ADAPTERS if find_spec(name) is None),
]
