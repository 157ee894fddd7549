"""Objects as a list of plain records, and back: the inner shape of a model file.

Each object becomes one record ``{"class": name, "fields": {...}}``. Fields hold JSON values; what
JSON has no word for is an object with one key: ``{"$ref": 3}`` is record 3, always an earlier one,
``{"$array": "a0"}`` an array, ``$double`` one that is written in single precision without loss,
``$tuple``, ``$dict``, ``$scalar``, ``$float`` and ``$strings`` the values of these kinds. An object
or array that is used twice is written once, and shared again.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidTypeError, ModelFileError
from kcdo.persistence.archive import Arrays, dtype_of, kind_of
from kcdo.persistence.forms import Form, form_called, form_of

Record = dict[str, Any]

# A few kernels that hold one another may stand for very many, and whatever holds one tries it out:
# so what is bounded is the number of objects and of kernels in them, as often as they are held.
_MOST_WORK = 15_000
_DEEPEST_NEST = 64
_MOST_REPEATED = 1 << 28  # bytes of arrays that were referred to before, beyond:
_OFTEN = 10  # times all arrays


def encode(root: Any, *, single: bool = False) -> tuple[list[Record], Arrays]:
    """Return the records of an object and of all it holds, itself last, and the arrays.

    ``single`` asks objects that can to round their numbers, by their ``in_single_precision()``.
    """
    encoder = _Encoder(single)
    encoder.object(root, "the model")
    return encoder.records, encoder.arrays


def decode(records: Any, arrays: Arrays) -> Any:
    """Return the object of the last record."""
    if not isinstance(records, list) or not records:
        raise ModelFileError("it has no list of objects.")
    decoder = _Decoder(arrays)
    for record in records:
        decoder.add(record)
    return decoder.objects[-1]


class _Encoder:
    def __init__(self, single: bool) -> None:
        self.records: list[Record] = []
        self.arrays: Arrays = {}
        self._single = single
        self._budget = _Budget()
        self._seen: dict[int, tuple[Any, Any]] = {}  # the value too: it must outlive its id
        self._alike: dict[Any, list[tuple[NDArray[Any], Any]]] = {}  # by kind and shape

    def object(self, value: Any, where: str) -> Any:
        form = form_of(value)
        if form is None:
            raise InvalidTypeError(_refusal(value, where))
        if id(value) not in self._seen:
            rounds = self._single and hasattr(value, "in_single_precision")
            written = value.in_single_precision() if rounds else value
            fields = {
                name: self.value(part, f"{where}, {name}")
                for name, part in form.written(written).items()
            }
            self._budget.take(form, list(_references(fields)))
            self._seen[id(value)] = ({"$ref": len(self.records)}, value)
            self.records.append({"class": form.name, "fields": fields})
        return self._seen[id(value)][0]

    def value(self, value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, np.generic) and kind_of(value.dtype) and value.dtype.kind in "bif":
            return {"$scalar": [kind_of(value.dtype), self.value(value.item(), where)]}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if type(value) in (list, tuple):
            entries = [self.value(entry, where) for entry in value]
            return entries if type(value) is list else {"$tuple": entries}
        if type(value) is dict:
            pairs = value.items()
            return {"$dict": [[self.value(k, where), self.value(v, where)] for k, v in pairs]}
        return self.object(value, where)

    def _array(self, array: NDArray[Any], where: str) -> Any:
        if array.dtype == object and array.ndim == 1 and all(isinstance(v, str) for v in array):
            return {"$strings": [str(v) for v in array]}
        if kind_of(array.dtype) is None:
            raise InvalidTypeError(
                f"a model file cannot hold {where}, an array of {array.dtype}: it holds plain "
                "numbers. Use pickle or joblib instead."
            )
        if id(array) not in self._seen:
            self._seen[id(array)] = (self._written(np.asarray(array)), array)
        return self._seen[id(array)][0]

    def _written(self, array: NDArray[Any]) -> Record:
        """Return the name of an array in the file; one that is equal to another is not repeated."""
        alike = self._alike.setdefault((array.dtype.str, array.shape, array.flags.fnc), [])
        for other, name in alike:
            if (
                np.array_equal(array, other) and array.tobytes() == other.tobytes()
            ):  # -0.0 is not 0.0
                return name
        narrow, own = _in_single(array), f"a{len(self.arrays)}"
        self.arrays[own] = array if narrow is None else narrow
        alike.append((array, {"$array" if narrow is None else "$double": own}))
        return alike[-1][1]


def _references(value: Any) -> Iterator[int]:
    """Yield the records that a JSON value refers to."""
    if isinstance(value, dict) and "$ref" in value:
        yield value["$ref"]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _references(part)


def _in_single(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return an array of doubles in single precision, None where that would lose anything."""
    if array.dtype != np.float64 or array.size < 64:
        return None
    with np.errstate(over="ignore", under="ignore"):
        few = array.ravel(order="K")[:64]
        if not np.array_equal(few.astype(np.float32), few):
            return None
        narrow = array.astype(np.float32)
    return narrow if np.array_equal(narrow, array) else None


def _refusal(value: Any, where: str) -> str:
    if callable(value):
        return (
            f"a model file cannot hold {where}: it is the function {value!r}, and model files hold "
            "no code. Use a kernel of kcdo or scikit-learn, or pickle or joblib instead."
        )
    return (
        f"a model file cannot hold {where}, a {type(value).__name__} ({str(value)[:60]}): it holds "
        "numbers, texts and the objects of kcdo. Use pickle or joblib instead."
    )


class _Budget:
    """What all objects of a file may hold together."""

    def __init__(self) -> None:
        self._nests: list[tuple[int, int]] = []  # size and depth, as if nothing were shared
        self._work = 0

    def take(self, form: Form, references: list[int]) -> None:
        """Count the next object, which refers to others."""
        size = sum(self._nests[i][0] for i in references)
        depth = max((self._nests[i][1] for i in references), default=0)
        self._nests.append((size + 1, depth + 1) if form.nests else (0, 0))
        self._work += form.cost + size
        if self._work > _MOST_WORK:
            raise ModelFileError(f"a model file cannot hold so many parts; one more: {form.name}.")
        if depth > _DEEPEST_NEST:
            raise ModelFileError(f"{form.name} has parts that are nested too deeply.")


class _Decoder:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._used: set[str] = set()
        self._repeated = 0
        self._most_repeated = _MOST_REPEATED + _OFTEN * sum(a.nbytes for a in arrays.values())
        self._budget = _Budget()
        self._references: list[int] = []
        self.objects: list[Any] = []

    def add(self, record: Any) -> None:
        """Make the object of the next record."""
        if not isinstance(record, dict) or set(record) != {"class", "fields"}:
            raise ModelFileError(f"object {len(self.objects)} has no class and fields.")
        form = form_called(record["class"])
        if not isinstance(record["fields"], dict):
            raise ModelFileError(f"the fields of {form.name} are not a table.")
        self._references = []
        state = {name: self.value(part) for name, part in record["fields"].items()}
        self._budget.take(form, self._references)
        self.objects.append(form.made(state))

    def value(self, value: Any) -> Any:
        """Return what a JSON value stands for."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return [self.value(entry) for entry in value]
        ((tag, content),) = value.items()
        if tag == "$ref" and type(content) is int and 0 <= content < len(self.objects):
            self._references.append(content)
            return self.objects[content]
        if tag in ("$array", "$double") and isinstance(content, str) and content in self._arrays:
            return self._array(content, wide=tag == "$double")
        if tag == "$tuple" and isinstance(content, list):
            return tuple(self.value(entry) for entry in content)
        if tag == "$dict" and isinstance(content, list):
            return {self.value(k): self.value(v) for k, v in content}
        if tag == "$scalar":
            kind, number = content
            return dtype_of(kind).type(self.value(number))
        if tag == "$float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if tag == "$strings" and all(isinstance(text, str) for text in content):
            return np.array(list(content), dtype=object)
        raise ModelFileError(f"it has a value of unknown kind, {str(tag)[:60]!r}.")

    def _array(self, name: str, *, wide: bool) -> NDArray[Any]:
        if wide and self._arrays[name].dtype == np.float32:
            self._arrays[name] = self._arrays[name].astype(float)  # the same for all who share it
        if name in self._used:
            self._repeated += self._arrays[name].nbytes
            if self._repeated > self._most_repeated:
                raise ModelFileError("it uses its arrays too often.")
        self._used.add(name)
        return self._arrays[name]
