"""Where the chunks of a fit are: in an iterable here, or in Dask collections."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kcdo.distributed.engine import BegunChunks, Engine, LocalEngine
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.extras import import_extra
from kcdo.progress import SILENT, Progress
from kcdo.validation import column_names

__all__ = ["engine_for", "is_dask", "lazily"]


def engine_for(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    client: Any = None,
    *,
    n_jobs: int | None = None,
    progress: Progress = SILENT,
) -> Engine | None:
    """Return what reads the data chunk by chunk; None for data that are at hand as a whole."""
    given = [part for part in (X, y, sample_weight) if part is not None]
    if any(map(is_dask, given)):
        return _dask_engine(X, y, sample_weight, client, n_jobs, progress)
    if client is not None:
        raise InvalidTypeError(
            "client= is for data on a cluster: X and y must be Dask arrays, Dask data frames, or "
            f"lists of delayed chunks or futures; X is a {type(X).__name__}."
        )
    chunks = None if y is not None else begun_chunks(X)
    if chunks is None:
        return None
    if sample_weight is not None:
        raise InvalidInputError(
            "weights of chunks come with them, as (X, y, weight); got sample_weight."
        )
    return LocalEngine(chunks, n_jobs, progress)


def begun_chunks(data: Any) -> BegunChunks | None:
    """Return a re-iterable of (X, Y) or (X, Y, weight) chunks, one read; None of other data."""
    if hasattr(data, "shape") or column_names(data) is not None or not isinstance(data, Iterable):
        return None
    if isinstance(data, Iterator):
        raise InvalidInputError(
            "chunks must come from an object that can be iterated over more than once (a list, or "
            "a class with __iter__), because a fit reads them several times; got an iterator."
        )
    chunks = BegunChunks(data)
    try:
        first = chunks[0]
    except IndexError:
        return None
    whole = isinstance(first, tuple) and len(first) in (2, 3) and np.ndim(first[0]) == 2
    return chunks if whole else None


def is_dask(data: Any) -> bool:
    """Whether data are a Dask collection, a delayed chunk or a future, or a list of such."""
    if isinstance(data, list | tuple):
        return bool(data) and any(map(_of_dask, data))
    return _of_dask(data)


def lazily() -> Any:
    """Return the module that predicts Dask collections."""
    what = "Predictions of Dask collections"
    return import_extra("kcdo.distributed.lazy", extra="dask", what=what)


def _of_dask(data: Any) -> bool:
    # by the name of the package, which need not be there
    homes = {cls.__module__.partition(".")[0] for cls in type(data).__mro__}
    return bool(homes & {"dask", "distributed"})


def _dask_engine(
    X: Any, y: Any, sample_weight: Any, client: Any, n_jobs: int | None, progress: Progress
) -> Engine:
    what = "Fits of Dask collections"
    chunks = import_extra("kcdo.distributed.dask_chunks", extra="dask", what=what)
    parts = chunks.dask_parts(X, y, sample_weight)
    cluster = client or chunks.current_client(parts)
    if cluster is None:
        return LocalEngine(_Computed(parts, chunks.computed), n_jobs, progress)
    engine = import_extra("kcdo.distributed.dask_engine", extra="dask", what=what)
    return engine.DaskEngine(cluster, parts, progress)


class _Computed:
    """Delayed chunks, computed one after the other where there is no cluster."""

    def __init__(self, parts: list[Any], compute: Any) -> None:
        self._parts, self._compute = parts, compute

    def __iter__(self) -> Iterator[Any]:
        for part in self._parts:
            yield self._compute(part)
