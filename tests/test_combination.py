"""Mixtures of forms: weights by brute force, uncertain inputs as mixtures over points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from kcdo.combination import (
    Combination,
    CombinedOperator,
    Located,
    _pairwise_crps,
    combined_weights,
    marginal_tail,
    student_tail,
)
from kcdo.distributions import AffineBatch, MixtureBatch, NodeBatch
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import DensityKernel, Gaussian
from kcdo.location import LocationParameters, fit_location_scale
from kcdo.measures import UniformBox
from kcdo.operators import DensityOperator
from kcdo.reconstruction import Reconstruction
from kcdo.systems import ExactSystem, Groups

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
def test_a_form_is_open_where_the_one_it_goes_with_is(name, companion):
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
    return Y, {"plain": sharp, "marginal_tail": marginal_tail(n, np.zeros(d), np.ones(d))}


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
    table = _pairwise_crps(list(held_out.values()), Y[:, 0], omega / omega.sum())
    for share in rng.uniform(size=3):
        weights = np.array([share, 1.0 - share])
        mixture = MixtureBatch(list(held_out.values()), weights)
        expected = np.average(mixture.crps(Y), weights=omega)
        assert weights @ table @ weights == pytest.approx(expected, rel=0.01)


def test_a_useless_form_keeps_the_weight_of_one_row():
    Y, held_out = forecasts()
    held_out["location_scale"] = student_tail(Y + 50.0, np.full(Y.shape, 0.1))
    found = combined_weights(held_out, Y, np.ones(60), Combination())
    assert found["location_scale"] == pytest.approx(1.0 / 63.0, rel=1e-3)


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
    assert found == {"plain": 1.0}  # the only form there is


def test_blocks_of_rows_change_nothing(monkeypatch):
    Y, held_out = forecasts()
    whole = combined_weights(held_out, Y, np.ones(60), Combination())
    monkeypatch.setattr("kcdo.combination._ROWS_AT_A_TIME", 7)
    parts = combined_weights(held_out, Y, np.ones(60), Combination())
    assert parts["plain"] == pytest.approx(whole["plain"], rel=1e-6)


def test_tails_have_the_sd_that_they_are_given():
    tail = student_tail(np.array([[1.0]]), np.array([[0.5]]))
    mean, cov = tail.moments()
    assert mean[0, 0] == pytest.approx(1.0)
    assert cov[0, 0, 0] == pytest.approx(0.25)


# --- the combined operator


@pytest.fixture(scope="module")
def forms():
    """A plain operator and a location-scale form of the same rows."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (40, 2))
    Y = np.sin(X[:, :1]) + 0.3 * rng.normal(size=(40, 1))
    kernel, groups = Gaussian((0.8, 1.5)), Groups.of(X)
    measure = UniformBox(-4.0, 4.0, nodes=80).realise(Y)
    side = Reconstruction(measure, DensityKernel(Gaussian(0.3), 1), 0.2)
    plain = DensityOperator.exact(ExactSystem(kernel, groups, 0.01), side, Y, "project")
    parameters = LocationParameters(kernel, 0.2, Gaussian((2.0, 2.0)), 1.0)
    system = ExactSystem(kernel, groups, 0.2 / 40)
    place, residuals = fit_location_scale(
        parameters, system, (X, Y, np.ones(40)), np.zeros(1), seed=0
    )
    inner = DensityOperator.exact(
        ExactSystem(Gaussian((3.0, 3.0)), groups, 0.01), side, residuals.values, "project"
    )
    return plain, Located(place, inner), X, Y


def combined(forms, **weights):
    plain, located, _, Y = forms
    return CombinedOperator(plain, located, Y.mean(axis=0), Y.std(axis=0), weights)


POINTS = np.linspace(-3, 3, 41)[:, None]


def test_the_location_scale_form_maps_residuals_back(forms):
    _, located, X, _ = forms
    made = located.batches(X[:3])
    body, tail, normal = (made[name] for name in ("location_scale", "residual_tail", "normal"))
    location, scale = located.map(X[:3])
    inner = located.residual.batch(X[:3])
    for i in range(3):
        expected = inner.pdf((POINTS - location[i]) / scale[i])[i] / scale[i]
        np.testing.assert_allclose(body.pdf(POINTS)[i], expected, rtol=1e-8, atol=1e-12)
    for form in (tail, normal):
        np.testing.assert_allclose(form.moments()[0], location)
        np.testing.assert_allclose(form.moments()[1][:, :, 0], scale**2)
    expected = norm(location, scale).pdf(POINTS.T)
    np.testing.assert_allclose(normal.pdf(POINTS), expected, rtol=1e-10, atol=1e-300)
    assert isinstance(body, AffineBatch)


def test_the_density_is_the_mixture_of_the_forms(forms):
    plain, located, X, Y = forms
    weights = dict(zip((*NAMES, "normal"), (0.3, 0.3, 0.2, 0.1, 0.1), strict=True))
    operator = combined(forms, **weights)
    parts = {
        "plain": plain.batch(X[:4]),
        "marginal_tail": marginal_tail(4, Y.mean(axis=0), Y.std(axis=0)),
        **located.batches(X[:4]),
    }
    expected = sum(weights[name] * part.pdf(POINTS) for name, part in parts.items())
    found = operator.batch(X[:4]).pdf(POINTS)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert (operator.dim, operator.signed, operator.n_jobs) == (1, False, None)
    assert operator.nbytes == plain.nbytes + located.residual.nbytes


def test_one_form_alone_stays_what_it_is(forms):
    X = forms[2]
    assert isinstance(combined(forms, plain=1.0).batch(X), NodeBatch)
    alone = combined(forms, location_scale=1.0).batch(X[:2])
    expected = forms[1].batches(X[:2])["location_scale"]
    np.testing.assert_allclose(alone.pdf(POINTS), expected.pdf(POINTS), rtol=1e-10)


@pytest.mark.parametrize("form", ["location_scale", "residual_tail", "normal"])
def test_a_sample_of_inputs_is_a_mixture_over_its_points(forms, form):
    X = forms[2]
    operator = combined(forms, **{form: 1.0})
    samples, weights = [X[:3], X[5:6], X[7:12]], [[1.0, 2.0, 1.0], [5.0], [1, 1, 1, 1, 0.0]]
    found = operator.batch(SampleInput(samples, weights)).pdf(POINTS)
    for row, points, w in zip(found, samples, weights, strict=True):
        expected = np.average(operator.batch(points).pdf(POINTS), axis=0, weights=w)
        np.testing.assert_allclose(row, expected, rtol=1e-8, atol=1e-12)


def test_queries_of_a_sample_are_independent_of_each_other(forms):
    X = forms[2]
    operator = combined(forms, plain=0.5, location_scale=0.5)
    both = operator.batch(SampleInput([X[:2], X[3:8]])).pdf(POINTS)
    for i, points in enumerate((X[:2], X[3:8])):
        alone = operator.batch(SampleInput([points])).pdf(POINTS)[0]
        np.testing.assert_allclose(alone, both[i], rtol=1e-9, atol=1e-12)


def test_a_certain_gaussian_is_a_point(forms):
    X = forms[2][:3]
    operator = combined(forms, plain=0.3, location_scale=0.4, residual_tail=0.3)
    found = operator.batch(GaussianInput(X, 1e-16)).pdf(POINTS)
    np.testing.assert_allclose(found, operator.batch(X).pdf(POINTS), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("cov", [[0.1, 0.05], [[[0.1, 0.04], [0.04, 0.05]]]])
def test_a_gaussian_input_is_the_mixture_over_its_draws(forms, cov):
    operator = combined(forms, location_scale=0.7, residual_tail=0.3)
    mean = np.array([0.8, -0.3])
    full = np.diag(cov) if np.ndim(cov) == 1 else np.array(cov[0])
    draws = np.random.default_rng(0).multivariate_normal(mean, full, size=4000)
    expected = operator.batch(draws).pdf(POINTS).mean(axis=0)
    found = operator.batch(GaussianInput([mean], cov)).pdf(POINTS)[0]
    np.testing.assert_allclose(found, expected, atol=0.04 * expected.max())  # of 64 points


def test_uncertain_inputs_cost_what_their_points_cost(forms):
    plain, located, X, _ = forms
    operator = combined(forms, plain=0.5, location_scale=0.5)
    certain = operator.width(X)
    assert certain == plain.width(X) + located.residual.width(X)
    assert operator.width(GaussianInput(X, 0.1)) > 20 * certain
    three = operator.width(SampleInput([X[:3], X[:1]]))
    assert three == plain.width(X) + 3 * located.residual.width(X)
    bare = CombinedOperator(plain, None, np.zeros(1), np.ones(1), {"plain": 1.0})
    assert bare.width(GaussianInput(X, 0.1)) == plain.width(X)
    assert bare.nbytes == plain.nbytes
