"""A few kills, forks, threads and fits in a row, of those of tests/fuzz/lives.py.

Fits in little memory are in test_memory.py.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from kcdo import parallel
from kcdo.reconstruction import Reconstruction
from tests.fuzz.lives import LIVES, ROOT, answers, fitted

unix = pytest.mark.skipif(sys.platform != "linux", reason="signals, limits and /proc of Linux")
FEW = {
    "kills": 2,
    "full-disk": 1,
    "threads": 16,
    "processes": 3,
    "long-life": 40,
}


@unix
@pytest.mark.parametrize("name", ["kills", "full-disk", "threads", "long-life"])
def test_a_few_lives(name):
    assert LIVES[name][0](FEW[name])


@unix
def test_a_few_forks():
    """Without coverage: a thread may hold the lock of its tracer at the moment of a fork."""
    command = [sys.executable, "-m", "tests.fuzz.lives", "--only", "processes"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    subprocess.run(
        [*command, "--count", str(FEW["processes"])], cwd=ROOT, env=environment, check=True
    )


def test_models_in_other_processes_of_joblib():
    joblib = pytest.importorskip("joblib")
    model = fitted(0)
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(answers)(model) for _ in range(2))
    for each in found:
        np.testing.assert_allclose(each, answers(model), rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cached properties have no locks")
def test_a_forked_process_has_cached_properties_of_its_own():
    """A thread may hold their locks at the moment of a fork: it is not there to let them go."""
    lock = Reconstruction.__dict__["_inverse"].lock
    parallel._after_fork()
    assert Reconstruction.__dict__["_inverse"].lock is not lock
    assert fitted(0) is not None


def test_a_forked_process_has_limits_and_locks_of_its_own():
    limits = parallel._BlasLimits()
    limits.enter(1)
    limits._lock.acquire()  # as a thread does that is not there after a fork
    limits.after_fork()
    limits.enter(1)
    limits.leave(1)
    assert limits._asked == []
