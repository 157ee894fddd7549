"""Threads: their number, their errors, and BLAS held to one thread each."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kcdo
from kcdo import parallel
from kcdo.errors import InvalidInputError
from kcdo.parallel import blas_limit, ordered_map, run_threaded, scratch, thread_count

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("n_jobs", "expected"),
    [(None, CORES), (1, 1), (7, 7), (-1, CORES), (-2, max(1, CORES - 1)), (-999, 1)],
)
def test_thread_count_follows_scikit_learn(n_jobs, expected):
    assert thread_count(n_jobs) == expected


def test_thread_count_without_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert thread_count(None) == 5
    assert thread_count(-2) == 4
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count(None) == 1


def test_zero_threads():
    with pytest.raises(InvalidInputError, match="n_jobs must not be 0: give a number of threads"):
        thread_count(0)


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5])
@pytest.mark.parametrize("n_items", [0, 1, 2, 30])
def test_every_item_once(n_jobs, n_items):
    seen = np.zeros(n_items, dtype=int)

    def mark(i):
        seen[i] += 1

    run_threaded(mark, range(n_items), n_jobs)
    np.testing.assert_array_equal(seen, 1)


def test_one_thread_means_the_calling_thread():
    names = set()
    run_threaded(lambda _: names.add(threading.current_thread().name), range(4), 1)
    assert names == {threading.current_thread().name}


def test_two_threads_work_at_the_same_time():
    both = threading.Barrier(2, timeout=20)  # breaks unless two threads meet here
    run_threaded(lambda _: both.wait(), range(2), 2)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_errors_come_back(n_jobs):
    def fail_at_seven(i):
        if i == 7:
            raise ZeroDivisionError("seven")

    with pytest.raises(ZeroDivisionError, match="seven"):
        run_threaded(fail_at_seven, range(10), n_jobs)


def test_blas_has_one_thread_inside_and_its_own_after():
    def blas_threads():
        return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]

    before, inside = blas_threads(), []
    run_threaded(lambda _: inside.extend(blas_threads()), range(2), 2)
    assert set(inside) == {1}
    assert blas_threads() == before


def test_limits_hold_from_any_thread():
    """Also after another thread has set some, and where threads enter and leave in other orders."""

    def threads():
        found = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
        return set(found)

    def limited():
        with blas_limit(1):
            return threads()

    with ThreadPoolExecutor(1) as pool, threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        assert limited() == {1}
        assert pool.submit(limited).result() == {1}
        assert threads() == {2}
        first = blas_limit(1)
        first.__enter__()
        pool.submit(first.__exit__, None, None, None).result()  # left by another thread
        assert threads() == {2}


def test_overlapping_limits_are_all_given_back():
    """Two callers at once: the second to leave must not restore the first one's limit."""
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    first, second = blas_limit(1), blas_limit(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    during = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    second.__exit__(None, None, None)
    after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert set(during) == {1}
    assert after == before


def test_no_limit_leaves_blas_alone():
    with blas_limit(None):
        pass


def test_workers_use_their_scratch_memory_again():
    assert scratch((2, 3)) is None  # only workers have some

    def addresses(_):
        first = scratch((4, 5))
        smaller = scratch((2, 3))
        return first.shape, smaller.shape, first.ctypes.data == smaller.ctypes.data

    for found in ordered_map(addresses, range(4), 2):
        assert found == ((4, 5), (2, 3), True)


# --- results in order


@pytest.mark.parametrize("n_jobs", [1, 2, 4, None])
def test_results_come_in_order(n_jobs):
    wait = threading.Event()

    def square(i):
        wait.wait(0.001 * (i % 3))
        return i * i

    assert list(ordered_map(square, range(50), n_jobs)) == [i * i for i in range(50)]
    assert list(ordered_map(square, [], n_jobs)) == []


def test_threads_do_not_start_threads():
    def names(_):
        return set(ordered_map(lambda _: threading.current_thread().name, range(5), 3))

    found = list(ordered_map(names, range(4), 2))
    assert all(len(inner) == 1 for inner in found)
    assert threading.current_thread().name not in set().union(*found)


def test_few_results_wait_to_be_taken():
    before = set(threading.enumerate())
    begun = []
    results = ordered_map(begun.append, range(1000), 2)
    next(results)
    results.close()
    assert len(begun) < 50
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_ends_the_work(n_jobs, error):
    before = set(threading.enumerate())
    begun = []

    def fail_at_five(i):
        begun.append(i)
        if i == 5:
            raise error("five")
        return i

    taken = []
    with pytest.raises(error, match="five"):
        taken.extend(i for i in ordered_map(fail_at_five, range(1000), n_jobs))
    assert len(begun) < 100
    assert set(threading.enumerate()) <= before
    assert list(ordered_map(lambda i: i, range(9), n_jobs)) == list(range(9))


def test_limits_of_blas_are_restored_after_a_fit_that_fails_halfway(monkeypatch, rng):
    def broken(*_):
        raise ZeroDivisionError

    model = kcdo.ConditionalDensityOperator(n_jobs=1, selection="heuristic")
    X = rng.normal(size=(20, 1))
    model.fit(X, X[:, 0])  # every library is loaded by now
    before = [pool["num_threads"] for pool in threadpool_info()]
    monkeypatch.setattr("kcdo.estimators.conditional.DensityOperator.solved", broken)
    with pytest.raises(ZeroDivisionError):
        model.fit(X, X[:, 0])
    assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert parallel._limits._asked == []
