"""Predictions of Dask collections: Dask collections too, computed when they are asked for."""

import hashlib
import pickle
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import delayed

from kcdo.distributed.dask_chunks import dask_parts
from kcdo.distributed.engine import naming
from kcdo.errors import InvalidInputError
from kcdo.extras import import_extra
from kcdo.parallel import alone

__all__ = ["lazy_frame", "lazy_values"]


def lazy_values(model: Any, method: str, X: Any, y: Any = None, width: int | None = None) -> Any:
    """Return ``getattr(model, method)(X)``, or of X and y, as a Dask array (N,) or (N, width).

    The model is in the graph once, also of several predictions that are computed together; each
    worker that needs it gets it once.
    """
    parts, shared = _parts(X, y), _shared(model)
    tail = () if width is None else (width,)
    sizes = _sizes(X, len(parts))
    work = delayed(_values, pure=False)
    blocks = [
        da.from_delayed(
            work(shared, method, number, part, tail),
            shape=(size, *tail),
            meta=np.empty((0, *tail)),
        )
        for number, (part, size) in enumerate(zip(parts, sizes, strict=True))
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def lazy_frame(model: Any, X: Any, columns: Sequence[str], y: Any = None) -> Any:
    """Return the summary of a Dask data frame as a Dask data frame with its index."""
    dd = import_extra("dask.dataframe", extra="dask", what="Summaries of Dask data frames")
    if not hasattr(X, "divisions"):
        raise InvalidInputError(
            "summary of a Dask collection needs a data frame; of arrays take predict, or "
            "map_blocks with model.conditional."
        )
    meta = _meta(model, X, columns)
    work, shared = delayed(_table, pure=False), _shared(model)
    parts = [
        work(shared, list(columns), number, part, meta) for number, part in enumerate(_parts(X, y))
    ]
    return dd.from_delayed(parts, meta=meta, divisions=X.divisions, verify_meta=False)


def _parts(X: Any, y: Any) -> list[Any]:
    if y is None:  # dask_parts takes pairs: X stands for both
        return [(first,) for first, _ in dask_parts(X, X, None)]
    return dask_parts(X, y, None)


def _sizes(X: Any, count: int) -> list[float]:
    chunks = getattr(X, "chunks", None)
    return list(chunks[0]) if isinstance(chunks, tuple) else [np.nan] * count


def _shared(model: Any) -> Any:
    """Return the model as a task, which all predictions of the same fit have in common."""
    fit = hashlib.sha256(pickle.dumps(model)).hexdigest()
    return delayed(model, name=f"kcdo-model-{fit}", traverse=False)


def _values(model: Any, method: str, number: int, part: Any, tail: tuple[int, ...]) -> Any:
    """Return the answers for one chunk: this runs on a worker, with one thread."""
    if not len(part[0]):
        return np.empty((0, *tail))
    with naming(f"chunk {number}"), alone():
        return getattr(model, method)(*part)


def _table(model: Any, columns: list[str], number: int, part: Any, meta: Any) -> Any:
    """Return the summary of one chunk: this runs on a worker, with one thread."""
    if not len(part[0]):
        return meta.set_axis(part[0].index, axis=0)
    with naming(f"chunk {number}"), alone():
        return model.summary(part[0], columns, *part[1:])


def _meta(model: Any, X: Any, columns: Sequence[str]) -> Any:
    """Return an empty table with the columns and the index that every chunk will have."""
    outputs = model.target_names_ or [f"y{i}" for i in range(model.n_outputs)]
    names = [
        name if model.n_outputs == 1 or name == "logpdf" else f"{output}_{name}"
        for name in columns
        for output in (outputs[:1] if name == "logpdf" else outputs)
    ]
    frame = X._meta
    return type(frame)({name: np.empty(0) for name in names}, index=frame.index[:0])
