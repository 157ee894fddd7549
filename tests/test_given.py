"""Some outputs given others, of every kind of joint distribution: p(y) / p(y_S)."""

import numpy as np
import pytest

from kcdo.errors import SignedDensityError
from tests.distribution_kinds import PLANES, SPACES, distribution

KINDS = {f"{name}, d=2": batch for name, batch in PLANES.items()}
KINDS |= {f"{name}, d=3": batch for name, batch in SPACES.items()}


@pytest.mark.parametrize("name", KINDS)
def test_a_conditional_is_the_joint_density_over_that_of_what_is_given(name):
    dist = distribution(KINDS[name])
    known = dist.marginal(1).quantile(0.4)  # where there is something of each
    points = dist.quantile([0.3, 0.6])  # (Q, 2, d)
    rest = dist.given({1: known})
    others = [i for i in range(dist.n_outputs) if i != 1]
    for k in range(2):
        joint = points[:, k].copy()
        joint[:, 1] = known
        expected = dist.logpdf_pairs(joint) - dist.marginal(1).logpdf_pairs(known)
        at = joint[:, others]
        found = rest.logpdf_pairs(at[:, 0] if len(others) == 1 else at)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["grid, d=3", "nodes, d=3"])
def test_two_conditionals_are_one_of_both(name):
    dist = distribution(KINDS[name])
    values = dist.mean()
    at_once = dist.given({0: values[:, 0], 2: values[:, 2]})
    in_turn = dist.given({2: values[:, 2]}).given({0: values[:, 0]})
    np.testing.assert_allclose(at_once.mean(), in_turn.mean(), rtol=1e-10)


def test_signed_densities_have_no_conditionals():
    with pytest.raises(SignedDensityError, match="given is not defined"):
        distribution(PLANES["grid"], signed=True).given({0: 0.0})


def test_beyond_a_box_the_others_stay_as_they_are():
    dist = distribution(PLANES["grid"])
    np.testing.assert_allclose(dist.given({0: 1e6}).mean(), dist.marginal(1).mean())


def test_three_outputs_of_one_query_are_drawn_in_pairs():
    pytest.importorskip("matplotlib").use("agg")
    figure = distribution(SPACES["grid"].take([0])).plot()
    assert len(figure.axes) == 6  # three pairs, three outputs alone
