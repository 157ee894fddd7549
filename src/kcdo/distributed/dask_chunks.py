"""Dask collections as a list of chunks, each a tuple of delayed values or futures."""

import sys
from collections.abc import Sequence
from typing import Any

from dask.base import compute, is_dask_collection
from dask.delayed import Delayed

from kcdo.errors import InvalidInputError, InvalidTypeError

__all__ = ["computed", "current_client", "dask_parts"]

Part = tuple[Any, ...]  # (X, y) or (X, y, weight), or one value that is such a tuple


def dask_parts(X: Any, y: Any, sample_weight: Any) -> list[Part]:
    """Return the chunks of X, y and weights, which must be cut at the same rows."""
    if y is None:
        return _whole_chunks(X, sample_weight)
    columns = _aligned({"X": X, "y": y} | ({} if sample_weight is None else {"w": sample_weight}))
    lists = {_NAMES[name]: _delayed(_NAMES[name], data) for name, data in columns.items()}
    counts = {name: len(parts) for name, parts in lists.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} in {count}" for name, count in counts.items())
        raise InvalidInputError(
            f"X, y and sample_weight must be cut into chunks at the same rows; got {found} chunks: "
            "repartition or rechunk them alike."
        )
    return list(zip(*lists.values(), strict=True))


_NAMES = {"X": "X", "y": "y", "w": "sample_weight"}


def computed(part: Part) -> Part:
    """Return a chunk as arrays or frames, computed in this thread."""
    values = compute(*part, scheduler="synchronous")
    return values if len(values) > 1 else values[0]


def current_client(parts: Sequence[Part]) -> Any:
    """Return the client that futures belong to, else the current one; None where there is none."""
    for part in parts:
        for value in part:
            if _is_future(value):
                return value.client
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _whole_chunks(X: Any, sample_weight: Any) -> list[Part]:
    if not isinstance(X, list | tuple):
        raise InvalidInputError("fit requires y to be passed, but the target y is None.")
    if sample_weight is not None:
        raise InvalidInputError(
            "weights of chunks come with them, as (X, y, weight); got sample_weight."
        )
    if all(isinstance(part, tuple) for part in X):  # of delayed values
        return list(X)
    return [(part,) for part in _checked_list("X", X)]


def _aligned(columns: dict[str, Any]) -> dict[str, Any]:
    """Return arrays of known sizes cut where X is; others are as they are."""
    X = columns["X"]
    sizes = _known_sizes(X)
    if sizes is None:
        return columns
    found = dict(columns)
    for name, data in columns.items():
        other = _known_sizes(data)
        if other is None or other == sizes:
            continue
        if sum(other) != sum(sizes):
            raise InvalidInputError(
                f"X and {_NAMES[name]} have inconsistent numbers of samples: {sum(sizes)} and "
                f"{sum(other)} rows."
            )
        found[name] = data.rechunk({0: sizes})
    return found


def _known_sizes(data: Any) -> tuple[int, ...] | None:
    chunks = getattr(data, "chunks", None)
    if not isinstance(chunks, tuple) or not chunks or any(size != size for size in chunks[0]):
        return None  # no array, or sizes that Dask has not counted
    return tuple(int(size) for size in chunks[0])


def _delayed(name: str, data: Any) -> list[Any]:
    """Return the chunks of one collection."""
    if isinstance(data, list | tuple):
        return _checked_list(name, data)
    if not is_dask_collection(data) or not hasattr(data, "to_delayed"):
        raise InvalidTypeError(
            f"{name} must be a Dask array or data frame, or a list of delayed chunks, as the "
            f"others are; got a {type(data).__name__}."
        )
    if hasattr(data, "chunks"):  # an array
        wide = {axis: -1 for axis in range(1, data.ndim) if data.numblocks[axis] > 1}
        if name == "X" and data.ndim != 2:
            raise InvalidInputError(f"X must have two axes, rows and columns; got {data.ndim}.")
        data = data.rechunk(wide) if wide else data
        return list(data.to_delayed().ravel())
    return list(data.to_delayed())


def _checked_list(name: str, parts: Sequence[Any]) -> list[Any]:
    for number, part in enumerate(parts):
        if not (isinstance(part, Delayed) or _is_future(part)):
            raise InvalidTypeError(
                f"chunk {number} of {name} is a {type(part).__name__}; a list of chunks on a "
                "cluster holds delayed values or futures only."
            )
    return list(parts)


def _is_future(value: Any) -> bool:
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(value, distributed.Future)
