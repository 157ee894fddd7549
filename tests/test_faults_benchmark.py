"""The benchmark that kills workers: it ends when a nanny gives up, and hides no other error."""

from argparse import Namespace
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("distributed")

from benchmarks import faults


class OneWorker:
    """A client of a cluster that has lost a worker for good."""

    def run(self, function, on_error):
        return {"tcp://one": 1}

    def nthreads(self):
        return {"tcp://one": 1}


class Model:
    """A model whose fits all end with one error, or with none."""

    def __init__(self, error=None):
        self.error = error

    def fit(self, parts, client):
        if self.error is not None:
            raise self.error
        return self


@contextmanager
def lonely():
    yield None, OneWorker()


@pytest.fixture
def tally(monkeypatch):
    monkeypatch.setattr(faults, "RESTART", 0.3)
    monkeypatch.setattr(faults, "two_workers", lonely)
    return faults.Tally()


def run(tally):
    options = Namespace(seed=0, fits=3, timeout=1.0)
    faults.fit_until_a_nanny_gives_up(options, [], np.zeros(1), tally)


def test_a_worker_that_does_not_come_back_ends_the_fits_of_its_cluster(tally, monkeypatch):
    monkeypatch.setattr(faults, "model", lambda options: Model())
    run(tally)
    assert tally.fits == 0
    with pytest.raises(faults.NannyGaveUpError, match="1 workers after"):
        faults.two_answering(OneWorker())


def test_the_fit_without_kills_may_not_time_out_unseen(tally, monkeypatch):
    monkeypatch.setattr(faults, "model", lambda options: Model(TimeoutError("of a fit")))
    with pytest.raises(TimeoutError, match="of a fit"):
        run(tally)
