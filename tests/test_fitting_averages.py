"""Regressions that add a smooth function and a rough one: where, and what is told of them."""

import numpy as np
import pytest

import kcdo
from kcdo.components import Effort, Settings
from kcdo.fitting import metric_choice
from kcdo.fitting.averages import averaged
from kcdo.fitting.metric import Metric, MetricSearch
from kcdo.kernels import Automatic, Average, FeatureMap, Gaussian, Matern
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups


def smooth_and_steps(n, seed=0):
    """Smooth in one column, steps along another, both far above the noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    steps = np.random.default_rng(99).standard_normal(16)[((X[:, 1] + 2.0) * 4.0).astype(int)]
    return X, np.sin(2.0 * X[:, 0]) + steps + 0.05 * rng.standard_normal(n)


def learnt(X, y, settings):
    features = FeatureMap.of(X, scores=False)
    rows = Rows(features(X), y[:, None], np.ones(len(X)))
    return rows, metric_choice.choose_metrics(rows, settings, Automatic(), features)[:1]


SETTINGS = Settings(n_jobs=1)


@pytest.fixture(scope="module")
def found():
    rows, metrics = learnt(*smooth_and_steps(400), SETTINGS)
    return rows, metrics, averaged(metrics, rows, SETTINGS)


def test_a_smooth_function_and_steps_are_two_kernels(found):
    rows, (before,), (after,) = found
    assert isinstance(after.of_mean, Average)
    assert after.kernel == before.kernel  # what says which rows are near

    def error(kernel, noise):
        system = ExactRows(kernel, Groups.of(rows.X, rows.weights), n_jobs=1)
        X, y = smooth_and_steps(1000, seed=1)
        features = FeatureMap.of(smooth_and_steps(400)[0], scores=False)
        weights = system.factor(noise / rows.total).weights(features(X))
        return np.mean(np.abs(weights @ rows.Y[:, 0] - y))

    assert error(after.of_mean, after.noise) < 0.95 * error(before.kernel, before.noise)


def test_templates_and_columns_follow(found):
    _, _, (metric,) = found
    template = metric.template_of_mean
    assert {each.smoothness for each in template.kernels} == {0.5, 1.5}
    assert not any(each.fitted for each in template.kernels)
    wider = Metric(
        metric.template,
        Matern((1.0, *metric.kernel.scale), smoothness=metric.template.smoothness),
        metric.noise,
        metric.loss,
        columns=np.array([1, 2]),
        average=Average(
            tuple(Matern((9.0, *k.scale), smoothness=k.smoothness) for k in metric.average.kernels)
        ),
    )
    narrow = wider.on(np.array([1, 2]), 3)
    np.testing.assert_allclose(narrow.kernel.scale, metric.kernel.scale, rtol=1e-12)
    for kernel, other in zip(narrow.average.kernels, metric.average.kernels, strict=True):
        np.testing.assert_allclose(kernel.scale, other.scale, rtol=1e-12)
    np.testing.assert_array_equal(narrow.columns, [0, 1])


@pytest.mark.parametrize("n", [60, 400])
def test_chance_is_not_worth_a_second_kernel(n):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 4))
    rows, metrics = learnt(X, X[:, 0] + rng.standard_normal(n), SETTINGS)
    assert averaged(metrics, rows, SETTINGS) == metrics


def test_rows_beyond_those_of_one_system_keep_one_kernel(found):
    rows, metrics, _ = found
    few = Settings(n_jobs=1, effort=Effort(exact_rows=100))
    assert averaged(metrics, rows, few) == metrics


def test_an_average_of_the_user_has_scales_in_units_of_the_inputs():
    X, y = smooth_and_steps(120)
    kernel = Average((Gaussian(), Matern(smoothness=0.5)))
    short = {"selection": "auto", "random_state": 0}
    plain, scaled = (
        kcdo.ConditionalDensityOperator(kernel, **short).fit(unit * X, y).conditional(unit * X[:9])
        for unit in (1.0, 2.0**20)
    )
    np.testing.assert_allclose(scaled.mean(), plain.mean(), rtol=1e-3, atol=1e-3)


def test_many_rows_are_judged_by_some_at_once(monkeypatch):
    seen = []
    X, y = smooth_and_steps(300)
    settings = Settings(effort=Effort(exact_judged=50))
    search = MetricSearch(X, y[:, None], np.ones(300), Gaussian(), np.arange(2), settings, None)
    whole = MetricSearch.judged

    def judged(self, objective, theta):
        seen.append(len(self.X))
        return whole(self, objective, theta)

    monkeypatch.setattr(MetricSearch, "judged", judged)
    assert np.isfinite(search.judged_at_once(search.first))
    assert seen == [100]


def test_a_default_fit_uses_them_and_survives_a_round_trip(tmp_path):
    X, y = smooth_and_steps(450)
    model = kcdo.ConditionalDensityOperator(random_state=0).fit(X, y)
    kernels = {kernel for part in model._chosen_parameters().components for kernel in part.kernels}
    assert any(isinstance(kernel, Average) for kernel in kernels)
    model.save(tmp_path / "model.kcdo")
    new = smooth_and_steps(20, seed=2)[0]
    expected = model.conditional(new).quantile([0.1, 0.9])
    np.testing.assert_array_equal(
        kcdo.load(tmp_path / "model.kcdo").conditional(new).quantile([0.1, 0.9]), expected
    )
    uncertain = model.conditional(kcdo.GaussianInput(new, np.full(new.shape, 1e-12)))
    np.testing.assert_allclose(uncertain.mean(), model.conditional(new).mean(), atol=1e-3)
