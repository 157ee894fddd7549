"""Weights of the components: the option, and what held-out scores choose, by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.components import Combination, MarginalTail, student_tail
from kcdo.distributions import MixtureBatch
from kcdo.errors import InvalidInputError
from kcdo.fitting.weights import _pairwise_crps, combined_weights

NAMES = ("plain", "location_scale", "residual_tail", "marginal_tail")
COMPANIONS = {"nearest": "plain", "normal": "location_scale"}

# --- the option


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"plain": -0.1},
            r"weights must lie in \[0, 1\] and sum to at most 1; got {'plain': -0.1}",
        ),
        ({"plain": 1.5}, "must lie in"),
        ({"plain": 0.7, "location_scale": 0.7}, "sum to at most 1"),
        ({"plain": float("nan")}, "must lie in"),
        (dict.fromkeys(NAMES, 0.2), "all weights given must sum to 1"),
    ],
)
def test_weights_that_make_no_mixture(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        Combination(**weights)


def test_what_a_combination_wants():
    open_ = Combination()
    assert open_.fixed == {}
    assert all(open_.wants(name) for name in NAMES)
    some = Combination(plain=0.5, residual_tail=0.0)
    assert some.fixed == {"plain": 0.5, "residual_tail": 0.0}
    assert [some.wants(name) for name in NAMES] == [True, True, False, True]
    assert Combination(1, 0, 0, 0).fixed == dict(zip(NAMES, [1.0, 0.0, 0.0, 0.0], strict=True))


@pytest.mark.parametrize(("name", "companion"), COMPANIONS.items())
def test_a_component_is_open_where_the_one_it_goes_with_is(name, companion):
    assert Combination().wants(name)
    assert not Combination(**{companion: 0.5}).wants(name)
    assert Combination(**{companion: 0.5, name: 0.2}).wants(name)
    assert not Combination(**{name: 0.0}).wants(name)


# --- weights


def forecasts(n=60, d=1, seed=0):
    """Outputs, a sharp forecast that is right for two thirds of them, and a wide one."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, d))
    centres = Y + 0.2 * rng.normal(size=(n, d))
    centres[::3] = rng.normal(size=(len(centres[::3]), d))
    sharp = student_tail(centres, np.full((n, d), 0.3))
    return Y, {"plain": sharp} | MarginalTail(np.zeros(d), np.ones(d)).predict(Y)


def loss_of(share, held_out, Y, weights):
    """-mean log density + log mean CRPS of a mixture with the share of the first."""
    first, second = held_out.values()
    mixture = MixtureBatch([first, second], np.array([share, 1.0 - share]))
    value = -np.average(mixture.logpdf_pairs(Y), weights=weights)
    crps = mixture.crps(Y) if Y.shape[1] == 1 else np.ones(len(Y))
    return value + np.log(np.average(crps, weights=weights))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_the_best_that_can_be_found(d, weighted):
    Y, held_out = forecasts(d=d)
    n = len(Y)
    omega = np.random.default_rng(1).uniform(0.2, 3.0, n) if weighted else np.ones(n)
    found = combined_weights(held_out, Y, omega, Combination())
    total = omega.sum()
    best = (found["plain"] * (total + 2) - 1.0) / total  # without the row that each is given
    shares = np.linspace(0.02, 0.98, 49)
    losses = [loss_of(share, held_out, Y, omega) for share in shares]
    assert best == pytest.approx(shares[np.argmin(losses)], abs=0.03)
    assert 0.3 < best < 0.9
    assert sum(found.values()) == pytest.approx(1.0)


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_pairwise_crps_is_the_crps_of_any_mixture(seed):
    rng = np.random.default_rng(seed)
    Y, held_out = forecasts(20, seed=seed)
    omega = rng.uniform(0.5, 2.0, 20)
    table = _pairwise_crps(list(held_out.values()), Y[:, 0], omega / omega.sum(), 1)
    for share in rng.uniform(size=3):
        weights = np.array([share, 1.0 - share])
        mixture = MixtureBatch(list(held_out.values()), weights)
        expected = np.average(mixture.crps(Y), weights=omega)
        assert weights @ table @ weights == pytest.approx(expected, rel=0.01)


def test_a_useless_component_keeps_the_weight_of_one_row():
    Y, held_out = forecasts()
    held_out["location_scale"] = student_tail(Y + 50.0, np.full(Y.shape, 0.1))
    found = combined_weights(held_out, Y, np.ones(60), Combination())
    assert found["location_scale"] == pytest.approx(1.0 / 63.0, rel=1e-3)


def test_of_many_rows_a_useless_component_goes_unless_it_is_a_tail():
    Y, held_out = forecasts(600)
    held_out["location_scale"] = student_tail(Y + 50.0, np.full(Y.shape, 0.1))
    held_out["residual_tail"] = student_tail(Y - 50.0, np.full(Y.shape, 0.1))
    found = combined_weights(held_out, Y, np.ones(600), Combination())
    assert found["location_scale"] == 0.0
    assert 0.0 < found["residual_tail"] < 0.01
    assert sum(found.values()) == pytest.approx(1.0)
    without_tails = {name: held_out[name] for name in ("plain", "location_scale")}
    found = combined_weights(without_tails, Y, np.ones(600), Combination())
    assert found["location_scale"] > 0.0


def test_weights_of_the_user_are_kept():
    Y, held_out = forecasts()
    held_out["location_scale"] = student_tail(Y + 0.5, np.full(Y.shape, 0.5))
    found = combined_weights(held_out, Y, np.ones(60), Combination(marginal_tail=0.4))
    assert found["marginal_tail"] == 0.4
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) > 0
    whole = combined_weights(held_out, Y, np.ones(60), Combination(plain=1.0))
    assert whole == {"plain": 1.0, "marginal_tail": 0.0, "location_scale": 0.0}
    every = Combination(plain=0.5, location_scale=0.5, residual_tail=0.0, marginal_tail=0.0)
    found = combined_weights({"plain": held_out["plain"]}, Y, np.ones(60), every)
    assert found == {"plain": 1.0}  # the only component there is


def test_blocks_of_rows_change_nothing(monkeypatch):
    Y, held_out = forecasts()
    whole = combined_weights(held_out, Y, np.ones(60), Combination())
    monkeypatch.setattr("kcdo.fitting.weights._ROWS_AT_A_TIME", 7)
    parts = combined_weights(held_out, Y, np.ones(60), Combination())
    assert parts["plain"] == pytest.approx(whole["plain"], rel=1e-6)
