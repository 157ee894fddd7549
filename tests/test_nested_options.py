"""Parameters of kernels and other options, by two underscores."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kcdo
from kcdo.errors import InvalidInputError


def model(**options):
    return kcdo.ConditionalDensityOperator(selection="heuristic", n_jobs=1, **options)


def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(80)


def test_parameters_of_options_are_listed():
    kernel = kcdo.Gaussian(1.0).on([0]) * kcdo.Matern((2.0,), smoothness=0.5).on([1])
    deep = model(kernel_x=kernel, solver=kcdo.Nystrom(20), alpha=1e-3).get_params()
    assert deep["kernel_x__kernels__0__kernel__scale"] == 1.0
    assert deep["kernel_x__kernels__1__kernel__smoothness"] == 0.5
    assert deep["kernel_x__kernels__1__columns"] == (1,)
    assert deep["solver__centers"] == 20
    assert deep["alpha"] == 1e-3
    shallow = model(kernel_x=kernel).get_params(deep=False)
    assert not [name for name in shallow if "__" in name]
    assert not [name for name in model().get_params() if "__" in name]
    box = kcdo.DensityReconstruction(kcdo.Gaussian(0.5), kcdo.UniformBox(0, 1)).get_params()
    assert (box["kernel__scale"], box["reference__upper"]) == (0.5, 1)


def test_every_listed_parameter_can_be_set_to_what_it_is():
    estimator = model(
        kernel_x=kcdo.Warped(kcdo.Gaussian(1.0), (0,), (0.0,), (1.0,)) + kcdo.Periodic(24.0),
        kernel_y=kcdo.Gaussian(0.1),
        reference=kcdo.UniformBox(-3.0, 3.0),
        solver=kcdo.Iterative(),
        combination=kcdo.Combination(),
        filter=kcdo.IteratedTikhonov(2),
        alpha=kcdo.PowerScheme(1.0, 0.5),
    )
    before = str(estimator.get_params())
    for name, value in estimator.get_params().items():
        estimator.set_params(**{name: value})
    assert str(estimator.get_params()) == before


def test_setting_changes_a_copy():
    kernel = kcdo.Gaussian(1.0) * kcdo.Laplace(2.0)
    first, second = model(kernel_x=kernel), model(kernel_x=kernel)
    assert first.set_params(kernel_x__kernels__1__scale=5.0, alpha=0.1) is first
    assert first.kernel_x == kcdo.Gaussian(1.0) * kcdo.Laplace(5.0)
    assert first.alpha == 0.1
    assert second.kernel_x == kernel == kcdo.Gaussian(1.0) * kcdo.Laplace(2.0)
    assert clone(first).get_params()["kernel_x__kernels__1__scale"] == 5.0


def test_an_option_and_its_parameter_may_be_set_at_once():
    estimator = model().set_params(kernel_x__scale=3.0, kernel_x=kcdo.Laplace(1.0))
    assert estimator.kernel_x == kcdo.Laplace(3.0)


def test_searches_and_pipelines_reach_kernels():
    X, y = rows()
    grid = {"kernel_x__scale": [0.5, 50.0]}
    crps = kcdo.metrics.crps_scorer
    search = GridSearchCV(model(kernel_x=kcdo.Gaussian(1.0)), grid, scoring=crps, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel_x__scale": 0.5}
    assert search.best_estimator_.kernel_x == kcdo.Gaussian(0.5)
    fixed = model(kernel_x=kcdo.Gaussian(0.5)).fit(X, y)
    np.testing.assert_allclose(search.predict(X), fixed.predict(X), rtol=1e-9)
    pipeline = make_pipeline(StandardScaler(), model(solver=kcdo.Nystrom(10)))
    name = "conditionaldensityoperator__solver__centers"
    assert pipeline.set_params(**{name: 7})[-1].solver == kcdo.Nystrom(7)


def test_kernels_of_scikit_learn_are_set_as_theirs_are():
    estimator = model(kernel_x=RBF(1.0)).set_params(kernel_x__length_scale=2.0)
    assert estimator.kernel_x.length_scale == 2.0


def test_wrong_names_are_refused():
    estimator = model(kernel_x=kcdo.Gaussian(1.0) * kcdo.Gaussian(2.0))
    for name, message in (
        ("kernel_x__scale", r"Product.* has no parameter 'scale'; it has \['kernels'\]"),
        ("kernel_x__kernels__2__scale", r"has no parameter '2'; it has \['0', '1'\]"),
        ("kernel_x__kernels__0__size", r"has no parameter 'size'; it has \['scale'\]"),
        ("kernel_y__scale", r"kernel_y is None, .* such as kernel_y=kcdo\.Gaussian\(\)"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            estimator.set_params(**{name: 1.0})
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        estimator.set_params(colour=1)
    with pytest.raises(InvalidInputError, match="invalid parameter 'colour__scale'"):
        estimator.set_params(colour__scale=1)
    with pytest.raises(InvalidInputError, match="scale"):
        estimator.set_params(kernel_x__kernels__0__scale=-1.0)
