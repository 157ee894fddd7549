"""The components of a streamed default fit: sums and held-out residuals against plain formulas."""

import numpy as np
import pytest

import kcdo
from kcdo.components import (
    LocationParameters,
    LocationScaleParameters,
    OperatorParameters,
    Settings,
    StreamEffort,
)
from kcdo.distributed import LocalEngine, Sum
from kcdo.fitting import LocationPlan, ModelSpec, Pilot, StreamedLocation, output_side, pilot_choice
from kcdo.rows import Rows
from kcdo.systems import Nystrom, WhitenedSums

CENTRES = np.linspace(-2, 2, 9)[:, None]


def wave(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X) + 0.1 * rng.standard_normal((n, 1))


def pilot_of(X, Y, weights):
    return Pilot(X, Y, weights, Y.min(axis=0), Y.max(axis=0), len(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_leverages_of_rows_behind_the_sums(weighted):
    X, _ = wave()
    weights = np.linspace(0.5, 2.0, 60) if weighted else np.ones(60)
    system = WhitenedSums.of_rows(kcdo.Gaussian(0.5), CENTRES, X, weights).factor(1e-3)
    expected = system.one_minus_leverage()[:7]
    counts = 1.0 if system.sums.counts else weights[:7]
    assert not (weighted and system.sums.counts)
    np.testing.assert_allclose(
        system.one_minus_leverage_at(X[:7], weights[:7]), expected, rtol=1e-10
    )
    halves = system.section(X[:7]) @ system.half_inverse
    found = 1.0 - np.einsum("ij,ij->i", halves, halves) * counts
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def located(X, Y):
    weights = np.ones(len(X))
    spec = ModelSpec(settings=Settings(n_jobs=1))
    side = output_side(ModelSpec(kernel_y=kcdo.Gaussian(0.3)), Y, weights, None)
    chosen = LocationScaleParameters(
        LocationParameters(kcdo.Gaussian(0.5), 0.1),
        OperatorParameters(kcdo.Gaussian(1.0), 1e-3, side),
        np.zeros(1),
    )
    pilot = pilot_of(X, Y, weights)
    plan = LocationPlan.of(chosen.location, Nystrom(CENTRES), pilot, spec)
    sums = plan.empty_sums()
    for rows in (slice(0, 25), slice(25, len(X))):
        part = plan.empty_sums()
        plan.alone().add(part, (X[rows], Y[rows], weights[rows]))
        sums = sums.merged(part)
    return StreamedLocation.of(plan, sums, chosen, pilot, spec)


def test_residuals_are_those_of_fits_without_the_row():
    X, Y = wave()
    found = located(X, Y)
    assert found.parameters.noise != 0.1  # it was judged
    offset, ridge = Y.mean(), found.parameters.noise
    K_cc = kcdo.Gaussian(0.5)(CENTRES, CENTRES)
    K = kcdo.Gaussian(0.5)(X, CENTRES)
    for row in (0, 17, 59):
        others = np.arange(60) != row
        A = K[others].T @ K[others] + ridge * K_cc
        predicted = offset + K[row] @ np.linalg.solve(A, K[others].T @ (Y[others] - offset))
        assert found.residuals.location[row] == pytest.approx(predicted, abs=1e-6)
        residuals = found.residual_map(StreamEffort())((X, Y, np.ones(60)))
        _, scale = found.map(X[[row]])
        assert residuals[row] == pytest.approx((Y[row] - predicted) / scale[0], abs=1e-5)


def test_sums_of_two_plans_come_from_one_pass():
    X, Y = wave()
    pilot, spec = pilot_of(X, Y, np.ones(60)), ModelSpec(settings=Settings(n_jobs=1))
    plans = [
        LocationPlan.of(LocationParameters(kernel, 0.1), Nystrom(CENTRES), pilot, spec)
        for kernel in (kcdo.Gaussian(0.5), kcdo.Laplace(1.0))
    ]

    class Reader:
        def encoded(self, chunk):
            return chunk

    engine = LocalEngine([(X[:20], Y[:20], np.ones(20)), (X[20:], Y[20:], np.ones(40))], 1)
    both = engine.total(Sum.of(Reader(), *plans), Sum.add, "sums")
    for plan, found in zip(plans, both, strict=True):
        expected = plan.empty_sums()
        plan.add(expected, (X, Y, np.ones(60)))
        np.testing.assert_allclose(found.targets, expected.targets, rtol=1e-10)
    assert engine.facts.passes == 1


def test_a_sample_without_anything_to_learn_chooses_nothing():
    X, Y = wave(4)
    spec = ModelSpec()
    choice = pilot_choice(spec, Rows(X, Y, np.ones(4)))
    assert choice.spec is spec
    assert choice.located is None


def streamed(**options):
    X, Y = wave(240)
    chunks = [(X[i : i + 80], Y[i : i + 80, 0]) for i in range(0, 240, 80)]
    model = kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(20), n_jobs=1, **options)
    return model.fit(chunks)


def test_a_default_stream_is_a_mixture(short_searches, tmp_path):
    model = streamed()
    weights = model.report_.weights
    assert set(weights) == {"plain", "location_scale", "residual_tail", "normal"}
    assert sum(weights.values()) == pytest.approx(1.0)
    assert model.stream_.passes == 4
    assert model.report_.n_samples == 240
    X, Y = wave(100, seed=1)
    only = streamed(combination=kcdo.Combination(plain=1.0, location_scale=0.0, residual_tail=0.0))
    assert model.score(X, Y[:, 0]) > only.score(X, Y[:, 0])
    assert np.abs(model.predict(X) - np.sin(2 * X[:, 0])).mean() < 0.06
    model.save(tmp_path / "m.kcdo")
    again = kcdo.load(tmp_path / "m.kcdo")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for other in (model.worker(), model):  # what merges is the plain density
        other.partial_fit(X, Y[:, 0])
        assert not hasattr(other, "_parameters")
    assert model.report_.n_samples == 340
