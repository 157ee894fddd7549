"""BLAS and LAPACK without Python's lock, against plain formulas."""

import threading

import numpy as np
import pytest

from kcdo.linalg import routines

KINDS = [np.float64, np.float32]


def definite(n, kind=np.float64, seed=0):
    half = np.random.default_rng(seed).normal(size=(n, n))
    return np.asfortranarray((half @ half.T + n * np.eye(n)).astype(kind))


def close(found, expected, kind):
    np.testing.assert_allclose(found, expected, rtol=0, atol=200 * np.finfo(kind).eps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 7, 60])
def test_a_factor_and_what_is_made_of_it(n, kind):
    matrix = definite(n, kind)
    upper = matrix.copy(order="F")
    assert routines.potrf(upper) == 0
    factor = np.triu(upper).astype(float)
    np.testing.assert_allclose(factor.T @ factor, matrix, rtol=1e3 * np.finfo(kind).eps)
    inverse, whole = upper.copy(order="F"), upper.copy(order="F")
    routines.trtri(inverse)
    close(np.triu(inverse), np.linalg.inv(factor), kind)
    routines.potri(whole)
    close(np.triu(whole), np.triu(np.linalg.inv(matrix.astype(float))), kind)
    for columns in ((n,), (n, 3)):
        right = np.asfortranarray(np.random.default_rng(1).normal(size=columns).astype(kind))
        solved = right.copy(order="F")
        routines.potrs(upper, solved)
        close(solved, np.linalg.solve(matrix.astype(float), right), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transposed", [False, True])
def test_solutions_from_the_right(kind, transposed):
    upper = np.asfortranarray(np.triu(definite(6, kind)))
    right = np.asfortranarray(np.random.default_rng(2).normal(size=(4, 6)).astype(kind))
    found = right.copy(order="F")
    routines.trsm_right(upper, found, transposed=transposed)
    other = upper.T if transposed else upper
    close(found, right @ np.linalg.inv(other.astype(float)), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [False, True])
def test_squares_are_added_to_one_triangle(kind, lower):
    rng = np.random.default_rng(3)
    matrix, before = (np.asfortranarray(rng.normal(size=s).astype(kind)) for s in ((5, 9), (5, 5)))
    total = before.copy(order="F")
    routines.syrk(-0.5, matrix, total, lower=lower)
    part = np.tril if lower else np.triu
    close(part(total), part(before - 0.5 * matrix @ matrix.T), kind)
    other = (np.triu if lower else np.tril)(np.ones((5, 5)), 1 if lower else -1).astype(bool)
    np.testing.assert_array_equal(total[other], before[other])


def test_a_matrix_that_is_not_definite_is_told_by_its_minor():
    assert routines.potrf(np.asfortranarray([[1.0, 2.0], [2.0, 1.0]])) == 2


def test_arrays_that_would_be_misread_are_refused():
    matrix = definite(3)
    with pytest.raises(ValueError, match="potrf: arrays of other orders"):
        routines.potrf(np.ascontiguousarray(np.triu(matrix)))
    with pytest.raises(ValueError, match="potrs: arrays of other orders or kinds"):
        routines.potrs(matrix, np.zeros(3, dtype=np.float32))
    matrix.flags.writeable = False
    with pytest.raises(ValueError, match="potri: the array to be written to is read-only"):
        routines.potri(matrix)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: routines.potrf(m[:, :2].copy(order="F")), r"potrf: arrays of shapes \(3, 2\)"),
        (lambda m: routines.potrs(m, np.ones(4)), r"potrs: arrays of shapes \(3, 3\), \(4,\)"),
        (lambda m: routines.trsm_right(m, np.ones((3, 2)), transposed=True), "trsm: arrays of sh"),
        (lambda m: routines.syrk(1, np.ones((4, 2)), m, lower=True), "syrk: arrays of shapes"),
        (lambda m: routines.trtri(m.astype(int)), "trtri: arrays of other orders or kinds"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(definite(3))


def steps_meanwhile(n):
    """Return how often this thread counts while another one factors a matrix."""
    matrix, begun, steps = definite(n), threading.Event(), 0

    def factor():
        begun.set()
        routines.potrf(matrix)

    worker = threading.Thread(target=factor)
    worker.start()
    begun.wait()
    while worker.is_alive():
        steps += 1
    return steps


def test_other_threads_run_meanwhile():
    """With SciPy's own wrappers this thread would stand still while the other one factors."""
    assert any(steps_meanwhile(1200) > 100 for _ in range(5))  # a busy machine may let it wait
