"""Which classes a model file may name, and how objects of each are written and made again."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, partial
from threading import Lock
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from kcdo.errors import ModelFileError

State = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """How objects are written: their fields, and the way back."""

    name: str
    fields: Mapping[str, Any]  # name -> type
    make: Callable[[State], Any]
    state: Callable[[Any], State] | None = None  # None where objects are only read
    defaults: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    former: Mapping[str, str | None] = field(default_factory=dict)
    infinite: tuple[str, ...] = ()
    nests: bool = False  # whether objects hold others of their kind, without end
    cost: int = 2  # of making one, about that of so many kernel values

    def written(self, value: Any) -> State:
        """Return the fields of an object."""
        assert self.state is not None
        state = self.state(value)
        self._check_types(state)
        return state

    def made(self, found: State) -> Any:
        """Return the object that has these fields, or refuse them."""
        named = {self.former.get(name, name): value for name, value in found.items()}
        state = {name: value for name, value in named.items() if name is not None}
        unknown = sorted(set(state) - set(self.fields))
        if unknown:
            raise ModelFileError(f"{self.name} has an unknown field {unknown[0][:60]!r}.")
        for name in set(self.fields) - set(state):
            if name not in self.defaults:
                raise ModelFileError(f"{self.name} lacks its field {name!r}.")
            state[name] = self.defaults[name]()
        self._check_types(state)
        return self.make(state)

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
    cls: Any,
    *,
    fields: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    former: Mapping[str, str | None] | None = None,
    infinite: tuple[str, ...] = (),
    nests: bool = False,
    cost: int = 2,
) -> None:
    """Let model files hold objects of a class.

    Parameters
    ----------
    name : str
        What files call it, for ever.
    cls : type
        The class itself, not its subclasses.
    fields : mapping of names to types, optional
        What is written; by default the fields of a dataclass. Types are checked both ways.
    more : mapping of names to types, optional
        Fields that ``to_state()`` adds, or that are there of another type.
    former : mapping, optional
        What fields of earlier files are called now, None if they are no longer needed.
    infinite : tuple of str
        Fields whose arrays may contain NaN or infinity.
    nests : bool
        Whether objects hold others of their kind, as kernels do.
    cost : int
        Of making one, about that of so many kernel values.

    Notes
    -----
    The fields of an object are what its ``to_state()`` returns, or its attributes. An object is
    made by ``cls.from_state(fields)``, or by its constructor, which checks them. Fields of a
    dataclass that files from before they were added lack get their defaults.
    """
    names = {**(_dataclass_fields(cls) if fields is None else fields), **(more or {})}
    form = Form(
        name,
        names,
        make=getattr(cls, "from_state", lambda state: cls(**state)),
        state=getattr(cls, "to_state", lambda value: {f: getattr(value, f) for f in names}),
        defaults=_dataclass_defaults(cls) if fields is None else {},
        former=former or {},
        infinite=infinite,
        nests=nests,
        cost=cost,
    )
    add_form(form, cls)


def register_former(
    name: str,
    fields: Mapping[str, Any],
    make: Callable[..., Any],
    *,
    absent: Mapping[str, Any] | None = None,
    cost: int = 2,
) -> None:
    """Let earlier files hold what ``make`` turns, from its fields by keyword, into an object."""
    defaults = {name: partial(_same, value) for name, value in (absent or {}).items()}
    add_form(Form(name, fields, lambda state: make(**state), defaults=defaults, cost=cost))


def register_later(package: str, registration: Callable[[], None]) -> None:
    """Register classes of a package that takes long to import once one of them is met.

    In files their names begin with that of the package and a dot.
    """
    _LATER[package] = registration


def add_form(form: Form, cls: type | None = None) -> None:
    """Let model files name a form; objects of the class, if there is one, are written by it."""
    if form.name in _BY_NAME:
        raise ValueError(f"two classes of model files are called {form.name!r}.")
    _BY_NAME[form.name] = form
    if cls is not None:
        _BY_CLASS[cls] = form


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
    return _test_of(hint)(value)


@cache
def _test_of(hint: Any) -> Callable[[Any], bool]:
    """Return a function that tells whether values are of an annotated type."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return lambda value: True
    if getattr(hint, "_is_protocol", False):
        members = [name for name in vars(hint) if not name.startswith("_")]
        return lambda value: all(_has(value, name) for name in members)
    if origin is Literal:
        return lambda value: any(type(value) is type(arg) and value == arg for arg in args)
    if origin is np.ndarray:
        return lambda value: isinstance(value, np.ndarray) and _number_kind_matches(value, args)
    if origin not in (Union, UnionType, list, tuple, dict):
        return _instance_test(origin or hint)
    each = [_test_of(arg) for arg in args if arg is not Ellipsis]
    if origin in (Union, UnionType):
        return lambda value: any(test(value) for test in each)
    if origin is list or (origin is tuple and Ellipsis in args):
        return lambda value: isinstance(value, origin) and all(map(each[0], value))
    if origin is tuple:
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(each)
            and all(test(entry) for test, entry in zip(each, value, strict=True))
        )
    return lambda value: (
        isinstance(value, dict) and all(map(each[0], value)) and all(map(each[1], value.values()))
    )


def _has(value: Any, name: str) -> bool:
    """Whether an object has a member; no property of it is computed."""
    return hasattr(type(value), name) or name in getattr(value, "__dict__", {})


def _instance_test(cls: Any) -> Callable[[Any], bool]:
    if cls is None:
        return lambda value: value is None
    if cls not in (int, float):
        return lambda value: isinstance(value, cls)
    kinds = (int, np.integer) if cls is int else (int, float, np.integer, np.floating)
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


def _number_kind_matches(array: np.ndarray[Any, Any], args: tuple[Any, ...]) -> bool:
    """Whether the numbers are of the kind in ``NDArray[kind]``; a bare ``NDArray`` has any."""
    kind = (get_args(args[1]) or (None,))[0]
    kind = get_origin(kind) or kind
    named = isinstance(kind, type) and issubclass(kind, np.generic)
    return not named or np.issubdtype(array.dtype, kind)


def _arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays of numbers in a field, but not those inside registered objects."""
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
