"""The race for the scales of a density, and the search for its filter: they lower the loss."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from kcdo.components import Effort
from kcdo.fitting.filter_search import FilterSearch
from kcdo.fitting.filters import OutputFamily, scale_per_length
from kcdo.fitting.left_out import exact_smoother, fixed_smoother
from kcdo.fitting.losses import LogScore
from kcdo.fitting.objectives import HeldOutLoss
from kcdo.fitting.races import (
    DensityChoice,
    DensitySearch,
    Fixed,
    Start,
    length_bounds,
    ridge_above,
    share_beside,
    shortest_length,
)
from kcdo.fitting.search import GOOD_ENOUGH
from kcdo.kernels import FreeScales, Gaussian, Matern
from kcdo.linalg import Tikhonov
from kcdo.measures import UniformBox
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups, NearestRows
from tests.output_sides import measures, outputs


def waves(n=80, seed=0):
    """A smooth function of the first of two inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return Rows(X, np.sin(X[:, :1]) + 0.1 * rng.normal(size=(n, 1)), np.ones(n))


@settings(max_examples=50)
@given(st.floats(1e-3, 10.0), st.floats(0.0, 3.0), st.floats(-4.6, 4.6))
def test_no_output_kernel_is_narrower_than_its_floor(floor, longer, log_ridge):
    log_length = np.log(shortest_length(floor)) + longer
    lowered = ridge_above(floor, log_length, log_ridge)
    assert lowered <= log_ridge
    scale = np.exp(log_length) * scale_per_length(np.exp(lowered))
    assert scale >= floor * (1 - 1e-9)
    if np.exp(log_length) * scale_per_length(np.exp(log_ridge)) > floor * (1 + 1e-9):
        assert lowered == log_ridge


@pytest.fixture(scope="module")
def tuned():
    """A density search, what it was started with, and the objective it makes small."""
    rows = waves(50)
    measure = UniformBox(nodes=40).realise(rows.Y)
    family = OutputFamily(measure, Gaussian(), np.array([0.3]), Tikhonov())
    start = (Gaussian(), Gaussian((2.0, 2.0)))
    guess = (1e-2, np.log(0.8))

    def search(starts=(start,), least=1e-3, **options):
        begun = [Start(*pair, family, np.array([least])) for pair in starts]
        search = DensitySearch(rows, LogScore(), Effort(race_steps=12), "row", **options)
        return search.best(begun, *guess)

    def loss_of(choice):
        free = FreeScales(choice.start.template, 2)
        groups = Groups.of(rows.X)
        objective = HeldOutLoss(
            lambda ls, a: exact_smoother(free, ls, a, groups, "row"),
            family,
            rows.Y,
            rows.weights,
            LogScore(),
        )
        tail = [np.log(choice.alpha), *choice.log_lengths, choice.log_ridge]
        return objective(np.append(free.log_scales_of(choice.kernel), tail))[0]

    return rows, family, search, loss_of


def test_beside_a_rival_that_says_it_all_the_search_ends(tuned):
    rows, _, search, _ = tuned
    starts = [(Gaussian(), Gaussian((2.0, 2.0))), (Gaussian(), Gaussian((1.0, 1.0)))]
    assert not search(starts).dispensable
    assert not search(starts, rival=np.full(len(rows), 1e-3)).dispensable
    early = search(starts, rival=np.full(len(rows), 50.0))
    assert early.dispensable
    assert early.loss > search(starts).loss  # fewer steps


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_beside_a_rival_is_that_of_the_likeliest_mixture(share):
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=4000) < share, rng.normal(size=4000), rng.normal(4.0, 1.0, 4000))
    own, rival = norm.pdf(y), norm.pdf(y, 4.0)
    assert share_beside(own, rival, np.ones(4000)) == pytest.approx(share, abs=0.03)
    assert share_beside(own, rival, (y > 2).astype(float)) < 0.1


def test_a_density_search_lowers_the_held_out_loss(tuned):
    *_, search, loss_of = tuned
    found = search()
    first = replace(
        found,
        kernel=Gaussian((2.0, 2.0)),
        alpha=1e-2,
        log_lengths=np.array([np.log(0.8)]),
        log_ridge=np.log(0.3),
    )
    assert loss_of(found) < loss_of(first) - 0.1
    assert found.loss == pytest.approx(loss_of(found), abs=0.1)  # a weak prior is added
    assert found.kernel.scale[1] > 3 * found.kernel.scale[0]


def test_several_starts_are_no_worse_than_one(tuned):
    *_, search, _ = tuned
    rough = (Matern(smoothness=0.5), Matern((2.0, 20.0), smoothness=0.5))
    both = search(starts=((Gaussian(), Gaussian((2.0, 2.0))), rough))
    assert both.loss < search().loss + GOOD_ENOUGH
    assert both.start.template in (Gaussian(), Matern(smoothness=0.5))


def test_a_density_search_keeps_what_is_given(tuned):
    *_, search, _ = tuned
    found = search(fixed=Fixed(alpha=0.02, ridge=0.25))
    assert (found.alpha, np.exp(found.log_ridge)) == pytest.approx((0.02, 0.25), rel=1e-12)
    wide = search(least=1.5)
    assert np.exp(wide.log_lengths[0]) >= 1.5 * (1 - 1e-12)


def test_the_filter_is_tuned_to_given_weights(tuned):
    rows, family, search, _ = tuned
    choice = search()
    judged = np.arange(0, 50, 3)
    system = ExactRows(choice.kernel, Groups.of(rows.X)).factor(choice.alpha)
    weights = system.held_out_weights(judged)
    blurred = replace(choice, log_lengths=choice.log_lengths + 2.0, log_ridge=0.0, loss=np.inf)
    found = FilterSearch(rows, judged, family, LogScore()).best(blurred, weights)
    assert (found.kernel, found.alpha) == (choice.kernel, choice.alpha)
    smoother = fixed_smoother(weights)
    objective = HeldOutLoss(
        lambda ls, a: smoother, family, rows.Y, np.ones(len(judged)), LogScore(), rows.Y[judged]
    )
    at = objective(np.array([0.0, *found.log_lengths, found.log_ridge]))[0]
    assert found.loss == pytest.approx(at, abs=2e-3)  # outputs are shared among the nodes
    assert at < objective(np.array([0.0, *blurred.log_lengths, blurred.log_ridge]))[0] - 0.1
    fixed = FilterSearch(rows, judged, family, LogScore(), Fixed(ridge=2.0)).best(blurred, weights)
    assert np.exp(fixed.log_ridge) == pytest.approx(2.0)


@pytest.mark.parametrize("where", ["scattered", "sample", "line"])
def test_sparse_weights_tune_the_filter_as_dense_ones_do(where):
    """Of near rows, on any reference measure: rows without weight do not count."""
    measure = measures()[where]
    d = measure.dim
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(40, 2)), outputs(d, 40, 1), np.ones(40))
    judged = np.arange(0, 40, 3)
    near = NearestRows(Gaussian(1.0), rows.X, rows.weights, neighbours=6).factor(1e-2)
    weights = near.held_out_weights(judged)
    family = OutputFamily(measure, Gaussian(), np.full(d, 0.5), Tikhonov())
    start = Start(Gaussian(), Gaussian(1.0), family, np.full(d, 1e-3))
    lengths = np.zeros(family.n_lengths)
    choice = DensityChoice(start, Gaussian(1.0), 1e-2, lengths, 0.0, np.inf)
    sparse, dense = (
        FilterSearch(rows, judged, family, LogScore()).best(choice, w)
        for w in (weights, weights.toarray())
    )
    assert sparse.loss == pytest.approx(dense.loss, rel=1e-6)
    np.testing.assert_allclose(sparse.log_lengths, dense.log_lengths, atol=1e-4)
    assert len(length_bounds(family, np.full(d, 1e-3))) == family.n_lengths
