"""How several outputs are fitted: as a chain in some orders, or as one density on a grid."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.components import ChainModel, Mixture
from kcdo.errors import DiscreteOutputWarning, InvalidInputError
from kcdo.fitting import chain as chain_fits
from kcdo.fitting.chain import (
    _folds,
    _grid_wins,
    _order_shares,
    _tried_rows,
    _worth_keeping,
    candidates,
    link_kernel,
)
from kcdo.fitting.spec import ModelSpec
from kcdo.progress import SILENT
from kcdo.rows import Kin, Rows
from kcdo.systems import Exact
from tests.efforts import SHORT


def four_outputs(rng, n=28):
    X = rng.uniform(-1, 1, (n, 2))
    first = X[:, :1] + 0.3 * rng.standard_normal((n, 1))
    others = np.array([[1.0, -0.5, 0.8]]) * first + 0.1 * rng.standard_normal((n, 3))
    return X, np.hstack([first, others])


@pytest.fixture(scope="module")
def fitted():
    X, Y = four_outputs(np.random.default_rng(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kcdo.estimators.conditional.EFFORT", SHORT)
        return kcdo.ConditionalDensityOperator().fit(X, Y), X, Y


def test_four_outputs_are_a_chain(fitted, tmp_path):
    """Fit, ask, save, load, refit: the whole way of a model."""
    model, X, Y = fitted
    assert isinstance(model._operator, ChainModel)
    assert all(name.startswith("chain ") for name in model.report_.weights)
    assert sum(model.report_.weights.values()) == pytest.approx(1.0)
    assert model.report_.importances["0"] > model.report_.importances["1"]
    dist = model.conditional(X[:2])
    correlation = dist.cov()[0, 0, 1] / np.sqrt(dist.var()[0, 0] * dist.var()[0, 1])
    assert correlation > 0.7
    np.testing.assert_array_equal(model.predict(X[:2]), dist.mean())
    model.save(tmp_path / "chain.kcdo")
    same = kcdo.load(tmp_path / "chain.kcdo")
    np.testing.assert_array_equal(same.score_samples(X, Y), model.score_samples(X, Y))
    np.testing.assert_array_equal(
        same.conditional(X[:2]).sample(3, random_state=0), dist.sample(3, random_state=0)
    )
    again = model.refit(X, Y)
    np.testing.assert_allclose(again.score(X, Y), model.score(X, Y), rtol=1e-6)
    marginal = model.marginal()
    assert len(marginal) == 1
    np.testing.assert_allclose(marginal.mean()[0], Y.mean(axis=0), atol=0.3)


def test_uncertain_inputs_of_a_chain(fitted):
    """A sample of one point is that point; a Gaussian of no width is its mean."""
    model, X, Y = fitted
    at_points = model.conditional(X[:2]).logpdf_pairs(Y[:2])
    sample = kcdo.SampleInput(X[:2, None, :])
    np.testing.assert_allclose(model.conditional(sample).logpdf_pairs(Y[:2]), at_points)
    both = kcdo.SampleInput(X[None, :2], weights=[0.3, 0.7])
    exact = np.log(np.array([0.3, 0.7]) @ model.conditional(X[:2]).pdf(Y[:1])[:, 0])
    np.testing.assert_allclose(model.conditional(both).logpdf(Y[:1])[0, 0], exact)
    narrow = kcdo.GaussianInput(X[:1], 1e-12)
    np.testing.assert_allclose(
        model.conditional(narrow).logpdf_pairs(Y[:1]), at_points[:1], atol=1e-3
    )


def test_names_categories_and_bounds(short_searches, rng):
    """Frames with categories and outputs with bounds go through a chain as through one output."""
    X, Y = four_outputs(rng, 24)
    table = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "a", "b"))})
    outputs = pd.DataFrame(np.exp(Y[:, :2]), columns=["speed", "load"])
    model = kcdo.ConditionalDensityOperator(support=(0, None), joint="chain").fit(table, outputs)
    dist = model.conditional(table[:2])
    assert np.all(dist.sample(50, random_state=0) > 0)
    rest = dist.given({"speed": 1.0})
    assert rest.target_names == ("load",)
    assert 0.3 < rest.mean()[0] < 3.0
    assert list(dist.to_frame(["mean"]).columns) == ["speed_mean", "load_mean"]


def test_discrete_outputs_and_more_inputs_than_rows(short_searches, rng):
    X = rng.standard_normal((24, 30))
    counts = np.round(2 + X[:, :1] + rng.uniform(size=(24, 2)))
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(X, counts)
    assert np.all(np.isfinite(model.score_samples(X, counts)))
    assert model.conditional(X[:1]).sample(2, random_state=0).shape == (1, 2, 2)


def test_fourteen_counts(give_effort):
    """As many counts as in the set of river samples: draws are near whole numbers.

    One rare species that is nearly always absent, the others by a common cause.
    """
    give_effort(orders=1)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 5))
    cause = X[:, :1] + 0.5 * rng.standard_normal((40, 1))
    Y = np.clip(np.round(1.5 + cause + 0.5 * rng.standard_normal((40, 14))), 0, 5)
    Y[:, 13] = np.arange(40) % 20 == 0
    with pytest.warns(DiscreteOutputWarning, match="output 13 has only 2 distinct values"):
        model = kcdo.ConditionalDensityOperator().fit(X, Y)
    assert isinstance(model._operator, ChainModel)
    assert np.all(np.isfinite(model.score_samples(X, Y)))
    dist = model.conditional(X[:2])
    draws = dist.sample(64, random_state=0)
    assert draws.shape == (2, 64, 14)
    assert np.mean(np.abs(draws - np.round(draws)) < 0.1) > 0.8  # atoms have a width
    assert np.mean(np.abs(draws[:, :, 13]) < 0.5) > 0.8
    assert dist.summary(["mean", "q50"])["q50"].shape == (2, 14)


def test_ten_times_more_inputs_than_rows(short_searches):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((22, 220))
    first = X[:, :1] + 0.3 * rng.standard_normal((22, 1))
    Y = np.hstack([first, first + 0.1 * rng.standard_normal((22, 1))])
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(X, Y)
    new = rng.standard_normal((20, 220))
    assert np.all(np.isfinite(model.score_samples(X, Y)))
    assert np.all(np.isfinite(model.predict(new)))
    spread = np.sqrt(np.einsum("qdd->qd", model.conditional(new[:2]).cov()))
    assert np.all((spread > 0.05) & (spread < 5.0))


PARTS = {
    "points": lambda model, X: model.conditional(X[:2]),
    "gaussian": lambda model, X: model.conditional(
        kcdo.GaussianInput(X[:2], 0.1, n_points=8)
    ).with_draws(16),
    "sample": lambda model, X: model.conditional(kcdo.SampleInput([X[:3], X[3:5]])),
    "given": lambda model, X: model.conditional(X[:2]).given({0: 0.1}),
    "given others": lambda model, X: model.conditional(X[:2]).given({2: 0.1}),
    "marginal": lambda model, X: model.conditional(X[:2]).marginal([1, 3]),
}


@pytest.mark.parametrize("part", PARTS)
def test_everything_may_be_asked_of_a_chain(fitted, part):
    model, X, _ = fitted
    dist = PARTS[part](model, X)
    d = dist.n_outputs
    draws = dist.sample(5, random_state=0)
    assert draws.shape == (2, 5, d)
    logs = dist.logpdf_pairs(draws[:, 0])
    np.testing.assert_allclose(np.exp(logs), dist.pdf(draws[:, 0])[[0, 1], [0, 1]], rtol=1e-9)
    mean, sd = dist.mean(), dist.std()
    np.testing.assert_allclose(dist.cov()[:, range(d), range(d)], sd**2)
    assert np.all(dist.standard_error() < sd)
    assert np.all(np.abs(dist.expect(lambda y: y) - mean) < sd)
    low, high = dist.interval(0.8).transpose(1, 0, 2)
    assert np.all((low < dist.median()) & (dist.median() < high))
    assert np.all(np.diff([dist.cdf_pairs(low), dist.cdf_pairs(high)], axis=0) > 0)
    assert np.all((low < dist.marginal(0).quantile(0.5)[:, None]) | (np.arange(d) > 0))
    for region, centre in zip(dist.hpd(0.99), dist.median(), strict=True):
        assert region.contains(centre).shape == (1,)
    assert dist.mode().shape == (2, d)
    assert np.all(np.isfinite([dist.entropy(), dist.square_integral()]))
    assert set(dist[:1].summary(["mean", "q50", "mode"])) == {"mean", "q50", "mode"}
    assert dist[:1].marginal(range(min(d, 2))).plot() is not None


def test_links_of_a_chain_know_atoms_and_long_tails(short_searches, rng):
    """Each link is fitted as a single output is: a cap has a probability, also given the others."""
    X = rng.uniform(-1, 1, (90, 1))
    first = X[:, 0] + 0.2 * rng.standard_normal(90)
    capped = np.minimum(first + 0.3 * rng.standard_normal(90), 0.2)
    skewed = np.exp(2.0 * (first + 0.3 * rng.standard_normal(90)))
    model = kcdo.ConditionalDensityOperator(joint="chain")
    model.fit(X, np.column_stack([first, capped, skewed]))
    dist = model.conditional([[0.8], [-0.8]])
    (places, masses) = dist.marginal(1).atoms()
    np.testing.assert_allclose(places, [0.2])
    assert masses[0, 0] > 0.6 > 0.3 > masses[1, 0]
    given = dist.given({0: [1.0, -1.0]}).marginal(0)
    assert given.atoms()[1][0, 0] > given.atoms()[1][1, 0]
    assert np.all(dist.marginal(2).quantile(0.01) > -0.2)  # no tail to the side that has none
    assert dist.marginal(2).quantile(0.99)[0] > 3.0


def test_plots_of_a_chain_are_pairs_of_outputs(fitted):
    model, X, _ = fitted
    figure = kcdo.plot_pairs(model.conditional(X[:1]).marginal([1, 3]))
    labels = {(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes}
    assert len(labels) == 3
    assert all("density" in up or up.startswith("y") for _, up in labels)


def test_weights_of_rows_count(short_searches, rng):
    """Rows of weight 0 count as absent."""
    X, Y = four_outputs(rng, 28)
    weights = np.ones(28)
    weights[24:] = 0
    model = kcdo.ConditionalDensityOperator(joint="chain")
    with_all = model.fit(X, Y[:, :2], sample_weight=weights).predict(X[:3])
    np.testing.assert_allclose(with_all, model.fit(X[:24], Y[:24, :2]).predict(X[:3]))


@pytest.mark.parametrize("name", ["groups", "time"])
def test_rows_that_belong_together_stay_together(short_searches, rng, monkeypatch, name):
    """Links and trials know groups and times: no row is judged by its kin, or by later rows."""
    X, Y = four_outputs(rng, 30)
    labels = np.repeat(np.arange(10), 3)
    fitted = []
    inner = chain_fits.automatic_fit

    def noted(spec, rows):
        fitted.append(rows.kin)
        return inner(spec, rows)

    monkeypatch.setattr("kcdo.fitting.chain.automatic_fit", noted)
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(X, Y[:, :2], **{name: labels})
    assert all(kin is not None and kin.ordered == (name == "time") for kin in fitted)
    assert {kin.count for kin in fitted} > {10}  # trials learn from fewer groups, or moments
    assert np.all(np.isfinite(model.score_samples(X, Y[:, :2])))


def test_folds_of_trials():
    def folds(labels, ordered):
        n = len(labels)
        rows = Rows(np.zeros((n, 1)), np.zeros((n, 2)), np.ones(n), Kin(labels, ordered))
        return _folds(rows, 3, 0)

    labels = np.arange(40) % 8
    for learn, judge in folds(labels, ordered=False):
        assert not set(labels[learn]) & set(labels[judge])
    for learn, judge in folds(labels, ordered=True):
        assert labels[learn].max() < labels[judge].min()
    assert not folds(np.arange(40) % 2, ordered=False)  # what learns would be one group


def test_trials_see_two_groups_at_least():
    labels = np.zeros(200, dtype=int)
    labels[:2] = 1
    rows = Rows(np.zeros((200, 1)), np.zeros((200, 2)), np.ones(200), Kin(labels, False))
    assert len(_tried_rows(rows, 5, 0)) == 200


def test_one_density_where_the_output_side_is_given(short_searches, rng):
    X, Y = four_outputs(rng, 24)
    box = kcdo.UniformBox(-3.0, 3.0, nodes=20)
    model = kcdo.ConditionalDensityOperator(reference=box).fit(X, Y[:, :2])
    assert isinstance(model._operator, Mixture)
    model = kcdo.ConditionalDensityOperator(joint="grid").fit(X, Y[:, :2])
    assert isinstance(model._operator, Mixture)
    dist = model.conditional(X[:1])
    ratio = dist.logpdf([[0.1, 0.2]]) - dist.marginal(0).logpdf([0.1])
    np.testing.assert_allclose(dist.given({0: 0.1}).logpdf([0.2]), ratio, rtol=1e-6)


def test_two_outputs_by_held_out_rows(short_searches, rng, monkeypatch):
    """Whichever foretells the held-out rows better is fitted to all."""
    X, Y = four_outputs(rng, 24)
    found = {}
    for better in ("grid", "chain"):

        def folds(spec, rows, at_once=None, better=better):
            level = 1.0 if (rows.Y.shape[1] == 2) == (better == "grid") else 0.0
            yield np.arange(len(rows)), np.full(len(rows), level)

        monkeypatch.setattr("kcdo.fitting.chain._held_out_folds", folds)
        found[better] = kcdo.ConditionalDensityOperator().fit(X, Y[:, :2])._operator
    assert isinstance(found["grid"], Mixture)
    assert isinstance(found["chain"], ChainModel)


@pytest.mark.parametrize(
    ("level", "folds", "wins"), [(-1.0, 1, False), (-0.05, 3, False), (0.3, 3, True)]
)
def test_a_grid_that_is_far_behind_is_given_up(monkeypatch, rng, level, folds, wins):
    """One fold is enough if it leaves no doubt; else all of them decide by their mean."""
    asked = []

    def each_fold(spec, rows, at_once):
        for fold in range(3):
            asked.append(fold)
            places = np.arange(fold, len(rows), 3)
            yield places, level + 0.1 * rng.standard_normal(len(places))

    monkeypatch.setattr("kcdo.fitting.chain._held_out_folds", each_fold)
    rows = Rows(np.zeros((300, 1)), np.zeros((300, 2)), np.ones(300))
    chain = np.tile([3.0, -3.0], 150) if level == -0.05 else np.zeros(300)
    assert _grid_wins(ModelSpec(), rows, chain) == wins
    assert len(asked) == folds


def test_a_grid_is_not_given_up_for_a_handful_of_rows(monkeypatch):
    """The standard error of a few rows that happen to agree says nothing."""

    def few_at_once(spec, rows, at_once):
        for start in range(0, len(rows), at_once):
            places = np.arange(start, start + at_once)
            yield places, np.where(places < 16, -0.1, 0.2)

    monkeypatch.setattr("kcdo.fitting.chain._held_out_folds", few_at_once)
    rows = Rows(np.zeros((240, 1)), np.zeros((240, 2)), np.ones(240))
    assert _grid_wins(ModelSpec(), rows, np.zeros(240))


def test_rows_of_a_fold_come_some_at_once(short_searches, rng):
    """Log densities of held-out rows do not depend on how many are asked at once."""
    X, Y = four_outputs(rng, 24)
    spec, rows = ModelSpec(), Rows(X, Y[:, :1], np.ones(24))
    spec = replace(spec, settings=replace(spec.settings, effort=SHORT, solver=Exact()))
    found = np.empty((2, 24))
    for logs, at_once in zip(found, (None, 3), strict=True):
        for places, some in chain_fits._held_out_folds(spec, rows, at_once):
            assert at_once is None or len(places) <= at_once
            logs[places] = some
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_orders_share_links_of_the_same_outputs(short_searches, rng, monkeypatch):
    """Given, reversed and (1, 0, 2): the last output after both others is fitted once."""
    X, Y = four_outputs(rng, 24)
    asked = []

    def noted(spec, rows, at_once=None):
        asked.append((rows.X.shape[1] - 2, rows.Y[0, 0]))
        yield np.arange(len(rows)), rows.Y[:, 0]

    monkeypatch.setattr("kcdo.fitting.chain._held_out_folds", noted)
    rows, orders = Rows(X, Y[:, :3], np.ones(24)), list(candidates(3, 0))
    logs = chain_fits._held_out_logs(ModelSpec(), rows, orders, SILENT)
    assert len(asked) == 8
    assert asked.count((2, Y[0, 2])) == 1
    np.testing.assert_allclose(logs, np.tile(Y[:, :3].sum(axis=1), (3, 1)))


def test_orders_that_add_less_than_their_error_are_left_out(rng):
    weights = np.full(200, 1 / 200)
    good = rng.normal(size=200)
    worse = good - 3.0
    other = np.where(np.arange(200) % 2, good + 2.0, good - 2.1)  # knows what the first does not
    assert _worth_keeping([worse, good], weights) == [1]
    assert _worth_keeping([good, other, worse], weights) == [0, 1]
    shares = _order_shares(np.stack([good, worse], axis=1), weights, 200)
    assert shares[0] > 0.95
    np.testing.assert_allclose(_order_shares(np.stack([good, good], axis=1), weights, 200), 0.5)


def test_orders_that_are_tried():
    assert list(candidates(2, 0)) == [(0, 1), (1, 0)]
    for d, count in ((3, 3), (8, 3), (16, 2)):
        orders = list(candidates(d, 0))
        assert len(orders) == count
        assert all(sorted(order) == list(range(d)) for order in orders)


def test_kernels_of_links_see_the_outputs_before():
    automatic = kcdo.Automatic()
    assert link_kernel(automatic, 3, 2) == automatic
    mixed = kcdo.Automatic().on([0, 2]) * kcdo.Categorical().on([1])
    assert link_kernel(mixed, 3, 2).kernels[0].columns == (0, 2, 3, 4)
    own = link_kernel(kcdo.Gaussian(0.5), 3, 1)
    assert own.kernels[0].columns == (0, 1, 2)
    assert own.kernels[1].columns == (3,)


def test_unknown_forms_are_refused():
    with pytest.raises(InvalidInputError, match="joint must be one of"):
        kcdo.ConditionalDensityOperator(joint="copula").fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kernel_y": kcdo.Gaussian(0.3)}, "kernel_y=Gaussian"),
        ({"alpha_prime": 0.1}, "alpha_prime=0.1"),
        ({"positivity": "signed"}, "positivity='signed'"),
        ({"selection": "heuristic"}, "selection='heuristic'"),
    ],
)
def test_a_chain_refuses_what_is_for_one_density(options, named):
    X, Y = np.random.default_rng(0).standard_normal((2, 30, 2))
    model = kcdo.ConditionalDensityOperator(joint="chain", **options)
    with pytest.raises(kcdo.InvalidInputError, match=named):
        model.fit(X, Y)
    if "selection" in options:  # of one output there is nothing to chain
        model.fit(X, Y[:, 0])


def test_a_chain_of_too_few_rows_is_one_density_and_says_so():
    X, Y = np.random.default_rng(0).standard_normal((2, 12, 2))
    with pytest.warns(kcdo.KcdoWarning, match="needs 20 rows; of 12"):
        kcdo.ConditionalDensityOperator(joint="chain").fit(X, Y)
