"""Held-out losses of node densities: against their formulas, gradients by differences."""

import numpy as np
import pytest
from scipy.stats import norm

from kcdo.distributions import NodeBatch, layout_of, positive_density
from kcdo.errors import InvalidInputError
from kcdo.fitting.losses import BalancedScore, CrpsLoss, LogScore, Scoring
from kcdo.measures import UniformBox
from tests.differences import assert_gradient, numeric_gradient
from tests.output_sides import EACH_MEASURE, measures, outputs

LOSSES = {"log score": LogScore(), "crps": CrpsLoss(), "balanced": BalancedScore()}
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def scoring_on(measure, n=12):
    rng = np.random.default_rng(1)
    d = measure.nodes.shape[1]
    return Scoring(measure, outputs(d, n), rng.uniform(0.5, 2.0, n), np.full(d, 0.4))


def gaussian_values(scoring, sds=0.7):
    """Node values of Gaussians about other places than the outputs, not normalised."""
    centres = scoring.Y + 0.3 * outputs(scoring.Y.shape[1], len(scoring.Y), 2)
    nodes = scoring.measure.nodes
    return 0.8 * np.prod(norm.pdf(nodes[None], centres[:, None], sds), axis=2)


@EACH_MEASURE
def test_densities_are_positive_and_normalised(measure):
    scoring = scoring_on(measure)
    values = gaussian_values(scoring)
    values -= 0.2 * values.mean(axis=1, keepdims=True)  # some nodes are negative
    density, _ = positive_density(values, measure.weights)
    assert density.min() >= 0
    np.testing.assert_allclose(density @ measure.weights, 1.0, rtol=1e-10)
    signed = values / (values @ measure.weights)[:, None]
    for p, projected in zip(signed, density, strict=True):  # max(p - τ, 0), one τ per row
        tau = (p - projected)[projected > 0]
        np.testing.assert_allclose(tau, tau[0], atol=1e-10)
        assert np.all(p[projected == 0] <= tau[0] + 1e-10)


def test_rows_without_mass_are_uniform_and_do_not_move():
    measure = UniformBox(0.0, 2.0, nodes=8).realise(outputs(1))
    values = np.vstack([np.full(8, -1.0), np.zeros(8), np.ones(8)])
    density, back = positive_density(values, measure.weights)
    np.testing.assert_allclose(density, 0.5)
    np.testing.assert_array_equal(back(np.ones((3, 8)))[:2], 0.0)


def test_densities_of_hardly_any_mass_are_continuous_with_their_slopes():
    measure = UniformBox(0.0, 2.0, nodes=8).realise(outputs(1))
    shape, side = np.array([0.0, 0.1, 0.4, 1.2, 1.0, 0.6, 0.5, 0.2]), np.arange(8.0)

    def objective(mass):
        density, back = positive_density(mass * shape[None], measure.weights)
        return float(density[0] @ side), back(side[None])[0] @ shape[:, None]

    assert_gradient(objective, np.array([1.5e-3]), step=1e-8)
    for edge in (1e-3, 2e-3):
        below, above = (objective(np.array([edge * f]))[0] for f in (1 - 1e-9, 1 + 1e-9))
        assert below == pytest.approx(above, rel=1e-6)


@EACH_MEASURE
def test_the_readout_is_the_density_of_the_layout(measure):
    scoring = scoring_on(measure)
    density, _ = positive_density(gaussian_values(scoring), measure.weights)
    batch = NodeBatch(layout_of(measure, scoring.scales), density * measure.weights)
    np.testing.assert_allclose(scoring.at_outputs(density), batch.pdf_pairs(scoring.Y), rtol=1e-10)


@EACH_MEASURE
def test_the_log_score_is_its_formula(measure):
    scoring = scoring_on(measure)
    values = gaussian_values(scoring)
    density, _ = positive_density(values, measure.weights)
    at = NodeBatch(layout_of(measure, scoring.scales), density * measure.weights).pdf_pairs(
        scoring.Y
    )
    volume = np.prod(np.ptp(measure.nodes, axis=0))
    expected = np.average(-np.log(0.99 * at + 0.01 / volume), weights=scoring.weights)
    assert LogScore()(scoring, values)[0] == pytest.approx(expected, rel=1e-10)


def test_scores_on_a_fine_grid_are_those_of_the_distribution():
    Y = outputs(1)
    measure = UniformBox(-6.0, 6.0, nodes=3000).realise(Y)
    scoring = Scoring(measure, Y, np.ones(len(Y)), np.ones(1))
    centres, sd = Y + 0.5 * outputs(1, seed=3), 0.7
    values = norm.pdf(measure.nodes[:, 0], centres, sd)
    z = ((Y - centres) / sd)[:, 0]
    exact = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert CrpsLoss()(scoring, values)[0] == pytest.approx(exact.mean(), abs=2e-3)
    assert LogScore(epsilon=0.0)(scoring, values)[0] == pytest.approx(
        -np.log(norm.pdf(z) / sd).mean(), abs=1e-4
    )


def test_the_balanced_score_joins_both():
    scoring = scoring_on(measures()["line"])
    values = gaussian_values(scoring)
    parts = LogScore()(scoring, values)[0] + np.log(CrpsLoss()(scoring, values)[0])
    assert BalancedScore()(scoring, values)[0] == pytest.approx(parts, rel=1e-12)


def test_a_unit_changes_the_balanced_score_by_nothing_but_a_constant():
    """Log score and log CRPS of outputs in metres and in feet differ by ± log 3.28."""
    scores = []
    for unit in (1.0, 3.28):
        measure = UniformBox(-4.0 * unit, 4.0 * unit, nodes=60).realise(outputs(1))
        scoring = Scoring(measure, unit * outputs(1), np.ones(12), np.ones(1))
        centres = unit * (outputs(1) + 0.2)
        shapes = [norm.pdf(measure.nodes[:, 0], centres, unit * sd) for sd in (0.5, 1.1)]
        scores.append([BalancedScore()(scoring, values)[0] for values in shapes])
    assert np.diff(scores[0]) == pytest.approx(np.diff(scores[1]), abs=1e-9)


@EACH_LOSS
def test_gradients_of_losses_by_differences(loss):
    measure = measures()["line"]
    scoring = scoring_on(measure)
    values = gaussian_values(scoring) - 0.03

    def value(flat):
        return loss(scoring, flat.reshape(values.shape))[0]

    gradient = loss(scoring, values)[1]
    expected = numeric_gradient(value, values.ravel(), step=1e-6).reshape(values.shape)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["plane", "scattered", "sample"])
def test_gradients_on_other_measures_by_differences(name):
    loss = LogScore()
    scoring = scoring_on(measures()[name], n=5)
    values = gaussian_values(scoring) - 0.01
    value = lambda flat: loss(scoring, flat.reshape(values.shape))[0]  # noqa: E731
    expected = numeric_gradient(value, values.ravel(), step=1e-6).reshape(values.shape)
    np.testing.assert_allclose(
        loss(scoring, values)[1], expected, atol=1e-6 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", ["plane", "sample"])
def test_the_crps_needs_one_output_on_a_grid(name):
    scoring = scoring_on(measures()[name])
    with pytest.raises(InvalidInputError, match="the CRPS needs one output on a grid: use the log"):
        CrpsLoss()(scoring, gaussian_values(scoring))
