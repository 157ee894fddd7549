"""Weights of the components: the option, and what held-out scores choose, by brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kcdo
from kcdo.components import Combination, Gate, MarginalTail, student_tail
from kcdo.distributions import MixtureBatch, StudentTail
from kcdo.errors import InvalidInputError
from kcdo.fitting.weights import _pairwise_crps, choose_gate, combined_weights
from kcdo.rows import Rows

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
    both = Combination(location_scale=0.98, marginal_tail=0.02)
    whole = combined_weights(held_out, Y, np.ones(60), both)
    assert whole == {"plain": 0.0, "marginal_tail": 0.02, "location_scale": 0.98}
    every = Combination(plain=0.5, location_scale=0.5, residual_tail=0.0, marginal_tail=0.0)
    found = combined_weights({"plain": held_out["plain"]}, Y, np.ones(60), every)
    assert found == {"plain": 1.0}  # the only component there is


def test_blocks_of_rows_change_nothing(monkeypatch):
    Y, held_out = forecasts()
    whole = combined_weights(held_out, Y, np.ones(60), Combination())
    monkeypatch.setattr("kcdo.fitting.weights._ROWS_AT_A_TIME", 7)
    parts = combined_weights(held_out, Y, np.ones(60), Combination())
    assert parts["plain"] == pytest.approx(whole["plain"], rel=1e-6)


# --- weights that vary with x


def branches(n, *, varying):
    """Rows of which "narrow" foretells those of x < 0 better, if varying, and "wide" the others."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, 1))
    sd = np.where(X[:, 0] < 0, 0.1, 1.0) if varying else np.full(n, 0.5)
    rows = Rows(X, (sd * rng.standard_normal(n))[:, None], np.ones(n))
    zero, one = np.zeros((n, 1)), np.ones((n, 1))
    held_out = {
        "plain": StudentTail(zero, 0.1 * one if varying else 0.5 * one, np.inf),
        "normal": StudentTail(zero, one if varying else 0.6 * one, np.inf),
    }
    return rows, held_out


def test_a_gate_where_one_component_is_right_on_each_side():
    rows, held_out = branches(400, varying=True)
    gate = choose_gate(held_out, {"plain": 0.5, "normal": 0.5}, rows, kcdo.Gaussian(0.3), 100)
    assert gate is not None
    left, right = gate(np.array([[-0.5], [0.5]]))
    assert left[0] > 0.7
    assert right[1] > 0.7
    np.testing.assert_allclose(gate.held_out().sum(axis=1), 1.0)


@pytest.mark.parametrize("n", [99, 400])
def test_no_gate_where_components_are_as_good_everywhere_or_rows_are_few(n):
    rows, held_out = branches(n, varying=n < 100)
    weights = {"plain": 0.5, "normal": 0.5}
    assert choose_gate(held_out, weights, rows, kcdo.Gaussian(0.3), 100) is None
    assert choose_gate(held_out, weights | {"normal": 0.0}, rows, kcdo.Gaussian(0.3), 1) is None


def test_the_weights_of_a_gate_are_responsibilities_of_near_rows():
    """π(x) = (κ π + Σ_j r_j) / (κ + k), by hand."""
    X = np.arange(4.0)[:, None]
    shares = np.array([[1.0, 0.0], [0.8, 0.2], [0.3, 0.7], [0.0, 1.0]])
    gate = Gate(kcdo.Gaussian(1.0), X, shares, np.array([0.5, 0.5]), ("plain", "normal"), 2, 3.0)
    expected = (3.0 * 0.5 + shares[:2].sum(axis=0)) / 5.0
    np.testing.assert_allclose(gate(np.array([[0.4]])), [expected])
    np.testing.assert_allclose(gate.held_out()[0], (1.5 + shares[[1, 2]].sum(axis=0)) / 5.0)


def test_a_gated_mixture_is_saved_and_answers_for_uncertain_inputs(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 1))
    y = np.where(X[:, 0] < 0, 0.1, 1.0) * rng.standard_normal(150)
    model = kcdo.ConditionalDensityOperator(output_transform=None).fit(X, y)
    inner = model._operator.mixture
    names = tuple(name for name, weight in inner.weights.items() if weight > 0)
    shares = np.tile(np.linspace(1, 2, len(names)), (150, 1)) + X**2
    shares /= shares.sum(axis=1, keepdims=True)
    features = model._operator.features(X)
    gate = Gate(inner.primary.system.kernel, features, shares, shares[0], names, 15, 5.0)
    model._operator = replace(model._operator, mixture=replace(inner, gate=gate))
    model.save(tmp_path / "gated.kcdo")
    same = kcdo.load(tmp_path / "gated.kcdo")
    query = [[0.3]]
    np.testing.assert_array_equal(same.predict(query), model.predict(query))
    certain = kcdo.SampleInput(np.array([query]))
    np.testing.assert_allclose(same.conditional(certain).mean(), same.predict(query), rtol=1e-6)
