"""``--cluster`` and ``--workers``: a Dask cluster that is there, or one for this command."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from kcdo.commands.errors import UsageError
from kcdo.errors import ClusterError
from kcdo.extras import import_extra

__all__ = ["Begun", "Cluster", "Workers", "check_cluster", "cluster_client", "in_order"]

Cluster = Annotated[
    str | None,
    typer.Option(help="Work on the Dask cluster at this address; its workers read the files."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Work with so many processes of this machine."),
]

_SECONDS = 10  # to wait for a scheduler
_RESTART = "5 minutes"  # until a worker that does not start again is given up; Dask's 15 s are few


def check_cluster(address: str | None, workers: int | None) -> bool:
    """Return whether a cluster is asked for; raise if two are."""
    if address and workers:
        raise UsageError("--cluster names a cluster that is there, --workers starts one: give one.")
    return bool(address or workers)


@contextmanager
def cluster_client(address: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a client of the cluster that the options name; None if they name none."""
    if not check_cluster(address, workers):
        yield None
        return
    distributed = import_extra("distributed", extra="dask", what="--cluster and --workers")
    if address:
        try:
            client = distributed.Client(address, timeout=_SECONDS)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler answers at {address}: {error}") from error
        with client:
            yield client
        return
    config = import_extra("dask.config", extra="dask", what="--cluster and --workers")
    with (
        config.set({"distributed.deploy.lost-worker-timeout": _RESTART}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,  # what goes wrong is said by the command
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@dataclass
class Begun:
    """Counts how often tasks of a cluster were begun, and how many there are."""

    tasks: int = 0
    times: int = 0
    topic: str = field(default_factory=lambda: f"kcdo-{uuid.uuid4().hex}")

    def hear(self, event: Any) -> None:
        """Take notice of a task, whichever thread brings it."""
        self.times += 1

    @property
    def again(self) -> int:
        """Tasks that were done again."""
        return max(0, self.times - self.tasks)


def in_order(
    client: Any, function: Callable[[Any], Any], items: Iterable[Any], begun: Begun
) -> Generator[tuple[Any, Any]]:
    """Yield items with the results of a function, computed on a cluster, a few ahead."""
    # by a task, not scattered: should its worker die, it is sent again
    shared = client.submit(lambda: function, pure=False)
    pending: deque[tuple[Any, Any]] = deque()
    most = 2 * max(1, len(client.nthreads()))
    client.subscribe_topic(begun.topic, begun.hear)
    try:
        for item in items:
            future = client.submit(_called, shared, item, begun.topic, pure=False, retries=2)
            begun.tasks += 1
            pending.append((item, future))
            if len(pending) > most:
                first, done = pending.popleft()
                yield first, done.result()
        while pending:
            first, done = pending.popleft()
            yield first, done.result()
    finally:  # an error or Ctrl-C: what has not begun never does
        client.cancel([future for _, future in pending])
        client.unsubscribe_topic(begun.topic)


def _called(function: Callable[[Any], Any], item: Any, topic: str) -> Any:
    from distributed import get_worker  # on a worker: these are long imports for kcdo --help

    from kcdo.parallel import alone

    get_worker().log_event(topic, "begun")
    with alone():
        return function(item)
