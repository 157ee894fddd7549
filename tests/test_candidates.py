"""Near rows of judged rows among all chunks: against all distances, and what they teach."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import kcdo
from kcdo.components import Effort, Settings
from kcdo.fitting import NearRowJudges, Neighbourhood, Pilot
from kcdo.fitting.candidates import first_judges, first_metric, last_judges, last_metrics
from kcdo.fitting.metric import Metric
from kcdo.kernels import Warped, as_kernel, metric_coordinates

EFFORT = Effort(local_judged=(60, 60), local_neighbours=(16, 16), metric_steps=(12, 12))
SETTINGS = Settings(n_jobs=1, effort=EFFORT)


def labelled(n=6000, seed=0):
    """Rows whose first input is one of 60 labels, each with an output of its own."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 60, n)
    X = np.column_stack([label / 17.0, rng.normal(size=n)])
    values = np.random.default_rng(9).normal(size=60)
    return X, (values[label] + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n))[:, None]


def pilot_of(X, Y, n=1500, seed=1):
    rows = np.random.default_rng(seed).permutation(len(X))[:n]
    weights = np.linspace(0.5, 1.5, len(X))
    return Pilot(X[rows], Y[rows], weights[rows], Y.min(axis=0), Y.max(axis=0), len(X)), weights


def found(judges, X, Y, weights, edges):
    total = None
    for i, j in pairwise(edges):
        part = judges.nearest((X[i:j], Y[i:j], weights[i:j]))
        total = part if total is None else judges.merged(total, part)
    return total


@pytest.mark.parametrize(
    "kernel",
    [kcdo.Gaussian((0.5, 2.0)), Warped(kcdo.Laplace((1.0, 0.3)), (1,), (0.5,), (0.2,))],
)
def test_near_rows_are_the_nearest_of_all(kernel, rng):
    X, Y = rng.normal(size=(5000, 2)), rng.normal(size=(5000, 1))
    pilot, weights = pilot_of(X, Y)
    judges = NearRowJudges.of((kernel,), pilot, 7, 20)
    near = found(judges, X, Y, weights, [0, 1700, 1701, 5000])
    ours, theirs = (metric_coordinates(kernel, rows) for rows in (pilot.X[:7], X))
    for judge in range(7):
        squared = np.sum((theirs - ours[judge]) ** 2, axis=1)
        squared[np.all(pilot.X[judge] == X, axis=1)] = np.inf
        expected = np.argsort(squared)[:20]
        mine = near.group == judge
        np.testing.assert_allclose(near.squared[mine], squared[expected], rtol=1e-9)
        np.testing.assert_array_equal(near.X[mine], X[expected])
        np.testing.assert_array_equal(near.Y[mine], Y[expected])
        np.testing.assert_array_equal(near.weights[mine], weights[expected])


def test_other_chunks_find_the_same_rows_to_the_bit():
    X, Y = labelled()  # with many ties
    pilot, weights = pilot_of(X, Y)
    judges = NearRowJudges.of((kcdo.Gaussian((0.5, 2.0)), kcdo.Gaussian((1e6, 2.0))), pilot, 9, 20)
    one = found(judges, X, Y, weights, [0, 6000])
    two = found(judges, X, Y, weights, [0, 10, 3000, 6000])
    for name, values in vars(one).items():
        np.testing.assert_array_equal(getattr(two, name), values)


def test_a_table_has_every_row_once():
    X, Y = labelled(400)
    pilot, weights = pilot_of(X, Y, 400)
    judges = NearRowJudges.of((kcdo.Gaussian((0.5, 2.0)),), pilot, 50, 30)
    near = found(judges, X, Y, weights, [0, 400])
    hood = Neighbourhood.of(judges, near, pilot)
    np.testing.assert_array_equal(hood.rows.X[:50], pilot.X[:50])
    table = np.column_stack([hood.rows.X, hood.rows.Y])
    assert len(np.unique(table, axis=0)) == len(table)
    for judge in (0, 49):
        places = hood.lists[judge][hood.lists[judge] >= 0]
        assert judge not in places
        mine = near.X[near.group == judge]
        assert {tuple(row) for row in hood.rows.X[places]} == {tuple(row) for row in mine}


def learnt(metric, X, Y, settings=SETTINGS, n=1500):
    pilot, weights = pilot_of(X, Y, n)
    judges = first_judges(metric, pilot, settings)
    near = found(judges, X, Y, weights, [0, len(X)])
    first = first_metric(metric, Neighbourhood.of(judges, near, pilot), pilot, settings)
    judges = last_judges(first, pilot, settings)
    near = found(judges, X, Y, weights, [0, len(X)])
    hood = Neighbourhood.of(judges, near, pilot)
    families = [metric.template, kcdo.Laplace()]
    return first, last_metrics(first, hood, pilot, settings, families)


def test_an_input_that_acts_as_a_label_is_found():
    X, Y = labelled()
    blind = Metric(kcdo.Gaussian(), kcdo.Gaussian((30.0, 3.0)), 0.9, np.nan)
    first, last = learnt(blind, X, Y)
    assert first.kernel.scale[0] < 0.15  # labels are 1/17 apart
    assert last
    for metric in last:
        assert metric.kernel.scale[0] < 0.5
        assert metric.kernel.scale[1] > 0.5
        assert metric.noise < 0.5


def test_scales_that_serve_stay_as_they_are(rng):
    X = rng.uniform(-2, 2, (4000, 1))
    Y = np.sin(2 * X) + 0.2 * rng.standard_normal((4000, 1))
    good = Metric(kcdo.Gaussian(), kcdo.Gaussian((1.0,)), 0.05, np.nan)
    first, last = learnt(good, X, Y)
    assert first is good
    assert any(metric is good for metric in last)


def test_what_teaches_nothing():
    X, Y = labelled(3000)
    pilot, _ = pilot_of(X, Y, 1000)
    metric = Metric(kcdo.Gaussian(), kcdo.Gaussian((1.0, 1.0)), 0.1, np.nan)
    twins = replace(pilot, X=np.round(pilot.X[:, :1]))
    assert first_judges(metric, twins, SETTINGS) is None  # inputs come back as a rule
    no_metric = as_kernel(lambda A, B: A @ B.T)
    assert first_judges(Metric(no_metric, no_metric, 0.1, np.nan), pilot, SETTINGS) is None
    few = NearRowJudges.of((metric.kernel,), pilot, 5, 30)
    hood = Neighbourhood.of(few, few.nearest((X, Y, np.ones(3000))), pilot)
    assert first_metric(metric, hood, pilot, SETTINGS) is metric  # a handful of judges
    assert last_metrics(metric, hood, pilot, SETTINGS, [metric.template]) == [metric]
