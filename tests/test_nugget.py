"""A kernel with a nugget: against the plain formula, where inputs come back, and in files."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kcdo
from kcdo.errors import InvalidInputError
from kcdo.fitting.families import families
from kcdo.kernels import (
    FreeScales,
    Gaussian,
    Laplace,
    Matern,
    Nugget,
    leaves,
    with_median_scales,
)
from kcdo.kernels.expectation import expectation
from kcdo.rows import Rows
from tests.differences import assert_gradient
from tests.model_files import forge, records


def repeated_rows(seed, n=9, m=7):
    """Two arrays of rows, of which several are equal, within and across."""
    rng = np.random.default_rng(seed)
    pool = rng.normal(size=(6, 3))
    pool[0, 0] = -0.0
    return pool[rng.integers(6, size=n)], pool[rng.integers(6, size=m)]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.99))
def test_equal_rows_are_found(seed, share):
    A, B = repeated_rows(seed)
    inner = Matern(1.3, smoothness=1.5)
    same = np.all(A[:, None] == B[None], axis=2)
    expected = (1 - share) * inner(A, B) + share * same
    np.testing.assert_allclose(Nugget(inner, share)(A, B), expected, atol=1e-14)


def test_zero_has_one_sign_and_single_precision_works():
    kernel = Nugget(Gaussian(1.0), 0.5)
    np.testing.assert_allclose(kernel([[-0.0]], [[0.0]]), [[1.0]])
    A = np.array([[0.1, 2.0], [3.0, 0.3]], dtype=np.float32)
    found = kernel(A, A.copy())
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.diag(found), 1.0, atol=1e-6)
    np.testing.assert_allclose(kernel.diag(A), 1.0)


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_a_share_is_a_share(share):
    with pytest.raises(InvalidInputError, match=r"share must lie in \[0, 1\)"):
        Nugget(Gaussian(1.0), share)


def test_an_uncertain_input_equals_no_other():
    X, inputs = np.array([[0.0], [1.0]]), kcdo.GaussianInput([[0.3]], 0.2)
    for inner in (Gaussian(1.0), Matern(1.0, smoothness=1.5)):
        expected = 0.75 * expectation(inner, X, inputs).values
        found = expectation(Nugget(inner, 0.25), X, inputs)
        np.testing.assert_allclose(found.values, expected)


def test_a_gaussian_without_variance_is_a_point():
    """It may be one of the rows, whose nugget it then has; beside it uncertain ones have none."""
    kernel, X = Nugget(Matern(0.8, smoothness=1.5), 0.4), np.array([[0.0, 1.0], [1.0, 2.0]])
    inputs = kcdo.GaussianInput(X[[0, 0, 1]], [[0.0, 0.0], [0.1, 0.0], [0.0, 0.0]])
    found = expectation(kernel, X, inputs)
    np.testing.assert_allclose(found.values[[0, 2]], kernel(X), atol=1e-15)
    alone = expectation(kernel.kernel, X, inputs).scaled(0.6)
    np.testing.assert_allclose(found.values[1], alone.values[1])


def test_scales_are_open_as_those_of_the_inner_kernel():
    X, _ = repeated_rows(1)
    kernel = Nugget(Laplace(), 0.3)
    assert not kernel.fitted
    filled = with_median_scales(kernel, X)
    assert filled == Nugget(with_median_scales(Laplace(), X), 0.3)
    free = FreeScales(kernel, 3)
    np.testing.assert_allclose(free.kernel(free.log_scales_of(filled))(X), filled(X))
    W = np.random.default_rng(0).normal(size=(9, 9))

    def objective(theta):
        values, pullback = free.gram(theta, X)
        return float(np.sum(W * values)), pullback(W)

    assert_gradient(objective, np.array([0.1, -0.2, 0.3]), step=1e-6)


def test_where_inputs_come_back_their_own_rows_count():
    """Every input has an offset of its own, which says nothing about its neighbours."""
    rng = np.random.default_rng(0)
    inputs = np.sort(rng.uniform(0, 3, 40))
    offset = rng.normal(size=40)
    group = np.repeat(np.arange(40), 6)
    x, y = inputs[group], np.sin(inputs[group]) + offset[group] + 0.1 * rng.normal(size=240)
    model = kcdo.ConditionalDensityOperator(combination=kcdo.Combination(1.0, 0.0, 0.0, 0.0))
    model.fit(x[:, None], y)
    assert isinstance(model.report_.kernel_x, Nugget)
    means = np.array([y[group == g].mean() for g in range(40)])
    assert np.abs(model.predict(inputs[:, None]) - means).mean() < 0.1
    between = model.predict(np.linspace(0.5, 2.5, 9)[:, None] + 1e-7)
    assert np.abs(between - np.sin(np.linspace(0.5, 2.5, 9))).mean() < 0.7
    assert Rows(x[:, None], y[:, None], np.ones(240)).share_repeated == 1.0


def test_columns_are_found_inside():
    frame = pd.DataFrame({"a": [0.0, 1.0, 1.0, 2.0], "b": ["u", "v", "v", "u"]})
    kernel = Nugget(Gaussian(1.0).on("a") * kcdo.Categorical(1.0).on("b"), 0.3)
    model = kcdo.ConditionalDensityOperator(kernel_x=kernel, selection="heuristic")
    model.fit(frame, [0.0, 1.0, 1.2, 2.0])
    assert [columns for _, columns in leaves(model.report_.kernel_x, range(2))] == [[0], [1]]
    assert np.isfinite(model.predict(frame)).all()


def test_families_are_compared_inside():
    kernel = Nugget(kcdo.Automatic(), 0.2)
    assert {type(family.kernel) for family in families(kernel)} == {Gaussian, Matern, Laplace}


def repeated(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(4, size=n), rng.integers(3, size=n)]).astype(float)
    return X, X[:, 0] + 0.2 * rng.normal(size=n)


def test_columns_that_the_kernel_does_not_see_have_no_nugget(short_searches):
    X, y = repeated()
    model = kcdo.ConditionalDensityOperator(kernel_x=Gaussian(1.0).on(0)).fit(X, y)
    assert model.report_.kernel_x == Gaussian(1.0).on(0)
    assert model.predict([[1.0, 0.0]]) == pytest.approx(model.predict([[1.0, 7.0]]))


def test_a_stream_has_no_nugget(short_searches):
    X, y = repeated()
    model = kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(20)).partial_fit(X, y)
    assert not isinstance(model.report_.kernel_x, Nugget)


@pytest.mark.parametrize(("spread_rows", "kind"), [(40, Nugget), (39, Gaussian)])
def test_a_location_with_many_inputs_is_calibrated_at_new_ones(give_effort, spread_rows, kind):
    """Where its spread is computed from some inputs only, none may be remembered."""
    give_effort(spread_rows=spread_rows)
    rng = np.random.default_rng(0)
    inputs, group = np.sort(rng.uniform(0, 3, 40)), np.repeat(np.arange(40), 6)
    x, offset = inputs[group], 0.5 * rng.normal(size=40)[group]
    y = 2.0 * np.sin(2.0 * x) + offset + 0.5 * rng.normal(size=240)
    only = kcdo.Combination(0.0, 1.0, 0.0, 0.0)
    model = kcdo.ConditionalDensityOperator(Gaussian(), combination=only).fit(x[:, None], y)
    assert isinstance(model._parameters.components[1].location.kernel, kind)
    new = model.conditional(np.linspace(0.2, 2.8, 40)[:, None])
    assert new.std().mean() == pytest.approx(np.sqrt(0.5), rel=0.25)


# --- the name that it had in version 0.1


def test_the_old_name_works_and_says_what_is_new():
    with pytest.warns(DeprecationWarning, match=r"kcdo\.Remembering is now called kcdo\.Nugget"):
        assert kcdo.Remembering is Nugget
    with pytest.warns(DeprecationWarning, match="old name") as caught:
        from kcdo import Remembering
    assert Remembering is Nugget
    assert caught[0].filename == __file__
    assert "Remembering" not in kcdo.__all__


def test_files_that_use_the_old_name_load(tmp_path):
    X, y = repeated()
    kernel = Nugget(Gaussian(1.0), 0.3)
    model = kcdo.ConditionalDensityOperator(kernel_x=kernel, selection="heuristic").fit(X, y)
    model.save(tmp_path / "new.kcdo")
    renamed = []

    def with_the_old_name(metadata):
        assert records(metadata, "Nugget")
        metadata["version"] = "1.2"
        for record in metadata["objects"]:
            if record["class"] == "Nugget":
                record["class"] = "Remembering"
                renamed.append(record)

    forge(tmp_path / "new.kcdo", tmp_path / "old.kcdo", with_the_old_name)
    assert renamed
    loaded = kcdo.load(tmp_path / "old.kcdo")
    assert loaded.report_.kernel_x == kernel
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
