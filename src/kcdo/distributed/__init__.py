"""Fits of data in chunks: the same passes on the threads of this machine or on a Dask cluster."""

from kcdo.distributed.engine import Engine, LocalEngine, StreamFacts, Task
from kcdo.distributed.passes import Draw, FindNear, KeepRows, Look, Overview, Reader, Sum, pilot_of
from kcdo.distributed.sources import engine_for, is_dask, lazily
from kcdo.distributed.trees import TreeSum

__all__ = [
    "Draw",
    "Engine",
    "FindNear",
    "KeepRows",
    "LocalEngine",
    "Look",
    "Overview",
    "Reader",
    "StreamFacts",
    "Sum",
    "Task",
    "TreeSum",
    "engine_for",
    "is_dask",
    "lazily",
    "pilot_of",
]
