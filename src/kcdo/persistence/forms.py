"""Which classes a model file may name, and how objects of each are written and made again."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from threading import Lock
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from kcdo.errors import ModelFileError

State = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """How objects of one class are written: their fields, and the way back."""

    name: str
    cls: type
    fields: Mapping[str, Any]  # name -> type
    defaults: Mapping[str, Callable[[], Any]]
    state: Callable[[Any], State]
    make: Callable[..., Any]
    check: Callable[[Any], None] | None
    infinite: frozenset[str]

    def written(self, value: Any) -> State:
        """Return the fields of an object."""
        state = self.state(value)
        self._check_types(state)
        return state

    def made(self, state: State) -> Any:
        """Return the object that has these fields, or refuse them."""
        unknown = sorted(set(state) - set(self.fields))
        if unknown:
            raise ModelFileError(f"{self.name} has an unknown field {unknown[0][:60]!r}.")
        for name in set(self.fields) - set(state):
            if name not in self.defaults:
                raise ModelFileError(f"{self.name} lacks its field {name!r}.")
            state[name] = self.defaults[name]()
        self._check_types(state)
        new = self.make(**state)
        if self.check is not None:
            self.check(new)
        return new

    def _check_types(self, state: State) -> None:
        for name, value in state.items():
            where = f"{self.name}.{name}"
            if not matches(value, self.fields[name]):
                kind = getattr(value, "dtype", type(value).__name__)
                raise ModelFileError(f"{where} must not be of the kind {kind}.")
            if name not in self.infinite:
                for array in _arrays_in(value):
                    if not np.isfinite(array).all():
                        raise ModelFileError(f"{where} contains NaN or infinity.")


_BY_NAME: dict[str, Form] = {}
_BY_CLASS: dict[type, Form] = {}
_LATER: dict[str, Callable[[], None]] = {}  # package -> what registers its classes
_LATER_LOCK = Lock()


def register(
    name: str,
    cls: type,
    *,
    fields: Mapping[str, Any] | None = None,
    state: Callable[[Any], State] | None = None,
    make: Callable[..., Any] | None = None,
    check: Callable[[Any], None] | None = None,
    infinite: tuple[str, ...] = (),
    absent: Mapping[str, Any] | None = None,
) -> None:
    """Let model files hold objects of a class.

    Parameters
    ----------
    name : str
        What files call it, for ever; of several names for one class the last is written.
    cls : type
        The class itself, not its subclasses.
    fields : mapping of names to types, optional
        What is written; by default the fields of a dataclass. Types are checked both ways.
    state : function, optional
        Returns the fields of an object as a dict; by default its attributes of these names.
    make : function, optional
        Takes the fields by keyword and returns the object. By default it is made without
        ``__init__``: fields are set, then ``__post_init__`` is called if there is one.
    check : function, optional
        Takes the new object and raises if its parts do not fit one another.
    infinite : tuple of str
        Fields whose arrays may contain NaN or infinity.
    absent : mapping, optional
        Values of fields that files from before they were added lack; of a dataclass whose fields
        are not given, its defaults.
    """
    form = Form(
        name,
        cls,
        _dataclass_fields(cls) if fields is None else dict(fields),
        _dataclass_defaults(cls)
        if fields is None
        else {name: partial(_same, value) for name, value in (absent or {}).items()},
        state or (lambda value: {f: getattr(value, f) for f in form.fields}),
        make or (lambda **values: _restored(cls, values)),
        check,
        frozenset(infinite),
    )
    if name in _BY_NAME:
        raise ValueError(f"two classes of model files are called {name!r}.")
    _BY_NAME[name] = _BY_CLASS[cls] = form


def register_later(package: str, registration: Callable[[], None]) -> None:
    """Register classes of a package that takes long to import once one of them is met.

    In files their names begin with that of the package and a dot.
    """
    _LATER[package] = registration


def _registered(name: str) -> None:
    with _LATER_LOCK:
        registration = _LATER.get(name.partition(".")[0])
        if registration is not None:
            registration()
            del _LATER[name.partition(".")[0]]


def form_of(value: Any) -> Form | None:
    """Return how an object is written, None where its class is not registered."""
    _registered(type(value).__module__)
    return _BY_CLASS.get(type(value))


def form_called(name: Any) -> Form:
    """Return the form that a file names."""
    if isinstance(name, str):
        _registered(name)
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ModelFileError(f"it names {str(name)[:60]!r}, which no model file may hold.")
    return _BY_NAME[name]


def matches(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type, looking into containers and arrays.

    >>> matches((1.0, 2), tuple[float, ...] | None), matches(("a",), tuple[float, ...])
    (True, False)
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar) or getattr(hint, "_is_protocol", False):
        return True
    if origin in (Union, UnionType):
        return any(matches(value, option) for option in args)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is tuple:
        return isinstance(value, tuple) and _entries_match(value, args)
    if origin is dict:
        return isinstance(value, dict) and all(
            matches(k, args[0]) and matches(v, args[1]) for k, v in value.items()
        )
    if origin is list:
        return isinstance(value, list) and all(matches(v, args[0]) for v in value)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _number_kind_matches(value, args)
    return _is_instance(value, origin or hint)


def _is_instance(value: Any, cls: Any) -> bool:
    if cls is None:
        return value is None
    if cls in (int, float) and isinstance(value, bool | np.bool_):
        return False
    wider = {float: float | int | np.floating | np.integer, int: int | np.integer}
    return isinstance(value, wider.get(cls, cls))


def _entries_match(value: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
    if len(args) == 2 and args[1] is Ellipsis:
        return all(matches(entry, args[0]) for entry in value)
    return len(value) == len(args) and all(map(matches, value, args))


def _number_kind_matches(array: np.ndarray[Any, Any], args: tuple[Any, ...]) -> bool:
    """Whether the numbers are of the kind in ``NDArray[kind]``; a bare ``NDArray`` has any."""
    kind = (get_args(args[1]) or (None,))[0]
    kind = get_origin(kind) or kind
    named = isinstance(kind, type) and issubclass(kind, np.generic)
    return not named or np.issubdtype(array.dtype, kind)


def _arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays of numbers in a field; those of objects in it are their own affair."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _arrays_in(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _arrays_in(entry)


def _dataclass_fields(cls: type) -> dict[str, Any]:
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no dataclass: give its fields.")
    hints = get_type_hints(cls)
    return {f.name: NoneType if hints[f.name] is None else hints[f.name] for f in fields(cls)}


def _dataclass_defaults(cls: Any) -> dict[str, Callable[[], Any]]:
    """Return the defaults of fields, for files from before a field was added."""
    found: dict[str, Callable[[], Any]] = {}
    for f in fields(cls):
        if f.default_factory is not MISSING:
            found[f.name] = f.default_factory
        elif f.default is not MISSING:
            found[f.name] = partial(_same, f.default)
    return found


def _same(value: Any) -> Any:
    return value


def _restored(cls: type, values: State) -> Any:
    new: Any = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(new, name, value)  # also of frozen dataclasses
    if hasattr(new, "__post_init__"):
        new.__post_init__()
    return new
