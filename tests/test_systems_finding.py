"""The rows nearest to a query, by a tree and by all distances, against plain sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kcdo.systems.finding import Finder


@pytest.fixture(params=["tree", "distances"])
def by(request, monkeypatch):
    monkeypatch.setattr(
        "kcdo.systems.finding._TREE_POINTS", 0 if request.param == "tree" else 10**9
    )
    return request.param


def clouds(p=3, n=120, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.normal(size=(11, p))


def sorted_distances(points, queries, count):
    return np.sort(cdist(queries, points), axis=1)[:, :count]


@pytest.mark.parametrize("p", [1, 3, 16])
@pytest.mark.parametrize("count", [1, 7, 120])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_nearest_come_first(by, p, count, n_jobs):
    points, queries = clouds(p)
    places = Finder(points).nearest(queries, count, n_jobs)
    found = np.linalg.norm(points[places] - queries[:, None], axis=2)
    np.testing.assert_allclose(found, sorted_distances(points, queries, count), rtol=1e-6)


@pytest.mark.parametrize("shift", [1e6, -1e9])
def test_points_far_from_the_origin_are_told_apart(by, shift):
    points, queries = np.arange(100.0)[:, None] / 100, np.array([[0.123], [0.456]])
    places = Finder(points + shift).nearest(queries + shift, 2)
    np.testing.assert_array_equal(np.sort(places), [[12, 13], [45, 46]])


def test_a_row_is_none_of_its_own_neighbours(by):
    points, _ = clouds()
    rows = np.array([5, 119, 0])
    finder = Finder(points)
    for count in (4, 9):
        others = finder.nearest_others(rows, count)
        assert others.shape == (3, count)
        assert not np.any(others == rows[:, None])
        found = np.linalg.norm(points[others] - points[rows, None], axis=2)
        expected = sorted_distances(points, points[rows], count + 1)[:, 1:]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    every = finder.nearest_others(rows, 500 if by == "tree" else 120)
    assert every.shape == (3, 119)  # no more than there are


def test_points_that_coincide_are_passed_over_where_asked(by):
    points = np.repeat(np.arange(6.0)[:, None] + 100.0, 4, axis=0)
    finder = Finder(points)
    others = finder.nearest_others(np.array([8]), 3)
    np.testing.assert_array_equal(points[others][0, :, 0], 102.0)
    distinct = finder.nearest_distinct(np.array([8]), 8)
    assert set(points[distinct][0, :, 0]) == {101.0, 103.0}
    all_same = Finder(np.zeros((5, 2))).nearest_distinct(np.array([2]), 3)
    assert all_same.shape == (1, 3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 4))
def test_both_ways_find_points_as_near(seed, count, p):
    points, queries = clouds(p, 40, seed)
    points = np.round(points, 1)  # ties
    for most in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kcdo.systems.finding._TREE_POINTS", most)
            places = Finder(points).nearest(queries, count)
        assert len(set(places[0])) == count
        found = np.linalg.norm(points[places] - queries[:, None], axis=2)
        np.testing.assert_allclose(
            np.sort(found, axis=1), sorted_distances(points, queries, count), atol=1e-6
        )


def test_columns_that_no_metric_sees_are_not_looked_at(rng):
    points = rng.normal(size=(200, 3)) * [1.0, 1e-8, 0.5]
    finder = Finder(points)
    assert finder._points.shape == (200, 2)
    seen = Finder(points[:, [0, 2]])
    queries = rng.normal(size=(20, 3)) * [1.0, 1e-8, 0.5]
    np.testing.assert_array_equal(finder.nearest(queries, 5), seen.nearest(queries[:, [0, 2]], 5))
    same = Finder(np.ones((4, 2)))
    assert same.nearest(np.zeros((1, 2)), 2).shape == (1, 2)
