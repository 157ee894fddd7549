"""Pieces of every search: descent within bounds, α and a nugget by few judgements."""

import numpy as np
import pytest

from kcdo.fitting.search import BestSoFar, lowest_alpha, minimise, search_alpha, search_nugget
from kcdo.kernels import Gaussian


def test_minimise_stays_within_bounds():
    def bowl(theta):
        return float(np.sum((theta - 3.0) ** 2)), 2.0 * (theta - 3.0)

    theta, value = minimise(bowl, np.array([9.0, -9.0]), [(-5.0, 5.0), (-1.0, 2.0)], 30)
    np.testing.assert_allclose(theta, [3.0, 2.0], atol=1e-6)
    assert value == pytest.approx(1.0)
    theta, _ = minimise(bowl, np.zeros(2), [(0.5, 0.5), (-9.0, 9.0)], 30)
    np.testing.assert_allclose(theta, [0.5, 3.0], atol=1e-6)


def test_the_search_for_alpha_finds_the_bottom():
    asked = []

    def judge(alpha):
        asked.append(alpha)
        return (np.log(alpha) - np.log(2e-3)) ** 2

    assert lowest_alpha(judge, (-12.0, 0.0), 20) == pytest.approx(2e-3, rel=0.2)
    assert all(np.exp(-12.0) <= alpha <= 1.0 for alpha in asked)
    asked.clear()
    assert search_alpha(judge, 2.5e-3, 6) == pytest.approx(2.5e-3)
    assert asked == pytest.approx([2.5e-3, 2.5e-3 / 4, 2.5e-3 * 4])  # it is the lowest of three
    asked.clear()
    assert search_alpha(judge, 1.0, 9) == pytest.approx(4.0**-4)  # downhill, step by step
    assert len(asked) == 6
    asked.clear()
    assert search_alpha(judge, 1e-6, 3) == pytest.approx(4e-6)  # as far as it may ask
    assert asked == pytest.approx([1e-6, 2.5e-7, 4e-6])
    asked.clear()
    assert search_alpha(judge, 20.0, 9, bounds=(0.0, 3.0)) == pytest.approx(1.0)
    assert asked[0] == pytest.approx(20.0)
    assert min(asked) == pytest.approx(1.0)
    assert search_alpha(lambda a: 1.0 if a == 1.0 else np.nan, 1.0, 9) == 1.0


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_a_descent_stops_where_steps_gain_little_whatever_the_level(shift):
    asked = []

    def valley(theta):
        asked.append(theta)
        u, v = theta
        value = (1 - u) ** 2 + 100 * (v - u**2) ** 2 + shift
        return value, np.array([-2 * (1 - u) - 400 * u * (v - u**2), 200 * (v - u**2)])

    bounds = [(-5.0, 5.0)] * 2
    exact, least = minimise(valley, np.array([-1.2, 1.0]), bounds, 100)
    np.testing.assert_allclose(exact, 1.0, atol=1e-3)
    assert least == pytest.approx(shift, abs=1e-6)
    long = len(asked)
    asked.clear()
    _, value = minimise(valley, np.array([-1.2, 1.0]), bounds, 100, 0.5)
    assert len(asked) < long / 2
    assert 1e-3 < value - shift < 24.2


def test_a_candidate_is_kept_if_it_is_better_than_all_before():
    best = BestSoFar()
    with pytest.raises(AssertionError, match="nothing was offered"):
        best.best()
    assert best.offer(np.nan, "first") != best.loss
    assert best.best() == "first"
    assert best.offer(3.0, "a number beats none") == 3.0
    best.offer(5.0, "worse")
    best.offer(np.nan, "none")
    assert (best.loss, best.best()) == (3.0, "a number beats none")
    best.offer(2.0, "better")
    assert (best.loss, best.best()) == (2.0, "better")


def test_the_nugget_grows_while_that_helps():
    """The diagonal of a row of its own, k(x, x) + ridge, stays what it was, in other units."""
    asked = []

    def judge(kernel, noise):
        share = kernel.share
        asked.append((share, noise))
        assert kernel.kernel == Gaussian(1.0)
        assert share / (1.0 - share) + noise / (1.0 - share) == pytest.approx(0.3, rel=1e-12)
        return abs(len(asked) - 3.2)

    search_nugget(judge, Gaussian(1.0), 0.3, 10.0)
    assert len(asked) == 4  # the fourth is worse
    shares = [share for share, _ in asked]
    assert shares == sorted(shares)
    asked.clear()
    search_nugget(judge, Gaussian(1.0), 0.3, 1.0)
    assert len(asked) == 1
