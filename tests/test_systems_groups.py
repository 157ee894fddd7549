"""Rows that share an input: which they are, and their means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kcdo
from kcdo.kernels import DensityKernel
from kcdo.measures import Grid
from kcdo.reconstruction import Reconstruction
from kcdo.systems import ExactRows, Groups

SMALL = st.sampled_from([0.0, -0.0, 1.0, -1.5, 1e-300, 7e20])


def test_groups_know_their_members():
    groups = Groups.of(np.array([[2.0], [1.0], [2.0]]), np.array([1.0, 5.0, 3.0]))
    np.testing.assert_array_equal(groups.points, [[1.0], [2.0]])
    np.testing.assert_array_equal(groups.member_of, [1, 0, 1])
    np.testing.assert_allclose(groups.totals, [5.0, 4.0])
    np.testing.assert_allclose(groups.share, [0.25, 1.0, 0.75])
    np.testing.assert_allclose(groups.means(np.array([[0.0], [7.0], [4.0]])), [[7.0], [3.0]])


@given(
    hnp.arrays(float, st.tuples(st.integers(1, 25), st.integers(1, 3)), elements=SMALL),
    st.randoms(use_true_random=False),
)
def test_groups_are_the_distinct_rows_in_any_order(X, random):
    groups = Groups.of(X)
    np.testing.assert_array_equal(groups.points[groups.member_of], X)
    assert len(groups.points) == len(np.unique(X + 0.0, axis=0))
    order = list(range(len(X)))
    random.shuffle(order)
    again = Groups.of(X[order])
    np.testing.assert_array_equal(again.points, groups.points)
    np.testing.assert_array_equal(again.member_of, groups.member_of[order])


def test_rows_that_meet_in_one_number_are_told_apart(monkeypatch):
    class Same:
        def standard_normal(self, p):
            return np.ones(p)

    monkeypatch.setattr("kcdo.systems.groups.np.random.default_rng", lambda seed: Same())
    X = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [3.0, 0.0]])  # every sum is 3
    groups = Groups.of(X)
    np.testing.assert_array_equal(groups.points, [[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]])
    np.testing.assert_array_equal(groups.member_of, [0, 1, 0, 2])


def test_negative_zero_is_zero():
    groups = Groups.of(np.array([[0.0, 1.0], [-0.0, 1.0]]))
    assert len(groups.points) == 1
    np.testing.assert_array_equal(groups.member_of, 0)
    assert not groups.all_distinct


def test_averages_of_groups():
    groups = Groups.of(np.array([[2.0], [1.0], [2.0]]), np.array([1.0, 5.0, 3.0]))
    averaging = groups.averaging(np.array([0, 1, 0]), 2).toarray()  # two distinct outputs
    np.testing.assert_allclose(averaging, [[0.0, 1.0], [1.0, 0.0]])
    distinct = Groups.of(np.array([[2.0], [1.0]]))
    assert distinct.all_distinct
    np.testing.assert_array_equal(distinct.means(np.array([[5.0], [7.0]])), [[7.0], [5.0]])


@pytest.mark.parametrize("step", [1, 4, 100])
@pytest.mark.parametrize("inputs", ["distinct", "repeated"])
@pytest.mark.parametrize("outputs", ["distinct", "repeated"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_mean_embeddings_of_groups(inputs, outputs, kind, step):
    rng = np.random.default_rng(6)
    X, Y, omega = rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), rng.uniform(0.5, 2, 30)
    X = X[rng.integers(0, 8, 30)] if inputs == "repeated" else X
    Y = Y[rng.integers(0, 6, 30)] if outputs == "repeated" else Y
    grid = Grid(np.array([-2.0]), np.array([3.0]), (400,))
    side = Reconstruction(grid, DensityKernel(kcdo.Gaussian(0.05), 1), 0.1)
    groups = Groups.of(X, omega)
    system = ExactRows(kcdo.Laplace(1.0), groups).factor(0.1)
    embed = side.embed if kind == "dense" else side.near_embeddings
    found = system.condensed(embed, Y, step).targets
    assert found.shape == (len(groups.points), 400)
    for point, row in zip(groups.points, found, strict=True):
        here = np.all(point == X, axis=1)
        expected = np.average(side.embed(Y[here]), axis=0, weights=omega[here])
        np.testing.assert_allclose(row, expected, rtol=1e-11, atol=1e-12)
