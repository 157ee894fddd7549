"""Free scales of kernels: which are open, and how Gram matrices move with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.kernels import (
    Adapter,
    Average,
    Categorical,
    FreeScales,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
    with_median_scales,
)
from tests.differences import assert_gradient

P = 3
TEMPLATES = {
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "matern 1/2": Matern(smoothness=0.5),
    "matern 3/2": Matern(smoothness=1.5),
    "matern 5/2": Matern(smoothness=2.5),
    "periodic": Periodic((2.0, 3.0, 5.0)),
    "categorical": Categorical(),
    "product": Gaussian().on([0, 2]) * Periodic(2.0).on([1]) * Categorical().on([2]),
    "sum": Matern(smoothness=0.5).on([1]) + Laplace().on([0, 1]),
    "average": Average((Gaussian(), Matern(smoothness=0.5), Laplace().on([2]))),
    "nested": (Gaussian().on([1]) * Laplace(0.7).on([0]) + Matern().on([0, 1])).on([2, 0]),
    "part fixed": Gaussian(0.8).on([0]) * Laplace().on([1, 2]),
    "of the whole": Gaussian() * Laplace(),
}
EACH = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


def rows(n, seed):
    X = np.random.default_rng(seed).integers(-4, 5, size=(n, P)) / 4.0
    X.setflags(write=False)
    return X


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("gaussian", (0, 1, 2)),
        ("product", (0, 2, 1, 2)),
        ("sum", (1, 0, 1)),
        ("nested", (0, 2, 0)),  # columns of the data, not of the part
        ("part fixed", (1, 2)),
        ("of the whole", (0, 1, 2, 0, 1, 2)),
    ],
)
def test_each_open_scale_knows_its_column(name, columns):
    free = FreeScales(TEMPLATES[name], P)
    assert free.columns == columns
    assert len(free) == len(columns)


@EACH
def test_scales_go_in_and_come_out(template):
    free = FreeScales(template, P)
    log_scales = np.random.default_rng(0).normal(size=len(free))
    kernel = free.kernel(log_scales)
    assert kernel.fitted
    np.testing.assert_allclose(free.log_scales_of(kernel), log_scales, rtol=1e-12)
    medians = with_median_scales(template, rows(30, 1))
    again = free.kernel(free.log_scales_of(medians))
    np.testing.assert_allclose(again(rows(4, 2)), medians(rows(4, 2)), rtol=1e-12)


def test_scales_that_are_set_stay():
    kernel = FreeScales(TEMPLATES["part fixed"], P).kernel(np.zeros(2))
    assert kernel == Gaussian(0.8).on([0]) * Laplace((1.0, 1.0)).on([1, 2])


@EACH
def test_gram_is_that_of_the_filled_kernel(template):
    free = FreeScales(template, P)
    log_scales = np.random.default_rng(3).normal(scale=0.4, size=len(free))
    A, B = rows(6, 4), rows(5, 5)
    kernel = free.kernel(log_scales)
    np.testing.assert_allclose(free.gram(log_scales, A)[0], kernel(A), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(free.gram(log_scales, A, B)[0], kernel(A, B), rtol=1e-12, atol=1e-14)


@EACH
@pytest.mark.parametrize("square", [True, False])
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_pullback_by_differences(template, square, seed):
    rng = np.random.default_rng(seed)
    free = FreeScales(template, P)
    A = rows(6, seed)  # a coarse lattice: some rows are equal, some differ in one column only
    B = None if square else rows(5, seed + 1)
    W = rng.normal(size=(6, 6 if square else 5))

    def weighted(log_scales):
        values, pullback = free.gram(log_scales, A, B)
        total = float(np.sum(W * values))
        values[:] = np.nan  # systems are factored in place
        return total, pullback(W)

    assert_gradient(weighted, rng.normal(scale=0.5, size=len(free)), rtol=1e-6)


def test_equal_rows_do_not_move_a_rough_kernel():
    free = FreeScales(Matern(smoothness=0.5), 2)
    _, pullback = free.gram(np.zeros(2), np.ones((3, 2)))
    np.testing.assert_array_equal(pullback(np.ones((3, 3))), 0.0)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Adapter(lambda a, b: a @ b.T)])
def test_without_an_open_scale_there_is_nothing_to_move(kernel):
    free = FreeScales(kernel, P)
    assert len(free) == 0
    assert free.kernel(np.zeros(0)) == kernel
    values, pullback = free.gram(np.zeros(0), rows(4, 6))
    np.testing.assert_allclose(values, kernel(rows(4, 6)), rtol=1e-13, atol=1e-15)
    assert pullback(values).shape == (0,)


def test_categories_may_be_objects():
    X = np.array([["a", "x"], ["b", "x"], ["a", "y"]], dtype=object)
    free = FreeScales(Categorical(), 2)
    values, pullback = free.gram(np.log([0.5, 2.0]), X)
    np.testing.assert_allclose(values[0], [1.0, np.exp(-2.0), np.exp(-0.5)])
    only = np.zeros((3, 3))
    only[0, 1] = 1.0
    np.testing.assert_allclose(pullback(only), [2.0 * np.exp(-2.0), 0.0])
