"""Two worker processes on this machine, which start again when they are killed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster


@contextmanager
def two_workers() -> Iterator[tuple[LocalCluster, Client]]:
    """Run two workers with nannies and one thread each; both are there when the block begins.

    LocalCluster gives a worker up that takes longer to start again, as on a busy machine.
    """
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield cluster, client
