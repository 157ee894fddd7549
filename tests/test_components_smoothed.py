"""Smoothed rows: distributions on nodes against the sum of bumps that they stand for."""

from dataclasses import replace

import numpy as np
import pytest

import kcdo
from kcdo.components import Effort, Regressor, Settings, SmoothedRows
from kcdo.fitting.smoothed import choose_smoothers, every_smoother
from kcdo.kernels import Matern
from kcdo.rows import Rows

KERNEL = Matern(1.0, smoothness=1.5)
SETTINGS = Settings(n_jobs=1, effort=replace(Effort(), alike_rows=60))


def located(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    rows = Rows(X, y[:, None], np.ones(n))
    return rows, SmoothedRows.located([Regressor(KERNEL, 0.1)], rows, SETTINGS)


def test_nodes_hold_the_mixture_of_all_smoothers():
    rows, component = located()
    smoothers = every_smoother()
    shares = np.random.default_rng(1).dirichlet(np.ones(len(smoothers)))
    every = np.arange(len(rows))
    expected = component.smoother_densities(smoothers, every) @ shares
    found = component.with_smoothers(smoothers, shares).held_out(every)["smoothed"]
    assert found.pdf_pairs(rows.Y) == pytest.approx(expected, rel=0.02, abs=2e-3 * expected.max())


def test_few_smoothers_are_kept_and_each_has_a_share():
    _, component = located()
    chosen = choose_smoothers(component, SETTINGS)
    assert 1 <= len(chosen.smoothers) < len(every_smoother())
    assert chosen.shares.min() > 0
    assert chosen.shares.sum() == pytest.approx(1.0)


def noisy(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, X[:, 0] ** 2 + 0.3 * rng.normal(size=n)


def test_densities_of_many_rows_are_on_centres_and_refits_are_the_fit(give_effort):
    give_effort(exact_density_rows=60, density_centres=30)
    X, y = noisy()
    model = kcdo.ConditionalDensityOperator().fit(X, y)
    assert (model.report_.method, model.report_.n_centres) == ("nystrom", 30)
    again = model.refit(X, y)
    assert again.conditional(X[:9]).quantile([0.1, 0.9]) == pytest.approx(
        model.conditional(X[:9]).quantile([0.1, 0.9]), abs=1e-6
    )


def test_a_solver_of_the_user_is_kept(give_effort):
    give_effort(exact_density_rows=60, density_centres=30)
    X, y = noisy()
    model = kcdo.ConditionalDensityOperator(solver=kcdo.Exact()).fit(X, y)
    assert (model.report_.method, model.report_.n_centres) == ("exact", 90)
