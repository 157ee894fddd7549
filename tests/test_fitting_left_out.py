"""Held-out predictions in closed form against refitting, and their derivatives by differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.fitting.left_out import exact_smoother, fixed_smoother
from kcdo.kernels import Categorical, FreeScales, Gaussian, Laplace, Matern, Periodic
from kcdo.systems import ExactRows, Groups
from tests.differences import assert_gradient

ALPHA = 0.03
SCALES = FreeScales(Matern(smoothness=1.5), 2)
LOG_SCALES = np.log([0.9, 1.4])
KERNEL = SCALES.kernel(LOG_SCALES)
KINDS = pytest.mark.parametrize("kind", ["distinct", "duplicates", "counts", "real"])
LEAVE = pytest.mark.parametrize("leave", ["row", "group"])
TEMPLATES = {
    "mixed": Matern(smoothness=0.5).on([0])
    * Laplace().on([1])
    * Periodic(24.0).on([2])
    * Categorical().on([3]),
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "matern": Matern(smoothness=2.5),
}
EACH_TEMPLATE = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


def case(kind, seed=0, n=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if kind != "distinct":
        X[[3, 7, 9]] = X[0]
        X[11] = X[5]
    weights = {
        "counts": rng.integers(1, 4, n).astype(float),
        "real": rng.uniform(0.3, 2.5, n),
    }.get(kind, np.ones(n))
    B = rng.normal(size=(n, 3))
    for array in (X, B, weights):
        array.setflags(write=False)
    return X, B, weights


def refitted(X, B, weights, left, query):
    """Predict B at a query from rows of weights ``left``, with the ridge of all rows."""
    kept = left > 0
    A = KERNEL(X[kept]) + weights.sum() * ALPHA * np.diag(1.0 / left[kept])
    return KERNEL(query, X[kept]) @ np.linalg.solve(A, B[kept])


@KINDS
@LEAVE
def test_exact_predictions_are_those_of_a_refit(kind, leave):
    X, B, weights = case(kind)
    groups = Groups.of(X, weights)
    found, _ = exact_smoother(SCALES, LOG_SCALES, ALPHA, groups, leave)(B)
    expected = np.empty_like(B)
    for i in range(len(X)):
        left = weights.copy()
        if leave == "group":
            left[groups.member_of == groups.member_of[i]] = 0.0
        else:  # of a counted row one count is left out
            left[i] = weights[i] - 1.0 if kind == "counts" else 0.0
        expected[i] = refitted(X, B, weights, left, X[i : i + 1])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@KINDS
def test_exact_predictions_are_those_of_the_system(kind):
    X, B, weights = case(kind, seed=1)
    groups = Groups.of(X, weights)
    system = ExactRows(KERNEL, groups).factor(ALPHA)
    found, _ = exact_smoother(SCALES, LOG_SCALES, ALPHA, groups, "row")(B)
    np.testing.assert_allclose(found, system.held_out(B), rtol=1e-6, atol=1e-8)


def mixed_rows(kind, seed, n=16):
    rng = np.random.default_rng(seed)
    X = np.c_[rng.normal(size=(n, 2)), rng.uniform(0, 24, n), rng.integers(0, 3, n)]
    if kind != "distinct":
        X[10:13] = X[:3]
    weights = rng.integers(1, 4, n).astype(float) if kind == "counts" else rng.uniform(0.5, 2, n)
    return X, np.ones(n) if kind == "distinct" else weights


def objective_of(make, B, C):
    """L = Σ C sin P, of parameters (log scales, log α) and of targets."""

    def loss(theta):
        P, pullback = make(theta[:-1], float(np.exp(theta[-1])))(B)
        pulled = pullback(C * np.cos(P))
        return float(np.sum(C * np.sin(P))), np.append(pulled.log_scales, pulled.log_alpha)

    return loss


@EACH_TEMPLATE
@LEAVE
@pytest.mark.parametrize("kind", ["distinct", "counts", "real"])
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_derivatives_of_exact_predictions(template, leave, kind, seed):
    rng = np.random.default_rng(seed)
    X, weights = mixed_rows(kind, seed)
    groups, free = Groups.of(X, weights), FreeScales(template, 4)
    B, C = rng.normal(size=(2, len(X), 2))
    theta = np.append(rng.normal([0.0, 0.0, 1.0, 0.0], 0.3), np.log(ALPHA))
    loss = objective_of(lambda ls, a: exact_smoother(free, ls, a, groups, leave), B, C)
    assert_gradient(loss, theta)


def smoothers(kind):
    X, B, weights = case(kind, seed=4)
    groups = Groups.of(X, weights)
    yield exact_smoother(SCALES, LOG_SCALES, ALPHA, groups, "row"), B
    yield exact_smoother(SCALES, LOG_SCALES, ALPHA, groups, "group"), B
    yield fixed_smoother(np.random.default_rng(1).normal(size=(5, len(X)))), B


@KINDS
@pytest.mark.parametrize("which", range(3), ids=["row", "group", "fixed"])
def test_predictions_are_linear_and_targets_pull_back_by_the_transpose(kind, which):
    smoother, B = list(smoothers(kind))[which]
    other = np.random.default_rng(5).normal(size=B.shape)
    (both, _), (one, pullback), (of_other, _) = map(smoother, (B + 2.0 * other, B, other))
    np.testing.assert_allclose(both, one + 2.0 * of_other, rtol=1e-8, atol=1e-10)
    G = np.random.default_rng(6).normal(size=one.shape)
    # <G, S B'> = <Sᵀ G, B'> for every B'
    assert np.sum(pullback(G).targets * other) == pytest.approx(np.sum(G * of_other), rel=1e-8)


def test_a_pullback_stays_that_of_its_own_targets():
    """Another call of the same smoother changes nothing of an earlier one."""
    smoother, B = next(smoothers("real"))
    _, pullback = smoother(B)
    expected = pullback(B)
    smoother(7.0 * B)
    again = pullback(B)
    np.testing.assert_array_equal(again.log_scales, expected.log_scales)
    assert again.log_alpha == expected.log_alpha


def test_fixed_weights_have_no_parameters():
    S = np.random.default_rng(7).normal(size=(4, 6))
    B = np.random.default_rng(8).normal(size=(6, 2))
    found, pullback = fixed_smoother(S)(B)
    np.testing.assert_array_equal(found, S @ B)
    pulled = pullback(np.ones((4, 2)))
    assert (pulled.log_scales.shape, pulled.log_alpha) == ((0,), 0.0)


def test_tiny_ridges_stay_finite():
    """Rows that only they themselves predict: nothing overflows."""
    X = np.array([[0.0, 0.0], [1e3, 0.0], [0.0, 1e3], [1.0, 1.0]])
    B = np.ones((4, 1))
    smoother = exact_smoother(FreeScales(Gaussian(), 2), np.zeros(2), 1e-15, Groups.of(X), "row")
    found, pullback = smoother(B)
    assert np.isfinite(found).all()
    assert np.isfinite(pullback(B).log_scales).all()
