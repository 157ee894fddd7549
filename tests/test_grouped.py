"""Mixtures of many distributions of one batch, against mixtures of as many batches."""

import numpy as np
import pytest

from kcdo.components.base import predict_anywhere
from kcdo.distributions import GroupedBatch, MixtureBatch
from kcdo.inputs import GaussianInput, SampleInput
from tests.distribution_kinds import LINES, PLANES, Q

SOME = ("grid", "affine grid", "mixture", "nested mixture", "tabulated", "spikes")
WEIGHTS = np.array([0.2, 0.5, 0.3])


def grouped_and_mixed(batch):
    """All Q distributions as one, by both ways."""
    grouped = GroupedBatch(batch, np.array([0, Q]), WEIGHTS)
    return grouped, MixtureBatch([batch.take([q]) for q in range(Q)], WEIGHTS)


@pytest.fixture(params=[name for name in SOME if name in LINES])
def line(request):
    return grouped_and_mixed(LINES[request.param])


@pytest.fixture(params=sorted(PLANES)[:3])
def plane(request):
    return grouped_and_mixed(PLANES[request.param])


def test_densities_and_cdfs_of_one_output(line, rng):
    grouped, mixed = line
    y = np.sort(rng.normal(size=(9, 1)), axis=0)
    for ask in ("pdf", "cdf", "logpdf"):
        np.testing.assert_allclose(getattr(grouped, ask)(y), getattr(mixed, ask)(y), rtol=1e-9)
    for ask in ("pdf_each", "cdf_each", "logpdf_each"):
        found, expected = getattr(grouped, ask)(y[None]), getattr(mixed, ask)(y[None])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_moments_quantiles_and_scores_of_one_output(line):
    grouped, mixed = line
    for found, expected in zip(grouped.moments(), mixed.moments(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    levels = np.array([1e-4, 0.1, 0.5, 0.97, 0.9999])
    np.testing.assert_allclose(
        grouped.quantile(levels), mixed.quantile(levels), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(grouped.support(), mixed.support())
    y = np.array([[0.3]])
    np.testing.assert_allclose(grouped.crps(y), mixed.crps(y), rtol=2e-3)
    ends = np.array([0.0, 1.0])
    np.testing.assert_allclose(grouped.quantile(ends), mixed.quantile(ends))


def test_draws_of_one_output(line):
    grouped, mixed = line
    uniforms = np.random.default_rng(0).random((1, 4000, grouped.uniforms))
    draws = np.sort(grouped.sample(uniforms)[0, :, 0])
    below = mixed.cdf_each(draws[None, 20::400, None])[0]
    np.testing.assert_allclose(below, (np.arange(4000)[20::400] + 0.5) / 4000, atol=0.03)


def test_several_outputs(plane, rng):
    grouped, mixed = plane
    y = rng.normal(size=(5, 2))
    np.testing.assert_allclose(grouped.pdf(y), mixed.pdf(y), rtol=1e-9)
    np.testing.assert_allclose(grouped.cdf(y), mixed.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(grouped.moments()[1], mixed.moments()[1], rtol=1e-8)
    np.testing.assert_allclose(
        grouped.marginal([1]).pdf(y[:, 1:]), mixed.marginal([1]).pdf(y[:, 1:])
    )


def test_groups_of_different_sizes_are_taken_and_joined(rng):
    batch = LINES["grid"]
    grouped = GroupedBatch(batch, np.array([0, 1, Q]), np.array([1.0, 0.4, 0.6]))
    both = grouped.take([1]).joined([grouped.take([0])])
    y = rng.normal(size=(4, 1))
    np.testing.assert_allclose(both.pdf(y), grouped.pdf(y)[::-1])
    np.testing.assert_allclose(grouped.pdf(y)[0], batch.pdf(y)[0])


@pytest.mark.parametrize(
    "queries", [SampleInput(np.zeros((2, 500, 1))), GaussianInput(np.zeros((2, 1)), 1.0)]
)
def test_a_component_is_asked_for_all_points_of_uncertain_inputs_at_once(queries):
    """One by one, a sample of thousands of points would take minutes."""
    asked = []

    class Component:
        linear = False

        def predict(self, points):
            asked.append(len(points))
            return {"plain": LINES["grid"].take(np.zeros(len(points), dtype=int))}

    found = predict_anywhere(Component(), queries)["plain"]
    assert len(found) == 2
    assert asked == [len(found.inner)]


def test_atoms_are_averaged_over_members():
    """Atoms of a mixture over points: a sample input, a missing cell, a marginal of a chain."""
    grouped, mixed = grouped_and_mixed(LINES["spikes"])
    for one, other in zip(grouped.atoms(), mixed.atoms(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert GroupedBatch(LINES["grid"], np.array([0, Q]), WEIGHTS).atoms() is None
