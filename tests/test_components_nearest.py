"""Near rows in the mixture of an automatic fit: where centres do not follow what varies."""

import pickle

import numpy as np
import pytest

import kcdo
from kcdo.components import Effort, NearestDensity

MANY = 200  # rows beyond which near rows are a component, in these tests


@pytest.fixture(scope="module")
def rough():
    """A function too rough for six centres."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 12.0, (750, 1))
    Y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(750)
    return X[:600], Y[:600], X[600:], Y[600:]


def on_few_centres(**options):
    return kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(6), **options)


@pytest.fixture(scope="module")
def fitted(rough):
    with pytest.MonkeyPatch.context() as patch:
        effort = Effort(race_rows=150, rows=200, last_rows=250, weighed_rows=MANY)
        patch.setattr("kcdo.estimators.conditional.EFFORT", effort)
        return on_few_centres().fit(*rough[:2])


@pytest.fixture
def short(give_effort):
    """Little work."""
    return give_effort(weighed_rows=MANY, race_rows=100, rows=150, last_rows=150, held_out=100)


def test_near_rows_follow_what_centres_do_not(rough, short):
    X, Y, X_new, Y_new = rough
    fitted = on_few_centres(combination=kcdo.Combination(smoothed=0.0)).fit(X, Y)
    nothing_near = kcdo.Combination(nearest=0.0, smoothed=0.0)
    without = on_few_centres(combination=nothing_near).fit(X, Y)
    assert "nearest" not in without.report_.weights
    assert fitted.report_.weights["nearest"] > 0.8
    assert fitted.score(X_new, Y_new) > max(0.6, without.score(X_new, Y_new) + 0.5)
    assert np.abs(fitted.predict(X_new) - np.sin(3.0 * X_new[:, 0])).mean() < 0.1


def test_its_weight_may_be_given(rough, short):
    X, Y, *_ = rough
    combination = kcdo.Combination(nearest=0.25)
    assert on_few_centres(combination=combination).fit(X, Y).report_.weights["nearest"] == 0.25


def test_exact_systems_have_no_use_for_it(rough, short):
    X, Y, *_ = rough
    model = kcdo.ConditionalDensityOperator(kcdo.Matern(1.0), solver=kcdo.Exact()).fit(X, Y)
    assert "nearest" not in model.report_.weights
    assert not any(isinstance(part, NearestDensity) for part in model._operator.components)


def test_it_may_be_all_there_is(rough, short):
    X, Y, X_new, Y_new = rough
    alone = kcdo.Combination(0, 0, 0, 0, nearest=1.0)
    model = on_few_centres(kernel_x=kcdo.Matern(1.0), combination=alone).fit(X, Y)
    assert model.report_.weights == {"nearest": 1.0}
    assert np.abs(model.predict(X_new) - Y_new).mean() < 0.2
    with pytest.raises(kcdo.InvalidInputError, match="all weight is on the nearest rows"):
        on_few_centres(combination=alone).fit(X[:100], Y[:100])


def test_several_outputs_categories_and_weights(short):
    rng = np.random.default_rng(4)
    X = np.c_[rng.uniform(0.0, 12.0, 600), rng.integers(0, 2, 600)]
    centre = np.c_[np.sin(3.0 * X[:, 0]), X[:, 1]]
    Y = centre + 0.1 * rng.standard_normal((600, 2))
    weights = np.where(X[:, 0] > 6.0, 1.0, 0.1)
    kernel = kcdo.Matern(1.0).on([0]) * kcdo.Categorical(0.5).on([1])
    model = on_few_centres(kernel_x=kernel, joint="grid").fit(X, Y, sample_weight=weights)
    assert model.report_.weights["nearest"] > 0.3
    assert np.abs(model.predict(X[:200]) - centre[:200]).mean() < 0.3
    assert model.report_.memory > model._operator.primary.nbytes + Y.nbytes


def test_kernels_without_a_metric_have_no_near_rows(short):
    from sklearn.gaussian_process.kernels import RBF

    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 4.0, (300, 1))
    Y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(300)
    model = on_few_centres(kernel_x=RBF(1.0)).fit(X, Y)
    assert "nearest" not in model.report_.weights


def test_the_model_has_rows_of_its_own(rough, short):
    X, Y, X_new, _ = (array.copy() for array in rough)
    model = on_few_centres(kernel_x=kcdo.Matern(1.0)).fit(X, Y)
    before = model.predict(X_new)
    X *= 0.0
    Y *= 0.0
    np.testing.assert_array_equal(model.predict(X_new), before)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_queries_far_from_all_rows(fitted):
    found = fitted.predict([[1e155], [-1e300], [1e308]])
    np.testing.assert_allclose(found, found[0])
    assert np.isfinite(found).all()


def test_uncertain_inputs_are_mixtures_over_points(rough, fitted):
    points = rough[2][:4]
    cloud = fitted.conditional(kcdo.SampleInput([points]))
    expected = fitted.conditional(points).pdf([-0.5, 0.3]).mean(axis=0)
    # the plain form averages before densities are made positive
    np.testing.assert_allclose(cloud.pdf([-0.5, 0.3])[0], expected, rtol=0.05, atol=0.02)


def test_refitted_and_pickled(rough, fitted):
    X, Y, X_new, Y_new = rough
    again = fitted.refit(X, Y)
    np.testing.assert_allclose(again.predict(X_new), fitted.predict(X_new), rtol=1e-8)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict(X_new), fitted.predict(X_new))
    few = fitted.refit(X[:3], Y[:3])  # fewer rows than neighbours
    assert np.isfinite(few.predict(X_new)).all()
    assert fitted.refit(X[::2], Y[::2]).score(X_new, Y_new) > 0.3
