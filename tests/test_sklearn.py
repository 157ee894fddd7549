"""scikit-learn manners: its own checks, clone, grid search, pipelines."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import kcdo


@parametrize_with_checks(
    [
        kcdo.ConditionalDensityOperator(selection="heuristic"),
        kcdo.ConditionalMeanOperator(),
        kcdo.DensityReconstruction(),
    ]
)
@pytest.mark.filterwarnings("ignore::kcdo.KcdoWarning")
def test_sklearn_checks(estimator, check):
    check(estimator)


WHOLE_ROWS = "automatic fits hold a row that counts three times out as a whole, with its copies"


@parametrize_with_checks(
    [kcdo.ConditionalDensityOperator()],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": WHOLE_ROWS,
    },
)
@pytest.mark.filterwarnings("ignore::kcdo.KcdoWarning")
@pytest.mark.usefixtures("short_searches")
def test_sklearn_checks_of_the_automatic_selection(estimator, check):
    check(estimator)


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 1))
    return X, X[:, 0] + 0.3 * rng.standard_normal(150)


def test_clone_keeps_every_option():
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Laplace(2.0),
        kernel_y=kcdo.Gaussian(0.1),
        reference=kcdo.UniformBox(-3.0, 3.0, nodes=50),
        alpha=kcdo.PowerScheme(0.2, 0.5),
        alpha_prime=0.2,
        filter=kcdo.IteratedTikhonov(3),
        positivity="clip",
        selection="heuristic",
    )
    copy = clone(model)
    assert copy is not model
    for name, value in model.get_params().items():
        assert copy.get_params()[name] == value


def test_set_params_changes_the_fit(line):
    X, Y = line
    model = kcdo.ConditionalDensityOperator(kernel_y=kcdo.Gaussian(0.1), selection="heuristic").fit(
        X, Y
    )
    narrow = model.conditional([[0.0]]).std()
    model.set_params(kernel_y=kcdo.Gaussian(1.0)).fit(X, Y)
    assert model.conditional([[0.0]]).std() > 1.1 * narrow


def test_grid_search_prefers_the_better_ridge(line):
    X, Y = line
    search = GridSearchCV(
        kcdo.ConditionalDensityOperator(selection="heuristic"), {"alpha": [1e-3, 1e3]}, cv=3
    )
    assert search.fit(X, Y).best_params_ == {"alpha": 1e-3}


def test_pipeline_scores_and_predicts(line):
    X, Y = line
    pipeline = make_pipeline(
        StandardScaler(), kcdo.ConditionalDensityOperator(selection="heuristic")
    ).fit(X, Y)
    assert pipeline.predict(X).shape == Y.shape
    scores = cross_val_score(pipeline, X, Y, cv=3)
    assert np.all(scores > -1.0)  # the true entropy is 0.5 log(2 pi e 0.09) = 0.21


def test_score_is_the_mean_log_density(line):
    X, Y = line
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    each = model.score_samples(X, Y)
    np.testing.assert_allclose(each, np.log(np.diag(model.conditional(X).pdf(Y))), atol=1e-10)
    assert model.score(X, Y) == pytest.approx(each.mean())
    weights = np.linspace(0, 1, len(X))
    assert model.score(X, Y, weights) == pytest.approx(np.average(each, weights=weights))


def test_score_samples_without_outputs_is_minus_the_entropy(line):
    X, Y = line
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    draws = model.conditional(X[:1]).sample(20_000, random_state=0)
    expected = model.conditional(X[:1]).logpdf(draws[0]).mean()
    assert model.score_samples(X[:1])[0] == pytest.approx(expected, abs=0.02)


def test_predict_is_the_conditional_mean(line):
    X, Y = line
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    np.testing.assert_array_equal(model.predict(X[:5]), model.conditional(X[:5]).mean())
