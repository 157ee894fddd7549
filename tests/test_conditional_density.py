"""The conditional density operator as an estimator: closed-form cases and invariances."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone

import kcdo

SLOPE, NOISE = 0.8, 0.6
QUERIES = np.array([[-1.0], [0.0], [1.0]])


def gaussian_linear(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 1))
    return X, SLOPE * X[:, 0] + NOISE * rng.standard_normal(n)


def errors_on_gaussian_linear(n, seed):
    """Root mean squared errors of mean, sd and density at x = -1, 0, 1."""
    dist = (
        kcdo.ConditionalDensityOperator(selection="heuristic")
        .fit(*gaussian_linear(n, seed))
        .conditional(QUERIES)
    )
    grid = np.linspace(-3, 3, 121)
    truth = norm.pdf(grid, SLOPE * QUERIES, NOISE)
    parts = (dist.mean() - SLOPE * QUERIES[:, 0], dist.std() - NOISE, dist.pdf(grid) - truth)
    return [np.sqrt(np.mean(part**2)) for part in parts]


def test_heuristic_converges_on_a_gaussian_linear_model():
    small, middle, large = (
        np.mean([errors_on_gaussian_linear(n, seed) for seed in range(seeds)], axis=0)
        for n, seeds in ((250, 8), (1000, 4), (4000, 2))
    )
    assert np.all(middle < small)
    assert np.all(large < middle)
    assert np.all(large < [0.03, 0.04, 0.03])


@pytest.fixture(scope="module")
def waves():
    """Bimodal, heteroscedastic, with one irrelevant input."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (300, 2))
    branch = np.where(rng.random(300) < 0.5, -1.0, 1.0)
    return X, branch * np.abs(X[:, 0]) + (0.1 + 0.1 * np.abs(X[:, 0])) * rng.standard_normal(300)


@pytest.fixture(scope="module")
def fitted(waves):
    return kcdo.ConditionalDensityOperator(selection="heuristic").fit(*waves)


def test_the_dense_formula_literally(waves):
    """Estimator against the formulas of docs/theory.md written with explicit inverses."""
    X, Y = waves
    box = kcdo.UniformBox(-4.0, 4.0, nodes=120)
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Laplace(0.7),
        kernel_y=kcdo.Gaussian(0.3),
        reference=box,
        alpha=1e-3,
        alpha_prime=0.05,
        positivity="signed",
        selection="heuristic",
    ).fit(X, Y)
    query = np.array([[0.3, -0.2]])
    K = np.exp(-np.abs(X[:, None] - X[None]).sum(axis=2) / 0.7)
    k = np.exp(-np.abs(X - query).sum(axis=1) / 0.7)
    w = np.linalg.inv(K + len(X) * 1e-3 * np.eye(len(X))) @ k
    Z = np.linspace(-4, 4, 241)[1::2]
    cell = 8 / 120
    u = np.linalg.inv(cell * norm.pdf(Z[:, None], Z, 0.3) + 0.05 * np.eye(120)) @ (
        norm.pdf(Z[:, None], Y, 0.3) @ w
    )
    marginal = norm.pdf(Z[:, None], Y, 0.3).sum(axis=1)
    marginal /= marginal.sum() * cell
    expected = (w.sum() * u / (u.sum() * cell) + 1e-3 * marginal) / (w.sum() + 1e-3)
    np.testing.assert_allclose(model.conditional(query).pdf(Z)[0], expected, rtol=0, atol=1e-9)


def test_far_from_all_data_is_the_marginal(fitted, waves):
    dist = fitted.conditional([[1e6, 1e6], [100.0, -100.0]])
    grid = np.linspace(-3, 3, 50)
    marginal = kcdo.DensityReconstruction(kernel=fitted.report_.kernel_y, alpha_prime=1e6).fit(
        waves[1][:, None]
    )
    np.testing.assert_allclose(dist.pdf(grid)[0], marginal.pdf(grid[:, None]), atol=5e-3)
    np.testing.assert_allclose(dist.pdf(grid)[0], dist.pdf(grid)[1], rtol=1e-10, atol=1e-14)


def test_row_order_does_not_matter(fitted, waves):
    X, Y = waves
    order = np.random.default_rng(2).permutation(len(X))
    again = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[order], Y[order])
    grid = np.linspace(-3, 3, 40)
    np.testing.assert_allclose(
        again.conditional(X[:5]).pdf(grid), fitted.conditional(X[:5]).pdf(grid), atol=1e-9
    )


def test_row_order_does_not_matter_when_choices_use_a_subsample():
    X, Y = gaussian_linear(2500, 0)
    order = np.random.default_rng(2).permutation(len(X))
    first = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    second = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[order], Y[order])
    np.testing.assert_allclose(first.predict(QUERIES), second.predict(QUERIES), atol=1e-9)


def test_adding_a_query_changes_no_other_answer(fitted, waves):
    X, _ = waves
    grid = np.linspace(-3, 3, 30)
    alone, together = fitted.conditional(X[:3]), fitted.conditional(X[:50])
    np.testing.assert_allclose(together.pdf(grid)[:3], alone.pdf(grid), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        together.quantile([0.1, 0.9])[:3], alone.quantile([0.1, 0.9]), rtol=0, atol=1e-10
    )
    np.testing.assert_allclose(
        together.sample(10, random_state=0)[:3], alone.sample(10, random_state=0), atol=1e-9
    )


@settings(max_examples=15, deadline=None)
@given(
    factor=st.floats(1e-3, 1e3).flatmap(lambda a: st.sampled_from([a, -a])),
    shift=st.floats(-10.0, 10.0),
)
def test_an_affine_change_of_the_output_changes_the_density_accordingly(factor, shift):
    X, Y = gaussian_linear(60, 3)
    grid = np.linspace(-2, 2, 15)
    base = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y).conditional(QUERIES)
    moved = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        X, factor * Y + shift * abs(factor)
    )
    dist = moved.conditional(QUERIES)
    np.testing.assert_allclose(
        dist.pdf(factor * grid + shift * abs(factor)) * abs(factor), base.pdf(grid), atol=1e-6
    )
    np.testing.assert_allclose(
        dist.mean(), factor * base.mean() + shift * abs(factor), atol=1e-6 * abs(factor)
    )


@pytest.mark.parametrize("x_scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("y_scale", [1e-12, 1.0, 1e12])
def test_extreme_scales_work(x_scale, y_scale):
    X, Y = gaussian_linear(100, 4)
    base = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y).conditional(QUERIES)
    dist = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X * x_scale, Y * y_scale)
    dist = dist.conditional(QUERIES * x_scale)
    np.testing.assert_allclose(dist.std() / y_scale, base.std(), rtol=1e-6)
    np.testing.assert_allclose(
        dist.quantile([0.1, 0.9]) / y_scale, base.quantile([0.1, 0.9]), rtol=1e-6
    )


def test_constant_and_duplicated_columns_work():
    X, Y = gaussian_linear(100, 5)
    wide = np.column_stack([X, np.full(100, 7.0), X])
    dist = kcdo.ConditionalDensityOperator(selection="heuristic").fit(wide, Y).conditional(wide[:4])
    assert np.all(np.isfinite(dist.mean()))
    assert np.all(dist.std() > 0)


def test_a_constant_output_is_predicted_as_such():
    X, _ = gaussian_linear(30, 6)
    for value in (0.0, 5.0, -1e9):
        model = kcdo.ConditionalDensityOperator(selection="heuristic")
        with pytest.warns(kcdo.DiscreteOutputWarning, match="in every row"):
            dist = model.fit(X, np.full(30, value)).conditional(X[:2])
        np.testing.assert_allclose(dist.mean(), value, atol=1e-2 * max(abs(value), 1.0))
    joint = np.column_stack([X[:, 0], np.full(30, 3.0)])
    with pytest.warns(kcdo.DiscreteOutputWarning, match="output 1 is 3 in every row"):
        dist = model.fit(X, joint).conditional(X[:2])
    np.testing.assert_allclose(dist.mean()[:, 1], 3.0, atol=0.03)


def test_two_rows_are_enough():
    dist = (
        kcdo.ConditionalDensityOperator(selection="heuristic")
        .fit([[0.0], [1.0]], [0.0, 1.0])
        .conditional([[0.0]])
    )
    assert np.isfinite(dist.mean()[0])
    same = (
        kcdo.ConditionalDensityOperator(selection="heuristic")
        .fit([[0.0], [0.0]], [1.0, 1.0])
        .conditional([[0.0]])
    )
    assert same.mean()[0] == pytest.approx(1.0, abs=0.01)


def test_rows_of_weight_zero_count_as_absent(waves):
    X, Y = waves
    weights = np.ones(len(X))
    weights[::3] = 0.0
    Y_wild = np.where(weights > 0, Y, 1e6)
    weighted = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        X, Y_wild, sample_weight=weights
    )
    kept = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        X[weights > 0], Y[weights > 0]
    )
    np.testing.assert_array_equal(
        weighted.conditional(X[:5]).quantile(0.5), kept.conditional(X[:5]).quantile(0.5)
    )


def test_counts_equal_repeated_rows(waves):
    X, Y = waves
    counts = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        X, Y, sample_weight=counts
    )
    repeated = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        np.repeat(X, counts, 0), np.repeat(Y, counts)
    )
    np.testing.assert_allclose(
        weighted.conditional(X[:5]).mean(), repeated.conditional(X[:5]).mean(), atol=1e-9
    )


def test_only_ratios_of_other_weights_matter(waves):
    X, Y = waves
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    first = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y, sample_weight=weights)
    second = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        X, Y, sample_weight=1e-3 * weights
    )
    np.testing.assert_allclose(first.predict(X[:5]), second.predict(X[:5]), atol=1e-9)


def test_output_axes_follow_the_shape_of_the_outputs(waves):
    X, Y = waves
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    flat = model.fit(X, Y).conditional(X[:3])
    assert flat.mean().shape == (3,)
    assert flat.quantile([0.1, 0.5]).shape == (3, 2)
    assert flat.sample(4, random_state=0).shape == (3, 4)
    column = model.fit(X, Y[:, None]).conditional(X[:3])
    assert column.mean().shape == (3, 1)
    assert column.quantile(0.5).shape == (3, 1)
    pair = model.fit(X, np.column_stack([Y, X[:, 0]])).conditional(X[:3])
    assert pair.mean().shape == (3, 2)
    assert pair.cov().shape == (3, 2, 2)
    assert pair.quantile([0.1, 0.5, 0.9]).shape == (3, 3, 2)
    assert pair.interval(0.9).shape == (3, 2, 2)
    assert pair.sample(4, random_state=0).shape == (3, 4, 2)
    assert pair.expect(lambda y: y[:, 0] * y[:, 1]).shape == (3,)


@pytest.mark.parametrize(
    "model",
    [kcdo.ConditionalDensityOperator(selection="heuristic"), kcdo.ConditionalMeanOperator()],
    ids=lambda model: type(model).__name__,
)
def test_a_fitted_model_says_how_many_outputs_it_has_and_their_axes(model, waves):
    X, Y = waves
    for name in ("n_outputs", "flat", "categories"):
        assert not hasattr(model, name)  # as the other facts that a fit learns
    for y, n_outputs, flat in ((Y, 1, True), (Y[:, None], 1, False), (np.c_[Y, X[:, 0]], 2, False)):
        fitted = clone(model).fit(X, y)
        assert (fitted.n_outputs, fitted.flat, fitted.categories) == (n_outputs, flat, {})
        if hasattr(fitted, "conditional"):
            dist = fitted.conditional(X[:3])
            assert (dist.n_outputs, dist.flat) == (n_outputs, flat)
    frame = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(np.where(X[:, 0] > 0, "b", "a"))})
    assert {c: set(v) for c, v in clone(model).fit(frame, Y).categories.items()} == {1: {"a", "b"}}


def test_joint_outputs_know_their_dependence():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 1))
    shared = rng.standard_normal(800)
    Y = np.column_stack([shared, 0.9 * shared + 0.3 * rng.standard_normal(800)])
    cov = (
        kcdo.ConditionalDensityOperator(selection="heuristic")
        .fit(X, Y)
        .conditional([[0.0]])
        .cov()[0]
    )
    correlation = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])
    assert correlation == pytest.approx(0.9 / np.sqrt(0.9), abs=0.15)


def test_many_outputs_use_scattered_nodes():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 1))
    Y = X * np.arange(1, 6) + 0.3 * rng.standard_normal((300, 5))
    dist = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y).conditional([[0.5]])
    np.testing.assert_allclose(dist.mean()[0], 0.5 * np.arange(1, 6), atol=0.5)
    assert np.isfinite(dist.logpdf_pairs(0.5 * np.arange(1, 6)[None]))[0]


@pytest.mark.parametrize("positivity", ["project", "clip"])
@pytest.mark.parametrize(
    "reference",
    [None, kcdo.QuasiRandomBox(-5.0, 5.0, n_nodes=256), kcdo.UniformBox(-5.0, 5.0, nodes=80)],
)
@pytest.mark.parametrize(
    "kernel_y", [kcdo.Gaussian(0.4), kcdo.Laplace(0.4), kcdo.Matern(0.4, smoothness=2.5)]
)
def test_every_output_side_gives_a_density(waves, positivity, reference, kernel_y):
    X, Y = waves
    model = kcdo.ConditionalDensityOperator(
        kernel_y=kernel_y, reference=reference, positivity=positivity, selection="heuristic"
    ).fit(X, Y)
    grid = np.linspace(-8, 8, 4001)
    density = model.conditional(X[:3]).pdf(grid)
    assert density.min() >= 0
    np.testing.assert_allclose(np.trapezoid(density, grid), 1.0, atol=1e-3)


@pytest.mark.parametrize(
    "spectral", [kcdo.Tikhonov(), kcdo.IteratedTikhonov(2), kcdo.SpectralCutoff()]
)
def test_every_filter_recovers_a_gaussian(spectral):
    X, Y = gaussian_linear(600, 7)
    model = kcdo.ConditionalDensityOperator(
        filter=spectral, alpha_prime=0.05, selection="heuristic"
    ).fit(X, Y)
    dist = model.conditional([[0.0]])
    assert dist.std()[0] == pytest.approx(NOISE, abs=0.15)


def test_paper_selection_uses_medians_scheme_and_filter():
    X, Y = gaussian_linear(400, 8)
    report = kcdo.ConditionalDensityOperator(selection="paper").fit(X, Y).report_
    assert report.n_nodes == 400
    assert report.alpha == pytest.approx(400**-0.5)
    assert isinstance(report.filter, kcdo.PrintedForm)
    scale = float(np.median(np.abs(X - X.T)[np.triu_indices(400, 1)]))
    assert report.kernel_x.scale == pytest.approx(scale)
    extent = np.ptp(Y)
    nodes = np.linspace(0, extent, 400)
    apart = float(np.median(np.abs(nodes[:, None] - nodes)[np.triu_indices(400, 1)]))
    assert report.kernel_y.scale == pytest.approx(apart)
    ridge = 400**-0.5 * (extent / 399) / (np.sqrt(2 * np.pi) * apart)
    assert report.alpha_prime == pytest.approx(ridge)
    assert "alpha_prime" in str(report)


def test_schemes_set_the_ridges():
    X, Y = gaussian_linear(100, 9)
    model = kcdo.ConditionalDensityOperator(
        alpha=kcdo.CorrectedScheme(0.4, 0.4, 0.9),
        alpha_prime=kcdo.PowerScheme(1.0, 0.5),
        reference=kcdo.UniformBox(-5.0, 5.0, nodes=64),
        selection="heuristic",
    ).fit(X, Y)
    assert model.report_.alpha == pytest.approx(kcdo.CorrectedScheme(0.4, 0.4, 0.9)(100, 64))
    assert model.report_.alpha_prime == pytest.approx(0.1)
    default = kcdo.ConditionalDensityOperator(
        alpha=kcdo.PrintedScheme(), selection="heuristic"
    ).fit(X, Y)
    assert default.report_.alpha == pytest.approx(0.1)


def test_results_do_not_depend_on_the_number_of_threads(waves):
    X, Y = waves
    one = (
        kcdo.ConditionalDensityOperator(n_jobs=1, selection="heuristic")
        .fit(X, Y)
        .conditional(X)
        .mean()
    )
    two = (
        kcdo.ConditionalDensityOperator(n_jobs=2, selection="heuristic")
        .fit(X, Y)
        .conditional(X)
        .mean()
    )
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-10)


def test_what_happens_to_the_queries_later_changes_no_answer(fitted, waves):
    queries = waves[0][:3].copy()
    expected = fitted.conditional(queries).mean()
    dist = fitted.conditional(queries)
    queries[:] = 0.0
    np.testing.assert_array_equal(dist.mean(), expected)


def test_what_happens_to_the_rows_later_changes_no_model():
    """Also of densities that are made from the weights of rows, query by query."""
    rng = np.random.default_rng(0)
    data = rng.integers(-2, 3, (40, 1)) * 1.0, rng.normal(size=(40, 2)), rng.uniform(0.5, 2.0, 40)
    options = dict(
        kernel_y=kcdo.Gaussian(0.5),
        reference=kcdo.UniformBox(-4.0, 4.0, nodes=30),
        selection="heuristic",
    )
    expected = kcdo.ConditionalDensityOperator(**options).fit(*data)
    mine = [part.copy() for part in data]
    model = kcdo.ConditionalDensityOperator(**options).fit(*mine)
    for part in mine:
        part[:20] = 100.0
    np.testing.assert_array_equal(model.predict(QUERIES), expected.predict(QUERIES))


@pytest.mark.parametrize("selection", ["heuristic", "auto"])
def test_a_box_nowhere_near_the_outputs_is_an_error(waves, selection):
    model = kcdo.ConditionalDensityOperator(
        kernel_y=kcdo.Gaussian(0.1),
        reference=kcdo.UniformBox(1e5, 1.001e5, nodes=1000),
        selection=selection,
    )
    X, Y = waves
    with pytest.warns(kcdo.SupportWarning), pytest.raises(ValueError, match="move or widen"):
        model.fit(X[:30], Y[:30])


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_y": kcdo.Gaussian((1.0, 1.0, 1.0))},
        {"kernel_y": kcdo.Gaussian(1.0).on([1])},
        {"reference": kcdo.UniformBox((0.0, 0.0), (1.0, 1.0))},
        {"reference": kcdo.UniformBox(lower=1e9)},
        {"reference": kcdo.Sample(np.zeros((5, 2)) + np.arange(5)[:, None])},
    ],
)
@pytest.mark.parametrize("selection", ["heuristic", "auto"])
def test_output_options_that_do_not_fit_fail_before_any_work(
    monkeypatch, waves, options, selection
):
    monkeypatch.setattr("kcdo.fitting.rules.ExactRows", None)  # would fail otherwise
    monkeypatch.setattr("kcdo.fitting.automatic.mean_choices", None)
    with pytest.raises(ValueError):  # noqa: PT011 - each message has its own test
        kcdo.ConditionalDensityOperator(selection=selection, **options).fit(*waves)


def test_distributions_and_their_marginals_pickle(waves):
    X, Y = waves
    Y = np.column_stack([Y, X[:, 1] + Y])
    for reference in (None, kcdo.QuasiRandomBox((-5.0, -8.0), (5.0, 8.0), n_nodes=64)):
        model = kcdo.ConditionalDensityOperator(
            kernel_y=kcdo.Gaussian(1.0), reference=reference, selection="heuristic"
        )
        dist = model.fit(X, Y).conditional(X[:2]).marginal(1)
        again = pickle.loads(pickle.dumps(dist))
        np.testing.assert_array_equal(again.quantile(0.3), dist.quantile(0.3))


def test_no_queries_and_no_points(fitted, waves):
    dist = fitted.conditional(waves[0][:3])
    with pytest.raises(ValueError, match="no query is selected"):
        dist[3:]
    assert dist.cdf([]).shape == (3, 0)
    assert dist.pdf([]).shape == (3, 0)


def test_expectations_and_moments_agree_in_three_dimensions(waves):
    X, Y = waves
    outputs = np.column_stack([Y, X + 0.1 * np.sin(9 * Y)[:, None]])
    box = kcdo.UniformBox((-5.0, -4.0, -4.0), (5.0, 4.0, 4.0), nodes=16)
    model = kcdo.ConditionalDensityOperator(
        kernel_y=kcdo.Gaussian(0.8), reference=box, selection="heuristic"
    )
    dist = model.fit(X, outputs).conditional(X[:2])
    second = dist.expect(lambda y: y**2)
    np.testing.assert_allclose(second - dist.mean() ** 2, dist.var(), rtol=1e-9)
    product = dist.expect(lambda y: y[:, 0] * y[:, 2])
    cov = product - dist.mean()[:, 0] * dist.mean()[:, 2]
    np.testing.assert_allclose(cov, dist.cov()[:, 0, 2], atol=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc for the peak memory")
def test_a_grid_of_64_cubed_nodes_within_two_gib():
    """N = 2,500 exact: weights are applied query by query, never an (N, M) matrix."""
    code = """
import numpy as np, kcdo
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (2500, 2))
Y = np.column_stack([X, X[:, :1] * X[:, 1:]]) + 0.2 * rng.standard_normal((2500, 3))
box = kcdo.UniformBox((-2.0,) * 3, (2.0,) * 3, nodes=64)
model = kcdo.ConditionalDensityOperator(
    kernel_x=kcdo.Gaussian(0.5), kernel_y=kcdo.Gaussian(0.25), reference=box, alpha=1e-4,
    selection="heuristic",
).fit(X, Y)
mean = model.conditional([[0.5, -0.5], [0.0, 0.0]]).mean()
assert np.abs(mean - [[0.5, -0.5, -0.25], [0.0, 0.0, 0.0]]).max() < 0.15, mean
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2 << 30


@pytest.mark.parametrize("selection", ["heuristic", "auto"])
@pytest.mark.parametrize("support", [None, (0.0, None)])
def test_the_marginal_is_that_of_the_training_outputs(selection, support):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 1))
    y = np.exp(X[:, 0] + 0.3 * rng.standard_normal(60))
    model = kcdo.ConditionalDensityOperator(selection=selection, support=support)
    marginal = model.fit(X, pd.Series(y, name="speed")).marginal()
    assert len(marginal) == 1
    assert list(marginal.to_frame(["mean"])) == ["mean"]
    levels = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(marginal.quantile(levels)[0], np.quantile(y, levels), atol=0.3)
    # no smoother than the outputs: as good a prediction of them as they are themselves
    own = 0.5 * np.abs(y[:, None] - y).mean()
    repeated = marginal[np.zeros(60, dtype=int)]
    assert own <= repeated.crps(y).mean() < 1.02 * own


def test_the_marginal_of_joint_outputs():
    X, Y = kcdo.make_donut(6, random_state=0)
    marginal = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y).marginal()
    np.testing.assert_allclose(marginal.mean()[0], Y.mean(axis=0), atol=0.1)
