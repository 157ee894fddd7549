"""Folds that respect the data: whole groups left out, later rows foretold by earlier ones."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone

import kcdo
from kcdo.rows import Kin, Rows

NOISE = 0.4


def families(n_groups, members=6, seed=0):
    """Groups of near-duplicates: one noisy value of each, repeated."""
    rng = np.random.default_rng(seed)
    x, e = rng.uniform(-2, 2, n_groups), NOISE * rng.standard_normal(n_groups)
    groups = np.repeat(np.arange(n_groups), members)
    X = x[groups, None] + 1e-3 * rng.standard_normal((len(groups), 1))
    y = np.sin(x[groups]) + e[groups] + 0.01 * rng.standard_normal(len(groups))
    return X, y, groups


def coverage(model, seed=9):
    X, y, _ = families(400, members=1, seed=seed)
    low, high = model.conditional(X).interval(0.9).T
    return np.mean((low <= y) & (y <= high))


@pytest.mark.filterwarnings("ignore::kcdo.KcdoWarning")
def test_groups_of_near_duplicates_do_not_make_it_sure(short_searches):
    X, y, groups = families(50)
    told = kcdo.ConditionalDensityOperator().fit(X, y, groups=groups)
    assert 0.82 <= coverage(told) <= 0.97
    untold = kcdo.ConditionalDensityOperator().fit(X, y)
    assert coverage(untold) < 0.7
    again = told.refit(X, y)  # nothing is chosen
    np.testing.assert_allclose(again.predict(X[:3]), told.predict(X[:3]), rtol=1e-6)


def test_time_judges_later_rows_by_earlier_ones(short_searches):
    rng = np.random.default_rng(1)
    n = 160
    walk = np.cumsum(rng.standard_normal(n))  # which time tells nothing about beforehand
    X = np.arange(n)[:, None] / n
    plain = kcdo.ConditionalDensityOperator().fit(X, walk)
    told = kcdo.ConditionalDensityOperator().fit(X, walk, time=np.arange(n))
    inside = X[80:81] + 0.5 / n
    assert told.conditional(inside).std()[0] > 1.5 * plain.conditional(inside).std()[0]


def test_the_same_rows_in_another_order_are_the_same_fit(short_searches):
    X, y, groups = families(12, members=3)
    order = np.random.default_rng(0).permutation(len(X))
    names = np.array([f"g{group:02d}" for group in groups])
    one = kcdo.ConditionalDensityOperator().fit(X, y, groups=groups)
    other = kcdo.ConditionalDensityOperator().fit(X[order], y[order], groups=names[order])
    np.testing.assert_allclose(one.predict(X[:4]), other.predict(X[:4]), rtol=1e-9)


def test_folds_of_groups_keep_them_together():
    labels = np.random.default_rng(0).integers(0, 7, 60)
    folds = Kin(labels, ordered=False).folds(5, seed=0)
    assert len(folds) == 5
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(60))
    for train, test in folds:
        assert not set(labels[train]) & set(labels[test])
    assert len(Kin(labels % 2, ordered=False).folds(5, seed=0)) == 2


def test_folds_of_moments_look_back_only():
    moments = np.random.default_rng(0).integers(0, 30, 100)
    folds = Kin(moments, ordered=True).folds(5, seed=0)
    assert len(folds) == 5
    for train, test in folds:
        assert moments[train].max() < moments[test].min()


def test_rows_keep_their_kin():
    rows = Rows(np.arange(6.0)[::-1, None], np.ones((6, 1)), np.ones(6), Kin(np.arange(6), False))
    np.testing.assert_array_equal(rows.take(np.array([4, 1])).kin.labels, [4, 1])
    np.testing.assert_array_equal(rows.in_order().kin.labels, np.arange(6)[::-1])
    np.testing.assert_array_equal(rows.of_effective_weight().kin.labels, np.arange(6))
    twice = Rows(rows.X, rows.Y, rows.weights, Kin(np.arange(6) // 2, False))
    assert len(twice.one_of_each(0)) == 3
    assert sorted(len(test) for _, test in rows.folds(3, 0)) == [2, 2, 2]


def test_rows_of_no_weight_have_no_label(short_searches):
    X, y, groups = families(8, members=3)
    absent = groups == 0
    weights = np.where(absent, 0.0, 1.0)
    with_them = kcdo.ConditionalDensityOperator().fit(X, y, weights, groups=groups)
    without = kcdo.ConditionalDensityOperator().fit(X[~absent], y[~absent], groups=groups[~absent])
    np.testing.assert_allclose(with_them.predict(X[:2]), without.predict(X[:2]), rtol=1e-9)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"groups": [1, 2]}, "groups must have one label per row: 40 rows, 2 labels"),
        ({"time": np.arange(41)}, "time must have one label per row: 40 rows, 41 labels"),
        ({"groups": range(40), "time": range(40)}, "give groups or time, not both"),
        ({"groups": [np.nan] * 3 + [1.0] * 37}, "groups contains NaN in 3 of 40 rows"),
        ({"groups": [None, "a"] * 20}, "groups contains NaN in 20 of 40 rows"),
        ({"time": pd.to_datetime([None, "2020-01-01"] * 20)}, "time contains NaN in 20 of 40"),
        ({"groups": np.zeros((40, 2))}, r"groups must be one label per row, \(N,\)"),
        ({"groups": ["a"] * 40}, "groups must have at least two different values"),
        ({"time": [1.0] * 40}, "time must have at least two different values"),
    ],
)
def test_labels_that_are_no_labels(labels, message):
    x = np.linspace(0, 1, 40)
    with pytest.raises(ValueError, match=message):
        kcdo.ConditionalDensityOperator().fit(x[:, None], x, **labels)


def test_moments_can_be_sorted():
    x = np.linspace(0, 1, 40)
    moments = np.array(["a", 1] * 20, dtype=object)
    with pytest.raises(TypeError, match="time must be values that can be sorted"):
        kcdo.ConditionalDensityOperator().fit(x[:, None], x, time=moments)


def test_labels_are_for_choices_by_held_out_rows():
    x = np.linspace(0, 1, 40)
    with pytest.raises(ValueError, match='groups and time are for selection="auto"'):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(x[:, None], x, groups=range(40))
    with pytest.raises(ValueError, match='groups and time are for selection="auto"'):
        kcdo.ConditionalDensityOperator().fit([(x[:, None], x)], groups=range(40))


def test_metadata_can_be_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = kcdo.ConditionalDensityOperator().set_fit_request(groups=True, time=False)
        assert clone(model).get_metadata_routing().fit.requests["groups"] is True


def test_groups_of_a_skewed_output_are_foretold_through_normal_scores(short_searches):
    rng = np.random.default_rng(3)

    def rows(n_groups, members=5):
        x, e = rng.uniform(-2, 2, n_groups), 0.4 * rng.standard_normal(n_groups)
        groups = np.repeat(np.arange(n_groups), members)
        X = x[groups, None] + 0.2 * rng.standard_normal((len(groups), 1))
        return X, np.exp(X[:, 0] + e[groups] + 0.3 * rng.standard_normal(len(groups))), groups

    (X, y, groups), (new, outputs, _) = rows(50), rows(150)
    told = kcdo.ConditionalDensityOperator().fit(X, y, groups=groups)
    straight = kcdo.ConditionalDensityOperator(output_transform=None).fit(X, y, groups=groups)
    assert told.score(new, outputs) > straight.score(new, outputs) + 0.05
    levels = kcdo.metrics.pit_values(told.conditional(new), outputs)
    assert np.mean(np.abs(levels - 0.5) < 0.25) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(told.refit(X, y).predict(new[:3]), told.predict(new[:3]), rtol=1e-6)


@pytest.mark.parametrize("kind", ["groups", "time"])
def test_nearly_all_rows_of_one_label(short_searches, kind):
    """Whether a skewed output needs normal scores is not tried on rows of one group."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1))
    labels = np.ones(120, dtype=int)
    labels[0] = 0
    model = kcdo.ConditionalDensityOperator().fit(X, np.exp(rng.normal(size=120)), **{kind: labels})
    assert np.all(np.isfinite(model.predict(X[:3])))


def test_signed_densities_by_groups_have_no_loss(short_searches):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1)), rng.standard_cauchy(60)
    model = kcdo.ConditionalDensityOperator(positivity="signed", kernel_y=kcdo.Gaussian(0.1))
    assert model.fit(X, y, groups=np.arange(60) % 12).report_.loss is None
