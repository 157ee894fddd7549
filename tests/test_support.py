"""Declared bounds of the outputs, whichever way the rows arrive; and models of other rows."""

import numpy as np
import pytest

import kcdo
from kcdo.transforms import (
    Above,
    Below,
    Between,
    Columns,
    Identity,
    strictly_inside,
    transform_for,
)


def data(n=80):
    rng = np.random.default_rng(2)
    X = rng.uniform(0.0, 1.0, (n, 1))
    return X, np.maximum(X[:, 0] + 0.5 * rng.standard_normal(n), 0.0)  # some lie on the bound


def model(**options):
    options = {"selection": "heuristic", "support": (0.0, None)} | options
    return kcdo.ConditionalDensityOperator(**options)


def by_fit(X, Y):
    return model().fit(X, Y)


def by_automatic_fit(X, Y):
    return model(selection="auto").fit(X, Y)


def by_nystrom_fit(X, Y):
    return model(solver=kcdo.Nystrom(15)).fit(X, Y)


def by_chunks(X, Y):
    return model(solver=kcdo.Nystrom(15)).fit([(X[:40], Y[:40]), (X[40:], Y[40:])])


def by_partial_fit(X, Y):
    first = model(solver=kcdo.Nystrom(15)).partial_fit(X[:40], Y[:40])
    return first.partial_fit(X[40:], Y[40:])


def by_refit(X, Y):
    return by_fit(X[:40], Y[:40]).refit(X, Y)


WAYS = [by_fit, by_automatic_fit, by_nystrom_fit, by_chunks, by_partial_fit, by_refit]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_mass_lies_beyond_the_bounds(way):
    X, Y = data()
    fitted = way(X, Y)
    dist = fitted.conditional([[0.1], [0.9]])
    np.testing.assert_array_equal(dist.cdf([-1.0, -1e-9]), 0.0)
    assert (dist.sample(200, random_state=0) >= 0.0).all()
    assert dist.mean()[0] < dist.mean()[1]
    assert fitted.report_.n_samples == len(X)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_outputs_beyond_the_bounds_are_refused(way):
    X, Y = data()
    Y[50:52] = -0.1
    with pytest.raises(kcdo.InvalidInputError, match=r"2 values of output 0 .* support \[0, inf\]"):
        way(X, Y)


def test_rows_that_come_later_are_mapped_as_the_first():
    X, Y = data()
    whole = model(solver=kcdo.Nystrom(X[:15])).partial_fit(X, Y)
    again = whole.worker().partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    np.testing.assert_allclose(again.predict(X), whole.predict(X), rtol=1e-9)


def test_bounds_of_several_outputs():
    Y = np.array([[0.0, -3.0, 0.5], [2.0, 4.0, 1.0], [4.0, 0.0, 0.0]])
    transform = transform_for([(0.0, None), (None, None), (0.0, 1.0)], Y)
    assert [type(part) for part in transform.parts] == [Above, Identity, Between]
    inside = strictly_inside(transform, Y)
    assert transform.inside(inside).all()
    np.testing.assert_allclose(inside, Y, atol=1e-3)
    np.testing.assert_array_equal(inside[:, 1], Y[:, 1])
    assert np.isfinite(transform.forward(inside)).all()


def test_a_bound_needs_no_spread():
    transform = transform_for((None, 1.0), np.ones((3, 1)))
    inside = strictly_inside(transform, np.ones((3, 1)))
    assert transform.inside(inside).all()
    assert np.isfinite(transform.forward(inside)).all()
    with pytest.raises(kcdo.InvalidInputError, match=r"outside its support \[-inf, 1\]"):
        strictly_inside(Columns(transform.parts), np.full((1, 1), 1.5))


@pytest.mark.parametrize(
    ("part", "on", "moved"),
    [
        (Above(1.0, scale=0.2), 1.0, 1.0002),
        (Below(1.0, scale=0.2), 1.0, 0.9998),
        (Between(-1.0, 1.0), -1.0, -0.999),
        (Between(-1.0, 1.0), 1.0, 0.999),
    ],
    ids=repr,
)
def test_only_outputs_on_a_bound_are_moved(part, on, moved):
    transform = Columns((part,))
    near = on + np.array([1e-9, 1e-6, 0.5, 0.9]) * (moved - on)  # nearer than those that moved
    Y = np.append(near, on)[:, None]
    given = Y.copy()
    inside = strictly_inside(transform, Y)
    np.testing.assert_array_equal(inside[:-1, 0], near)
    assert inside[-1, 0] == pytest.approx(moved, abs=1e-15)
    assert transform.inside(inside).all()
    np.testing.assert_array_equal(Y, given)


def zeros(seed, n):
    """Return inputs and outputs of which three in ten are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return X, np.where(rng.random(n) < 0.3, 0.0, rng.gamma(2.0, 1.0, n))


def test_intervals_hold_zeros_on_a_bound():
    covered = []
    for seed in range(3):
        fitted = model(selection="auto").fit(*zeros(seed, 60))
        X, Y = zeros(seed + 100, 500)
        covered.append(kcdo.metrics.interval_coverage(fitted.conditional(X), Y, 0.9))
    assert 0.83 < np.mean(covered) < 0.97


@pytest.mark.parametrize("selection", ["auto", "heuristic"])
@pytest.mark.parametrize(
    ("support", "of"),
    [((0.0, None), np.array), ((None, 0.0), np.negative), ((0.0, 1.0), np.tanh)],
    ids=["above", "below", "between"],
)
def test_a_bound_with_outputs_on_it_has_a_probability(selection, support, of, short_searches):
    """Distribution function, quantiles, draws, moments and densities are of one distribution."""
    X, Y = zeros(0, 120)
    dist = model(selection=selection, support=support).fit(X, of(Y)).conditional(X[:2])
    levels = dist.cdf(of([-1e-9, 0.0, 1e-9]))
    levels = 1.0 - levels if support == (None, 0.0) else levels
    on_bound = np.abs(np.diff(levels[:, :2]))[:, 0] if support[0] == 0.0 else levels[:, 2]
    assert np.all((on_bound > 0.05) & (on_bound < 0.4))
    draws = dist.sample(4000, random_state=0)
    np.testing.assert_allclose(np.mean(draws == 0.0, axis=1), on_bound, atol=0.03)
    np.testing.assert_allclose(draws.mean(axis=1), dist.mean(), atol=0.15)
    np.testing.assert_allclose(dist.expect(lambda y: 1.0 * (y == 0.0)), on_bound, atol=1e-3)
    edge = 0.5 * on_bound.min()
    assert np.all(dist.quantile(1.0 - edge if support == (None, 0.0) else edge) == 0.0)
    edges = of(np.append([0.0], np.geomspace(1e-7, 20.0, 4000)))
    middle, width = 0.5 * (edges[1:] + edges[:-1]), np.abs(np.diff(edges))
    np.testing.assert_allclose(dist.pdf(middle) @ width + on_bound, 1.0, atol=0.02)


def test_an_atom_on_a_bound_is_told_there(short_searches):
    X, Y = zeros(1, 120)
    places, shares = model(selection="auto").fit(X, Y).conditional(X[:2]).atoms()
    assert places.tolist() == [0.0]
    np.testing.assert_allclose(shares, 0.3, atol=0.2)


def test_a_bound_without_outputs_on_it_has_no_probability():
    X, Y = data()
    dist = by_fit(X, np.maximum(Y, 1e-3)).conditional(X[:3])
    np.testing.assert_array_equal(dist.cdf([0.0]), 0.0)
    assert np.isfinite(dist.logpdf([0.0])).all()


def test_a_density_on_a_bound_without_margin_is_that_just_inside():
    X, Y = data()
    Y = np.maximum(Y, 1e-3)
    moved = strictly_inside(transform_for((0.0, None), Y[:, None]), np.zeros((1, 1)))[0, 0]
    logs = by_fit(X, Y).conditional(X[:5]).logpdf([0.0, moved, 0.5 * moved])
    np.testing.assert_array_equal(logs[:, 0], logs[:, 1])
    assert (logs[:, 2] != logs[:, 1]).all()


def test_a_model_of_other_rows_keeps_no_sums_of_the_first():
    X, Y = data()
    other = by_nystrom_fit(X[:40], Y[:40]).refit(X[40:], Y[40:])
    assert not hasattr(other, "sums_")
    twice = other.refit(X[:40], Y[:40])
    assert twice.report_.n_samples == 40
    with pytest.warns(kcdo.KcdoWarning, match="starts anew"):
        other.partial_fit(X, Y)
    assert other.report_.n_samples == 80


@pytest.mark.parametrize(
    ("support", "message"),
    [
        (5, r"support must be \(lower, upper\), or one such pair for each of 2 outputs; got 5"),
        ("ab", "one such pair for each of 2 outputs; got 'ab'"),
        ((0.0, 1.0, 2.0), "one such pair for each of 2 outputs"),
        ([(0.0, 1.0)], "one such pair for each of 2 outputs"),
        ([(0.0, 1.0), (0.0, 1.0, 2.0)], "one such pair for each of 2 outputs"),
        ((1.0, 0.0), "bounds must be finite, lower below upper; got 1.0 and 0.0"),
        ((np.nan, None), "a bound must be finite; got nan"),
    ],
)
def test_bounds_that_make_no_sense(support, message):
    with pytest.raises(kcdo.InvalidInputError, match=message):
        transform_for(support, np.array([[0.2, 0.4], [0.5, 0.6]]))


def test_bounds_in_every_form():
    Y = np.array([[0.2, 0.4], [0.5, 0.6]])
    both = Columns((Between(0.0, 1.0, 0.05, 0.125), Between(0.0, 1.0, 0.1, 0.1)))
    for support in ((0, 1), [0.0, 1.0], np.array([0, 1]), [(0, 1), (0, 1)], np.array([[0, 1]] * 2)):
        assert transform_for(support, Y) == both
    assert transform_for((-np.inf, np.inf), Y) == transform_for((None, None), Y)
    assert transform_for((0, np.inf), Y) == transform_for((0, None), Y)


@pytest.mark.parametrize("support", [(0.0, 1.0), (None, 1.0)])
def test_a_whole_distribution_lies_within_its_bounds(support):
    X, _ = data()
    Y = 1.0 / (1.0 + np.exp(2.0 - 4.0 * X[:, 0] - np.random.default_rng(0).normal(size=len(X))))
    dist = model(support=support).fit(X, Y).conditional([[0.1], [0.5], [0.9]])
    np.testing.assert_allclose(dist.cdf([1.0]), 1.0, atol=1e-12)
    np.testing.assert_array_equal(dist.pdf([-1e-9, 1.0 + 1e-9])[:, 1], 0.0)
    inside = np.linspace(support[0] if support[0] is not None else -2.0, 1.0, 20001)[1:-1]
    mass = dist.pdf(inside).sum(axis=1) * (inside[1] - inside[0])
    np.testing.assert_allclose(mass, 1.0, atol=0.02)
    assert np.all(dist.quantile(0.999) < 1.0)
    assert np.all(np.diff(dist.mean()) > 0.1)


@pytest.mark.parametrize(
    ("support", "outputs"),
    [((0.0, None), [0.0, 0.4]), ((None, 0.0), [0.0, -0.4]), ((0.0, 1.0), [0.0, 1.0])],
)
def test_outputs_on_a_bound_have_a_density(support, outputs):
    """They are scored where training moves its own: just inside."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    Y = np.clip(np.where(np.arange(40) % 4, np.abs(X[:, 0]) / 4, 0.0), 0.0, 1.0)
    Y[5:9] = 1.0
    Y = -Y if support == (None, 0.0) else Y
    model = kcdo.ConditionalDensityOperator(selection="heuristic", support=support).fit(X, Y)
    dist = model.conditional(X[:2])
    assert np.isfinite(dist.logpdf_pairs(outputs)).all()
    assert np.isfinite(dist.logpdf(outputs)).all()
    np.testing.assert_array_equal(dist.pdf([-3.0, 3.0])[:, 0 if support[0] == 0.0 else 1], 0.0)


def test_counts_tell_as_their_copies_how_near_a_bound_is_felt(rng):
    Y, counts = rng.gamma(2.0, size=(6, 1)), np.array([1.0, 3.0, 2.0, 2.0, 1.0, 5.0])
    found = transform_for((0.0, None), Y, counts).parts[0]
    copies = transform_for((0.0, None), np.repeat(Y, counts.astype(int), axis=0)).parts[0]
    assert found.scale == pytest.approx(copies.scale, rel=1e-12)
