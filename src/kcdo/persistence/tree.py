"""Objects as a list of plain records, and back: the inner shape of a model file.

Each object becomes one record ``{"class": name, "fields": {...}}``. Fields hold JSON values; what
JSON has no word for is an object with one key: ``{"$ref": 3}`` is record 3, always an earlier one,
``{"$array": "a0"}`` an array, ``$tuple``, ``$dict``, ``$scalar``, ``$float`` and ``$strings`` the
values of these kinds. An object or array that is used twice is written once, and shared again.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidTypeError, ModelFileError
from kcdo.persistence.archive import Arrays, dtype_of, kind_of
from kcdo.persistence.forms import form_called, form_of

Record = dict[str, Any]

_LARGEST_TREE = 1_000_000


def encode(root: Any) -> tuple[list[Record], Arrays]:
    """Return the records of an object and of all it holds, itself last, and the arrays."""
    encoder = _Encoder()
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
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.arrays: Arrays = {}
        self._seen: dict[int, tuple[Any, Any]] = {}  # the value too: it must outlive its id

    def object(self, value: Any, where: str) -> Any:
        form = form_of(value)
        if form is None:
            raise InvalidTypeError(_refusal(value, where))
        if id(value) not in self._seen:
            fields = {
                name: self.value(part, f"{where}, {name}")
                for name, part in form.written(value).items()
            }
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
            name = f"a{len(self.arrays)}"
            self.arrays[name] = np.asarray(array)
            self._seen[id(array)] = ({"$array": name}, array)
        return self._seen[id(array)][0]


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


class _Decoder:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self.objects: list[Any] = []
        self._sizes: list[int] = []  # of each object, as if nothing in it were shared
        self._size = 0

    def add(self, record: Any) -> None:
        """Make the object of the next record."""
        if not isinstance(record, dict) or set(record) != {"class", "fields"}:
            raise ModelFileError(f"object {len(self.objects)} has no class and fields.")
        form = form_called(record["class"])
        if not isinstance(record["fields"], dict):
            raise ModelFileError(f"the fields of {form.name} are not a table.")
        self._size = 1
        state = {name: self.value(part) for name, part in record["fields"].items()}
        if self._size > _LARGEST_TREE:  # a few records that refer to one another may stand for many
            raise ModelFileError(f"{form.name} has too many parts.")
        self.objects.append(form.made(state))
        self._sizes.append(self._size)

    def value(self, value: Any) -> Any:
        """Return what a JSON value stands for."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return [self.value(entry) for entry in value]
        ((tag, content),) = value.items()
        if tag == "$ref" and type(content) is int and 0 <= content < len(self.objects):
            self._size += self._sizes[content]
            return self.objects[content]
        if tag == "$array" and isinstance(content, str) and content in self._arrays:
            return self._arrays[content]
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
