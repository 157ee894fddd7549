"""A new kernel is one class: two that are defined here do all that those of the library do."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.fitting.families import families
from kcdo.kernels import (
    Automatic,
    Categorical,
    DensityKernel,
    FreeScales,
    Gaussian,
    Kernel,
    Laplace,
    Mapped,
    Matern,
    Nugget,
    Periodic,
    ScaledKernel,
    Warped,
    Wrapper,
    after_warps,
    expectation,
    has_metric,
    leaves,
    metric_coordinates,
    transformed,
    walk,
    warped,
    warped_columns,
    with_median_scales,
    without_warps,
)
from kcdo.systems import NearestRows
from tests.differences import assert_gradient


@dataclass(frozen=True)
class Power(Wrapper):
    """k(x, x')^power."""

    power: int

    def block(self, A, B):
        return self.kernel.block(A, B) ** self.power

    def diag(self, A):
        return self.kernel.diag(A) ** self.power

    def gram_of_parts(self, parts, A, B):
        ((values, pull),) = parts
        slope = self.power * values ** (self.power - 1)
        return values**self.power, lambda W: pull(W * slope)


@dataclass(frozen=True)
class OfRoots(Mapped):
    """k(T(x), T(x')) with the signed square root as T."""

    def inner_rows(self, X):
        return np.sign(X) * np.sqrt(np.abs(X))


def roots(X):
    return np.sign(X) * np.sqrt(np.abs(X))


def rows(n=30, p=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p)) * [1.0, 10.0, 0.1][:p]


TEMPLATES = {
    "alone": Power(Gaussian(), 3),
    "of a product": Power(Matern(smoothness=2.5).on([2, 0]) * Laplace().on(1), 2),
    "in a product": Power(Matern().on([0]), 2) * Periodic(5.0).on([1]),
    "in a sum": Power(Gaussian().on([0]), 2) + Power(Laplace(0.7).on([1]), 2),
    "on columns": Power(Gaussian(), 2).on([2, 0]),
    "with a nugget": Nugget(Power(Gaussian(), 2), 0.3),
    "of a nugget": Power(Nugget(Gaussian(), 0.3), 2),
    "of warped columns": Power(Warped(Laplace(), (1,), (0.0,), (2.0,)), 2),
    "mapped": OfRoots(Matern(smoothness=1.5)),
    "mapped columns": OfRoots(Power(Laplace().on(1), 2)).on([2, 0]) * Categorical().on([1]),
    "a density": DensityKernel(Gaussian().on([0, 2]) * Laplace().on([1]), 3),
    "a density, in part fixed": DensityKernel(Gaussian(0.4).on([0, 2]) * Laplace().on([1]), 3),
}
EACH = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


# --- walks


def test_every_kernel_inside_is_visited_with_its_columns_and_rows():
    X = rows()
    kernel = OfRoots(Power(Gaussian(1.0), 2).on([2, 0])).on([1, 2, 0]) * Laplace(1.0).on([2])
    found = list(walk(kernel, range(3), X))
    assert [type(part).__name__ for part, _, _ in found] == [
        *("Product", "OnColumns", "OfRoots", "OnColumns", "Power", "Gaussian"),
        *("OnColumns", "Laplace"),
    ]
    columns = [[0, 1, 2], [0, 1, 2], [1, 2, 0], [1, 2, 0], [0, 1], [0, 1], [0, 1, 2], [2]]
    assert [inside for _, inside, _ in found] == columns
    np.testing.assert_array_equal(found[2][2], X[:, [1, 2, 0]])
    np.testing.assert_array_equal(found[5][2], roots(X[:, [0, 1]]))
    np.testing.assert_array_equal(found[7][2], X[:, [2]])
    assert [(type(leaf), inside) for leaf, inside in leaves(kernel, range(3))] == [
        (Gaussian, [0, 1]),
        (Laplace, [2]),
    ]


@EACH
def test_a_kernel_rebuilt_of_its_children_is_the_same(template):
    assert template.rebuild(template.children) == template
    assert transformed(template, lambda part: None) == template


def test_parts_are_replaced_where_asked():
    kernel = Power(Gaussian(1.0).on([0]) * Laplace(2.0).on([1]), 2)
    found = transformed(kernel, lambda part: Matern(3.0) if isinstance(part, Laplace) else None)
    assert found == Power(Gaussian(1.0).on([0]) * Matern(3.0).on([1]), 2)
    seen = []
    transformed(
        kernel, lambda part, *X: seen.append((part, *[x.shape for x in X])), rows(), rows(4)
    )
    assert seen[-1] == (Laplace(2.0), (30, 1), (4, 1))


# --- scales


def test_median_scales_are_those_of_the_rows_that_the_inner_kernel_sees():
    X = rows()
    inner = with_median_scales(Laplace(), roots(X[:, [2, 0]]))
    template = Power(Laplace(), 2)
    assert not template.fitted
    assert with_median_scales(OfRoots(template).on([2, 0]), X) == OfRoots(Power(inner, 2)).on(
        [2, 0]
    )
    density = with_median_scales(DensityKernel(Gaussian(), 3), X)
    assert density == DensityKernel(with_median_scales(Gaussian(), X), 3)


@EACH
@pytest.mark.parametrize("square", [True, False])
def test_gradients_by_differences(template, square):
    rng = np.random.default_rng(3)
    A = rng.integers(-4, 5, size=(7, 3)) / 4.0  # some rows are equal
    B = None if square else rng.integers(-4, 5, size=(5, 3)) / 4.0
    W = rng.normal(size=(7, 7 if square else 5))
    free = FreeScales(template, 3)

    def objective(log_scales):
        values, pullback = free.gram(log_scales, A, B)
        return float(np.sum(W * values)), pullback(W)

    log_scales = rng.normal(scale=0.4, size=len(free))
    assert_gradient(objective, log_scales, rtol=1e-6)
    kernel = free.kernel(log_scales)
    np.testing.assert_allclose(free.log_scales_of(kernel), log_scales, rtol=1e-12)
    np.testing.assert_allclose(free.gram(log_scales, A, B)[0], kernel(A, B), rtol=1e-10)


def test_free_scales_know_their_columns():
    free = FreeScales(TEMPLATES["of a product"], 3)
    assert free.columns == (2, 0, 1)
    assert free.kernel(np.zeros(3)).kernel.kernels[1] == Laplace((1.0,)).on(1)


def test_what_a_kernel_leaves_out_is_asked_for():
    class Bare(Wrapper):
        def block(self, A, B):
            return self.kernel.block(A, B)

    class Flat(ScaledKernel):
        def block(self, A, B):
            return np.ones((len(A), len(B)))

    X = rows()
    with pytest.raises(
        NotImplementedError, match=r"Bare does not say how .*: define gram_of_parts"
    ):
        FreeScales(Bare(Gaussian()), 3).gram(np.zeros(3), X)
    _, pullback = FreeScales(Flat(), 3).gram(np.zeros(3), X)
    with pytest.raises(NotImplementedError, match=r"Flat does not say how .*: define column_slope"):
        pullback(np.ones((30, 30)))
    values, pullback = FreeScales(Bare(Gaussian(1.0)), 3).gram(np.zeros(0), X)  # nothing is open
    np.testing.assert_allclose(values, Gaussian(1.0)(X))
    assert len(pullback(values)) == 0


# --- families, long tails, uncertain inputs, neighbours


def test_families_and_warps_reach_inside():
    made = families(Power(Automatic().on([1]), 2) * Laplace().on([0]))
    assert [part.kernels[0].kernel.kernel for part in made][2] == Gaussian()
    assert len({repr(part) for part in made}) == 5
    assert families(Power(Automatic(1.0), 2)) == [Power(Automatic(1.0), 2)]
    X = np.c_[np.arange(50.0), np.exp(np.arange(50.0) / 5.0)]
    found = warped(Power(Automatic(), 2).on([1]), X)
    assert isinstance(found.kernel.kernel, Warped)
    assert warped(found, X) == found  # once is enough
    assert list(warped_columns(found, range(2))) == [1]


@pytest.mark.parametrize("mean", [[[0.3, 1.0, 0.0]], [[0.3, 1.0, 0.0], [1.0, -3.0, 0.1]]])
def test_uncertain_inputs_are_integrated(mean):
    X, inputs = rows(6), kcdo.GaussianInput(mean, [0.3, 4.0, 0.01], n_points=1 << 14)
    expected = expectation(Gaussian(2.0), X, inputs)  # whose error is 0
    found = expectation(Power(Gaussian(2.0 * np.sqrt(2.0)), 2), X, inputs)
    assert expected.error == 0.0 < found.error < 1e-3
    assert np.abs(found.values - expected.values).max() < 5 * found.error
    product = Power(Gaussian(2.0 * np.sqrt(2.0)), 2).on([0, 1]) * Laplace(1.0).on(2)
    expected = expectation(Gaussian(2.0).on([0, 1]) * Laplace(1.0).on(2), X, inputs)
    found = expectation(product, X, inputs)
    assert np.abs(found.values - expected.values).max() < 5 * found.error
    draws = np.random.default_rng(0).normal(size=(40_000, 3)) * np.sqrt(inputs.variances[0])
    plain = OfRoots(Gaussian(1.0))(draws + inputs.mean[0], X).mean(axis=0)
    mapped = expectation(OfRoots(Gaussian(1.0)), X, inputs)
    assert mapped.error > 0
    np.testing.assert_allclose(mapped.values[0], plain, atol=0.01)


def test_near_rows_are_near_to_the_inner_kernel():
    X, queries = rows(80, 2), rows(5, 2, seed=1)
    inner = Gaussian((0.5, 5.0))
    kernel = OfRoots(Power(inner, 2))
    assert has_metric(kernel, X)
    assert has_metric(Power(inner, 2), X)
    assert not has_metric(Power(kcdo.Adapter(lambda a, b: a @ b.T), 2), X)
    assert without_warps(Nugget(kernel, 0.2)) == Nugget(Power(inner, 2), 0.2)
    np.testing.assert_allclose(after_warps(kernel, X), roots(X))
    np.testing.assert_allclose(metric_coordinates(kernel, X), roots(X) / [0.5, 5.0])
    near = NearestRows(kernel, X, np.ones(80), neighbours=9).factor(1e-3)
    same = Gaussian((0.5 / np.sqrt(2.0), 5.0 / np.sqrt(2.0)))
    other = NearestRows(same, roots(X), np.ones(80), neighbours=9).factor(1e-3)
    np.testing.assert_allclose(
        near.section(queries).toarray(), other.section(roots(queries)).toarray(), rtol=1e-8
    )


# --- fits


def frame(n=90, seed=0):
    rng = np.random.default_rng(seed)
    x, kind = rng.uniform(-2.0, 2.0, n), rng.choice(["a", "b"], n)
    data = pd.DataFrame({"x": x, "kind": kind})
    return data, np.sin(x) + (kind == "b") + 0.1 * rng.normal(size=n)


def test_a_fit_is_that_of_the_same_kernel_by_another_name():
    X, y = frame()
    X["x"] **= 3
    options = {"selection": "heuristic"}
    kernel = Power(OfRoots(Gaussian(0.4).on("x")), 2) * Categorical(1.0).on("kind")
    model = kcdo.ConditionalDensityOperator(kernel_x=kernel, **options).fit(X, y)
    same = X.assign(x=roots(X["x"].to_numpy()))
    plain = Gaussian(0.4 / np.sqrt(2.0)).on("x") * Categorical(1.0).on("kind")
    other = kcdo.ConditionalDensityOperator(kernel_x=plain, **options).fit(same, y)
    np.testing.assert_allclose(model.predict(X), other.predict(same), rtol=1e-7)


def test_everything_is_chosen_around_it(short_searches):
    X, y = frame()
    kernel = Power(Automatic().on("x") * Categorical().on("kind"), 2)
    model = kcdo.ConditionalDensityOperator(kernel_x=kernel, selection="auto").fit(X, y)
    chosen = model.report_.kernel_x
    chosen = chosen.kernel if isinstance(chosen, Nugget) else chosen
    assert isinstance(chosen, Power)
    assert chosen.fitted
    (family, columns), (categories, kinds) = leaves(chosen, range(2))
    assert (columns, kinds) == ([0], [1])
    assert not isinstance(family, Automatic)
    assert isinstance(categories, Categorical)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.3


def test_it_is_a_kernel_like_any_other():
    X = rows()
    kernel: Kernel = Power(Gaussian(1.0).on([0]), 2)
    assert kernel.stationary
    assert kernel.thread_safe
    assert not OfRoots(kernel).stationary
    np.testing.assert_allclose((kernel * OfRoots(kernel))(X), kernel(X) * kernel(roots(X)))
    np.testing.assert_allclose(OfRoots(kernel).diag(X), 1.0)
