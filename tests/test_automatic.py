"""selection="auto": what it chooses, what it keeps, and how near it comes to known truths."""

import sys

import numpy as np
import pytest
from scipy.stats import norm

import kcdo
from kcdo.components import Effort
from kcdo.fitting.families import FAMILIES
from kcdo.fitting.open_outputs import OpenOutputs
from kcdo.fitting.problem import discrete_floor
from kcdo.fitting.spec import ModelSpec
from kcdo.rows import Rows, sampled

PLAIN = kcdo.Combination(1.0, 0.0, 0.0, 0.0)


def wave(n=80, seed=2):
    """y = 2 sin x₀ + noise that doubles for x₀ > 0; x₁ does not matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, *truth(X, rng)


def truth(X, rng):
    mean, sd = 2 * np.sin(X[:, 0]), np.where(X[:, 0] > 0, 0.4, 0.2)
    return mean + sd * rng.standard_normal(len(X)), mean, sd


def auto(**options):
    return kcdo.ConditionalDensityOperator(**options)


@pytest.fixture(scope="module")
def fitted():
    X, Y, *_ = wave()
    return auto().fit(X, Y)


@pytest.fixture(scope="module")
def fresh():
    """Rows that no model has seen: X, Y, true means and sds."""
    return (X := wave(1000, seed=9)[0], *truth(X, np.random.default_rng(10)))


# --- near the truth


def test_densities_come_near_the_truth(fitted, fresh):
    X, Y, mean, sd = fresh
    dist = fitted.conditional(X)
    best = norm.logpdf(Y, mean, sd).mean()
    assert dist.logpdf_pairs(Y).mean() > best - 0.2
    assert np.abs(dist.mean() - mean).mean() < 0.1
    lower, upper = dist.interval(0.9).T
    assert np.mean((lower < Y) & (upper > Y)) == pytest.approx(0.9, abs=0.07)


def test_it_beats_the_heuristic_rule(fitted, fresh):
    X, Y, *_ = fresh
    heuristic = auto(selection="heuristic").fit(*wave()[:2])
    assert fitted.score(X, Y) > heuristic.score(X, Y) + 0.3


def test_the_scale_follows_the_noise(fitted):
    dist = fitted.conditional([[-1.0, 0.0], [1.0, 0.0]])
    assert dist.std()[1] > 1.3 * dist.std()[0]


def test_the_irrelevant_input_is_switched_off(fitted):
    importances = fitted.report_.importances
    assert list(importances) == ["0", "1"]
    assert importances["1"] < 0.05 < 0.1 < importances["0"] <= 1.0
    moved = fitted.predict([[0.5, -2.0], [0.5, 2.0]])
    assert moved[0] == pytest.approx(moved[1], abs=0.02)


def test_two_modes_stay_two():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 1))
    Y = rng.choice([-1.2, 1.2], 80) + X[:, 0] + 0.2 * rng.standard_normal(80)
    model = auto().fit(X, Y)
    dist = model.conditional([[0.0]])
    at = dist.pdf([-1.2, 0.0, 1.2])[0]
    assert at[1] < 0.2 * min(at[0], at[2])


def test_outputs_beyond_the_box_have_a_finite_log_density(fitted):
    far = fitted.conditional([[0.0, 0.0], [50.0, 50.0]]).logpdf([-1e6, -50.0, 50.0, 1e6])
    assert np.isfinite(far).all()
    assert np.all(far < -8.0)


def test_several_outputs(short_searches):
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (40, 1))
    noise = rng.standard_normal((40, 2)) @ [[0.3, 0.2], [0.0, 0.2]]
    model = auto(joint="grid").fit(X, np.hstack([np.sin(X), X]) + noise)
    dist = model.conditional([[-1.0], [1.0]])
    np.testing.assert_allclose(dist.mean(), [[-0.84, -1.0], [0.84, 1.0]], atol=0.35)
    assert np.isfinite(dist.logpdf([[0.0, 0.0], [1e4, -1e4]])).all()
    assert dist.marginal(1).cdf([99.0])[0, 0] == pytest.approx(1.0, abs=1e-3)
    assert set(model.report_.weights) == {"plain", "location_scale", "residual_tail", "normal"}


# --- what is reported, and that it is the same every time


def test_the_report_says_what_was_chosen(fitted):
    report = fitted.report_
    assert report.selection == "auto"
    assert sum(report.weights.values()) == pytest.approx(1.0)
    assert min(report.weights.values()) > 0.0
    assert np.isfinite(report.loss)
    family = type(report.kernel_x)
    assert family in {type(kernel) for kernel in FAMILIES}
    assert len(report.kernel_x.scale) == 4  # two columns, and their ranks
    assert "importances" in str(report)
    assert "residual_tail" in str(report)


def test_the_same_seed_gives_the_same_model(fitted):
    X, Y, *_ = wave()
    again = auto().fit(X, Y)
    y = np.linspace(-3, 3, 50)
    np.testing.assert_array_equal(again.conditional(X).pdf(y), fitted.conditional(X).pdf(y))
    assert again.report_.weights == fitted.report_.weights
    other = auto(random_state=5).fit(X, Y)  # other folds
    assert other.report_.weights != fitted.report_.weights
    np.testing.assert_allclose(other.predict(X), fitted.predict(X), atol=0.15)


def test_units_do_not_matter(fitted):
    X, Y, *_ = wave()
    scaled = auto().fit(X * [1e-3, 1e4] + [5.0, 0.0], 100.0 * Y + 7.0)
    queries = X[:5]
    moved = scaled.conditional(queries * [1e-3, 1e4] + [5.0, 0.0])
    np.testing.assert_allclose((moved.mean() - 7.0) / 100.0, fitted.predict(queries), atol=0.02)
    ratio = moved.std() / 100.0 / fitted.conditional(queries).std()
    np.testing.assert_allclose(ratio, 1.0, atol=0.1)


def test_rare_events_may_be_absent_from_the_rows_that_learn(give_effort):
    give_effort(race_rows=60, rows=80, last_rows=100)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = np.zeros(200)
    y[np.setdiff1d(np.arange(200), sampled(200, 100, seed=0))[:2]] = 1.0
    with pytest.warns(kcdo.DiscreteOutputWarning, match="2 distinct values"):
        model = auto().fit(X, y)
    assert np.all(np.isfinite(model.score_samples(X, y)))


def test_progress_is_told_when_asked(capsys, monkeypatch, short_searches):
    X, Y, *_ = wave(30)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    auto(verbose=True).fit(X, Y)
    told = capsys.readouterr().err
    for stage in ("conditional mean", "plain density", "location and scale", "weights"):
        assert f"{stage}: " in told
    auto().fit(X, Y)
    assert capsys.readouterr().err == ""


def test_auto_is_the_default_kernel(short_searches):
    X, Y, *_ = wave(30)
    named, default = auto(kernel_x="auto").fit(X, Y), auto().fit(X, Y)
    np.testing.assert_array_equal(named.predict(X), default.predict(X))
    with pytest.raises(kcdo.InvalidInputError, match=r"kernel_x must be a kernel or \"auto\"; got"):
        auto(kernel_x="gaussian").fit(X, Y)


# --- kernels that the user gives


def test_a_family_that_is_named_is_kept(short_searches):
    X, Y, *_ = wave(40)
    model = auto(kernel_x=kcdo.Laplace()).fit(X, Y)
    assert isinstance(model.report_.kernel_x, kcdo.Laplace)
    medians = auto(kernel_x=kcdo.Laplace(), selection="heuristic").fit(X, Y).report_.kernel_x.scale
    assert not np.allclose(model.report_.kernel_x.scale, medians, rtol=0.01)
    given = auto(kernel_x=kcdo.Gaussian(0.7)).fit(X, Y)
    assert given.report_.kernel_x == kcdo.Gaussian(0.7)


def test_periodic_and_categorical_columns_keep_their_kernels():
    rng = np.random.default_rng(1)
    hour, kind, idle = rng.uniform(0, 24, 80), rng.integers(0, 2, 80), rng.normal(size=80)
    Y = np.cos(2 * np.pi * hour / 24) + 1.5 * kind + 0.2 * rng.standard_normal(80)
    kernel = kcdo.Periodic(24.0).on([0]) * kcdo.Categorical().on([1]) * kcdo.Automatic().on([2])
    model = auto(kernel_x=kernel).fit(np.c_[hour, kind, idle], Y)
    periodic, categorical, rest = (part.kernel for part in model.report_.kernel_x.kernels)
    assert (periodic.period, type(categorical)) == (24.0, kcdo.Categorical)
    assert type(rest) in {type(family) for family in FAMILIES}
    assert periodic.scale[0] != 3.0  # period / 8, where the search starts
    midnight = model.predict([[0.01, 0, 0.0], [23.99, 0, 0.0], [0.01, 1, 0.0], [12.0, 0, 0.0]])
    np.testing.assert_allclose(midnight, [1.0, 1.0, 2.5, -1.0], atol=0.25)
    assert midnight[0] == pytest.approx(midnight[1], abs=0.02)
    report = model.report_.importances
    assert report["2"] < min(report["0"], report["1"])


def test_columns_of_a_frame_have_named_importances(short_searches):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"dose": rng.normal(size=40), "site": pd.Categorical(rng.choice(["a", "b"], 40))}
    )
    Y = frame["dose"] + 2.0 * (frame["site"] == "b") + 0.2 * rng.standard_normal(40)
    model = auto().fit(frame, Y)
    assert list(model.report_.importances) == ["dose", "site"]
    assert min(model.report_.importances.values()) > 0.0


def test_inputs_may_be_objects(short_searches):
    words = np.array(["a", "bb", "ccc"] * 10, dtype=object)
    Y = np.array([len(word) for word in words]) + 0.1 * np.random.default_rng(0).normal(size=30)
    model = auto(kernel_x=lambda a, b: (a[:, None] == b[None, :]).astype(float)).fit(words, Y)
    assert model.predict(np.array(["ccc"], dtype=object))[0] == pytest.approx(3.0, abs=0.4)
    assert list(model.report_.importances.values()) == [1.0]


# --- parameters that the user gives


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"alpha": 0.05}, "alpha", 0.05),
        ({"alpha": kcdo.PowerScheme(1.0, 0.5)}, "alpha", 40**-0.5),
        ({"alpha_prime": 0.2}, "alpha_prime", 0.2),
        ({"alpha_prime": kcdo.PowerScheme(2.0, 0.5)}, "alpha_prime", 2 * 40**-0.5),
    ],
)
def test_given_ridges_are_kept(options, name, value, short_searches):
    X, Y, *_ = wave(40)
    report = auto(**options, combination=PLAIN).fit(X, Y).report_
    assert getattr(report, name) == pytest.approx(value, rel=1e-9)


def test_a_given_output_kernel_is_kept(short_searches):
    X, Y, *_ = wave(40)
    report = auto(kernel_y=kcdo.Gaussian(0.35), combination=PLAIN).fit(X, Y).report_
    assert report.kernel_y == kcdo.Gaussian(0.35)
    assert report.n_nodes < 400
    laplace = auto(kernel_y=kcdo.Laplace(), combination=PLAIN).fit(X, Y).report_
    assert isinstance(laplace.kernel_y, kcdo.Laplace)


def test_given_filters(short_searches):
    X, Y, *_ = wave(40)
    for given in (kcdo.IteratedTikhonov(2), kcdo.PrintedForm()):
        model = auto(filter=given, combination=PLAIN).fit(X, Y)
        assert model.report_.filter == given
        assert np.isfinite(model.score(X, Y))
    with pytest.raises(kcdo.InvalidInputError, match="is not smooth in its ridge, which therefore"):
        auto(filter=kcdo.SpectralCutoff()).fit(X, Y)


@pytest.mark.parametrize("nodes", [20, None])
@pytest.mark.parametrize("kernel_y", [None, kcdo.Laplace()])
def test_a_given_box_is_kept_and_resolved(nodes, kernel_y, short_searches):
    """No warning: what the automatic fit chooses fits the grid it was given."""
    X, Y, *_ = wave(40)
    box = kcdo.UniformBox(-4.0, 4.0, nodes=nodes)
    model = auto(reference=box, kernel_y=kernel_y).fit(X, Y)
    assert model.report_.weights == {"plain": 1.0}
    assert model.report_.n_nodes == nodes or nodes is None
    spacing = 8.0 / model.report_.n_nodes
    assert np.min(model.report_.kernel_y.scale) >= spacing
    dist = model.conditional(X[:3])
    np.testing.assert_allclose(dist.cdf([-4.0, 4.0]), [[0.0, 1.0]] * 3, atol=1e-9)


def test_a_given_sample_as_reference(short_searches):
    X, Y, *_ = wave(40)
    points = kcdo.QuasiRandomBox(-4.0, 4.0, n_nodes=64)
    dist = auto(reference=points).fit(X, Y).conditional(X[:3])
    assert np.isfinite(dist.mean()).all()


def test_scales_are_learnt_on_few_points_of_a_box():
    """A step of a search costs the cube of their number; the model has all of them."""
    X, Y, *_ = wave(40)
    effort, reference = Effort(), kcdo.QuasiRandomBox(n_nodes=1024)
    spec = ModelSpec(reference=reference)
    for d, coarse, fine in ((1, 128, 256), (2, 256, 512), (5, 512, 1024)):
        rows = Rows(X, np.tile(Y[:, None], d), np.ones(40))
        outputs = OpenOutputs(spec, rows, np.zeros(d))
        for nodes, wanted in ((effort.coarse_nodes, coarse), (effort.fine_nodes, fine), ({}, 1024)):
            assert outputs.family(np.ones(d), nodes).measure.n_nodes == wanted


def test_signed_densities_are_plain(short_searches):
    X, Y, *_ = wave(40)
    model = auto(positivity="signed").fit(X, Y)
    assert model.report_.weights == {"plain": 1.0}
    values = model.conditional(X).pdf(np.linspace(-4, 4, 200))
    assert values.min() < 0.0


@pytest.mark.parametrize(
    ("combination", "weights"),
    [
        (PLAIN, {"plain": 1.0}),
        (kcdo.Combination(0.0, 1.0, 0.0, 0.0), {"location_scale": 1.0}),
        (kcdo.Combination(0.0, 0.0, 1.0, 0.0), {"residual_tail": 1.0}),
        (kcdo.Combination(0.5, 0.25, 0.25, 0.0), None),
    ],
)
def test_a_given_combination_is_kept(combination, weights, short_searches):
    X, Y, *_ = wave(30)
    model = auto(combination=combination).fit(X, Y)
    expected = weights or {k: v for k, v in combination.fixed.items() if v > 0}
    assert model.report_.weights == pytest.approx(expected)
    dist = model.conditional(X)
    assert np.corrcoef(dist.mean(), Y)[0, 1] > 0.5
    np.testing.assert_allclose(dist.cdf([-1e6, 1e6]), [[0.0, 1.0]] * 30, atol=1e-9)


def test_three_given_weights_leave_the_rest_to_the_fourth(short_searches):
    X, Y, *_ = wave(30)
    model = auto(combination=kcdo.Combination(0.3, 0.3, 0.2)).fit(X, Y)
    weights = {"plain": 0.3, "location_scale": 0.3, "residual_tail": 0.2, "marginal_tail": 0.2}
    assert model.report_.weights == pytest.approx(weights)


def test_an_output_that_hardly_varies(short_searches):
    X = wave(60)[0]
    with pytest.warns(kcdo.DiscreteOutputWarning):
        model = auto().fit(X, (np.arange(60) == 7).astype(float))
    assert np.isfinite(model.predict(X)).all()


def test_some_given_weights_leave_the_rest_to_the_data(short_searches):
    X, Y, *_ = wave(30)
    weights = auto(combination=kcdo.Combination(marginal_tail=0.3)).fit(X, Y).report_.weights
    assert weights["marginal_tail"] == 0.3
    assert sum(weights.values()) == pytest.approx(1.0)
    with pytest.raises(kcdo.InvalidTypeError, match=r"combination must be a Combination; got 0\.5"):
        auto(combination=0.5).fit(X, Y)


def test_uncertain_inputs_widen_every_component(fitted):
    mean = np.array([[0.3, 0.0]])
    point, cloud = fitted.conditional(mean), fitted.conditional(kcdo.GaussianInput(mean, 0.3))
    assert cloud.std()[0] > 1.5 * point.std()[0]
    draws = np.random.default_rng(0).normal(mean, np.sqrt(0.3), size=(1, 400, 2))
    sampled = fitted.conditional(kcdo.SampleInput(draws))
    assert sampled.mean()[0] == pytest.approx(cloud.mean()[0], abs=0.12)
    assert sampled.std()[0] == pytest.approx(cloud.std()[0], rel=0.1)


# --- discrete, few and constant outputs


def test_the_floor_of_discrete_outputs():
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=400)
    rounded = np.column_stack([smooth, np.round(smooth, 1), np.full(400, 3.0)])
    floor = discrete_floor(np.column_stack([smooth, np.round(smooth), np.full(400, 3.0)]))
    np.testing.assert_allclose(floor, [0.0, 1.0 / np.sqrt(12.0), 0.0])
    fine = discrete_floor(rounded)  # 60 values of 400 rows: a floor, no warning
    np.testing.assert_allclose(fine, [0.0, 0.1 / np.sqrt(12.0), 0.0])


def test_the_spike_of_a_discrete_output_is_bounded():
    X, Y, *_ = wave(160)
    counts = np.round(2 * Y)
    with pytest.warns(kcdo.DiscreteOutputWarning, match="has only .* Compare models by the CRPS"):
        model = auto().fit(X, counts)
    dist = model.conditional(X)
    places, probabilities = dist.atoms()
    np.testing.assert_array_equal(places, np.unique(counts))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=0.02)
    assert dist.pdf(np.linspace(-6, 6, 1201)).max() < 10.1  # gap 1: a mass of 1 within a tenth


@pytest.mark.parametrize("n", [2, 3])
def test_a_handful_of_rows_is_fitted_by_the_rule(n):
    X, Y, *_ = wave(n)
    model, rule = auto().fit(X, Y), auto(selection="heuristic").fit(X, Y)
    assert model.report_.weights == pytest.approx(
        {"plain": n / (n + 8), "marginal_tail": 8 / (n + 8)}
    )
    assert model.report_.alpha == rule.report_.alpha
    assert model.report_.loss is None
    dist = model.conditional(X)
    assert np.isfinite(dist.logpdf([0.0, 1e5])).all()
    share = n / (n + 8)
    np.testing.assert_allclose(
        dist.mean(), share * rule.predict(X) + (1 - share) * Y.mean(), atol=1e-6
    )


@pytest.mark.parametrize("n", [10, 19])
def test_some_more_rows_are_fitted_by_the_rule_and_a_line(n):
    X, Y, *_ = wave(n)
    model, rule = auto().fit(X, Y), auto(selection="heuristic").fit(X, Y)
    assert list(model.report_.weights) == ["plain", "linear"]
    assert sum(model.report_.weights.values()) == pytest.approx(1.0)
    assert min(model.report_.weights.values()) > 0.0
    assert model.report_.alpha == rule.report_.alpha
    assert model.report_.loss is None
    assert np.isfinite(model.conditional(X).logpdf([0.0, 1e5])).all()


def test_twenty_rows_are_enough(short_searches):
    X, Y, *_ = wave(20)
    model = auto().fit(X, Y)
    assert len(model.report_.weights) == 6
    assert np.isfinite(model.score(X, Y))


def test_constant_outputs():
    X = wave()[0]
    with pytest.warns(kcdo.DiscreteOutputWarning, match="output 0 is 4 in every row"):
        model = auto().fit(X, np.full(80, 4.0))
    np.testing.assert_allclose(model.predict(X[:3]), 4.0, atol=1e-3)
    assert model.conditional(X[:3]).std().max() < 0.1
    with pytest.warns(kcdo.DiscreteOutputWarning, match="output 0 is 4 in every row"):
        two = auto().fit(X, np.column_stack([np.full(80, 4.0), X[:, 0]]))
    np.testing.assert_allclose(two.predict(X[:3])[:, 0], 4.0, atol=0.01)


def test_constant_and_repeated_inputs(short_searches):
    X, Y, *_ = wave(40)
    same = auto().fit(np.ones((40, 2)), Y)
    assert same.predict([[1.0, 1.0]])[0] == pytest.approx(Y.mean(), abs=0.3)
    assert set(same.report_.importances.values()) == {0.0}
    groups = auto().fit(X.round(), Y)
    assert np.corrcoef(groups.predict(X), Y)[0, 1] > 0.6


def test_an_output_without_noise(short_searches):
    X = wave(40)[0]
    model = auto().fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), X[:, 0], atol=0.2)
    assert np.isfinite(model.score(X, X[:, 0]))


# --- weights of rows


def test_rows_of_weight_zero_are_absent(short_searches):
    X, Y, *_ = wave(45)
    weights = np.ones(45)
    weights[40:] = 0.0
    weighted, kept = auto().fit(X, Y, weights), auto().fit(X[:40], Y[:40])
    np.testing.assert_array_equal(weighted.predict(X), kept.predict(X))


def test_only_ratios_of_weights_matter(short_searches):
    X, Y, *_ = wave(40)
    weights = np.random.default_rng(4).integers(1, 4, 40)
    one, other = auto().fit(X, Y, weights), auto().fit(X, Y, 1e-3 * weights)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-3)
    assert one.report_.weights == pytest.approx(other.report_.weights, abs=1e-3)
    twice, once = auto().fit(X, Y, np.full(40, 2)), auto().fit(X, Y)
    np.testing.assert_allclose(twice.predict(X), once.predict(X), atol=1e-6)


def test_rows_that_count_several_times_do_not_foretell_themselves(fresh):
    """Counts as weights: neither spikes nor scales that memorise."""
    X, Y, *_ = wave()
    weights = np.random.default_rng(5).integers(1, 4, 80)
    model = auto().fit(X, Y, weights)
    assert model.report_.kernel_y.scale > 0.05
    assert model.score(fresh[0], fresh[1]) > norm.logpdf(fresh[1], fresh[2], fresh[3]).mean() - 0.3


def test_weights_move_the_answer(short_searches):
    X, Y, *_ = wave(60)
    mixed = np.where(np.arange(60) % 2, Y, Y + 4.0)
    light, heavy = (
        auto().fit(X, mixed, np.where(np.arange(60) % 2, 1.0, w)).predict(X).mean()
        for w in (0.1, 10.0)
    )
    assert heavy - light > 2.0


# --- models of other rows


def test_a_refit_to_the_same_rows_is_the_same_model(fitted):
    X, Y, *_ = wave()
    again = fitted.refit(X, Y)
    y = np.linspace(-3, 3, 20)
    np.testing.assert_allclose(
        again.conditional(X).pdf(y), fitted.conditional(X).pdf(y), rtol=1e-9, atol=1e-12
    )


def test_a_refit_chooses_nothing(fitted, fresh, monkeypatch):
    X, Y, *_ = wave()
    before = fitted.predict(X)
    for search in ("means", "races", "filter_search"):
        monkeypatch.setattr(f"kcdo.fitting.{search}.minimise", None)
    other = fitted.refit(X[:60], Y[:60])
    assert other.report_.n_samples == 60
    assert other.report_.kernel_x == fitted.report_.kernel_x
    assert other.score(fresh[0], fresh[1]) > fitted.score(fresh[0], fresh[1]) - 0.3
    np.testing.assert_array_equal(fitted.predict(X), before)  # the first model stays as it was


def test_a_refit_of_a_plain_rule():
    X, Y, *_ = wave(40)
    rule = auto(selection="heuristic").fit(X, Y)
    np.testing.assert_allclose(rule.refit(X, Y).predict(X), rule.predict(X), rtol=1e-9, atol=1e-12)


def test_a_refit_reports_the_method_and_the_sizes_of_its_own_rows(monkeypatch):
    X, Y, *_ = wave(40)
    rule = auto(selection="heuristic").fit(X, Y)
    assert (rule.report_.method, rule.report_.n_centres) == ("exact", 40)
    monkeypatch.setattr("kcdo.systems.choice._LARGEST_SMOOTH_EXACT", 30)
    monkeypatch.setattr("kcdo.systems.choice._LARGEST_AUTOMATIC_EXACT", 30)
    again = rule.refit(X, Y)
    assert again.report_.method == "nystrom"
    few = rule.refit(X[:20], Y[:20])
    assert (few.report_.method, few.report_.n_centres, few.report_.n_samples) == ("exact", 20, 20)


# --- solvers


@pytest.mark.parametrize(
    ("solver", "method"),
    [(kcdo.Nystrom(25), "nystrom"), (kcdo.Iterative(), "iterative"), (kcdo.Exact(), "exact")],
    ids=["nystrom", "iterative", "exact"],
)
def test_solvers_agree(solver, method, short_searches):
    X, Y, *_ = wave(50)
    exact = auto().fit(X, Y)
    model = auto(solver=solver).fit(X, Y)
    assert model.report_.method == method
    tolerance = 0.1 if method == "nystrom" else 1e-4
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=tolerance)


# --- streams


def test_a_stream_chooses_its_parameters(fresh):
    X, Y, *_ = wave(120)
    chunks = [(X[:70], Y[:70]), (X[70:], Y[70:])]
    options = dict(solver=kcdo.Nystrom(60))
    model = auto(**options).fit(chunks)
    rule = auto(**options, selection="heuristic").fit(chunks)
    assert (model.report_.method, model.report_.n_samples) == ("nystrom", 120)
    assert model.score(*fresh[:2]) > rule.score(*fresh[:2]) + 0.1
    assert model.report_.kernel_x.scale[1] > 5 * model.report_.kernel_x.scale[0]
    more = auto(**options).partial_fit(*chunks[0]).partial_fit(*chunks[1])
    assert more.report_.n_samples == 120
    assert more.score(*fresh[:2]) > rule.score(*fresh[:2])


def test_a_stream_keeps_what_is_given(short_searches):
    X, Y, *_ = wave(60)
    model = auto(solver=kcdo.Nystrom(30), alpha=0.02, alpha_prime=0.3).partial_fit(X, Y)
    assert model.report_.alpha == 0.02
    assert model.report_.alpha_prime == pytest.approx(0.3)
    few = auto(solver=kcdo.Nystrom(5)).partial_fit(X[:10], Y[:10])
    assert np.isfinite(few.predict(X)).all()
