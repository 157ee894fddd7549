"""Parameters of options as those of the estimator: ``kernel_x__scale``, ``solver__centers``."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from sklearn.base import BaseEstimator

from kcdo.errors import InvalidInputError

_EXAMPLES = {"kernel_x": "kcdo.Gaussian()", "kernel_y": "kcdo.Gaussian()"}


class NestedOptions(BaseEstimator):
    """An estimator whose options are immutable objects, with parameters of their own.

    scikit-learn's searches name these by two underscores, and kernels in a product or sum by their
    places: ``kernel_x__kernels__0__scale``. Setting one puts a changed copy in place of the option,
    so that estimators that share it do not change each other.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with ``deep`` also those of kernels and other options."""
        found = super().get_params(deep=deep)
        if deep:
            for name in super().get_params(deep=False):
                found |= {f"{name}__{path}": value for path, value in _inner(found[name])}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator and, by two underscores, of its options."""
        inner = {name: value for name, value in params.items() if "__" in name}
        super().set_params(**{name: params[name] for name in params.keys() - inner.keys()})
        for name, value in inner.items():
            own, _, path = name.partition("__")
            option = getattr(self, own, None)
            if option is None and own in super().get_params(deep=False):
                raise InvalidInputError(
                    f"invalid parameter {name!r}: {own} is None, so that the fit chooses it. Give "
                    f"it first, such as {own}={_EXAMPLES.get(own, '...')}."
                )
            if hasattr(option, "set_params"):  # of scikit-learn, which changes itself
                super().set_params(**{name: value})
            else:
                setattr(self, own, _changed(option, path.split("__"), value, name))
        return self


def _inner(option: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of an option and of the options inside it, by their paths."""
    for name, value in _parts(option).items():
        yield name, value
        yield from ((f"{name}__{path}", part) for path, part in _inner(value))


def _parts(option: Any) -> dict[str, Any]:
    if is_dataclass(option) and not isinstance(option, type):
        return {f.name: getattr(option, f.name) for f in fields(option) if f.init}
    if isinstance(option, tuple):  # of kernels; of numbers it is one parameter
        return {str(i): part for i, part in enumerate(option) if is_dataclass(part)}
    return {}


def _changed(option: Any, path: list[str], value: Any, name: str) -> Any:
    first, *rest = path
    parts = _parts(option)
    if first not in parts:
        raise InvalidInputError(
            f"invalid parameter {name!r}: {option!r} has no parameter {first!r}; it has "
            f"{list(parts)}."
        )
    new = _changed(parts[first], rest, value, name) if rest else value
    if isinstance(option, tuple):
        return tuple(new if str(i) == first else part for i, part in enumerate(option))
    return replace(option, **{first: new})
