"""max_seconds: a fit that returns the best so far, and says what it left out."""

import warnings
from itertools import count

import numpy as np
import pytest

import kcdo
from kcdo.components import Settings
from kcdo.fitting import ModelSpec, automatic_fit
from kcdo.kernels import Automatic
from kcdo.progress import Deadline, Progress
from kcdo.rows import Rows
from tests.efforts import SHORT

STAGES = [
    "every search",
    "the refined metric",
    "normal scores",
    "the last word on the noise",
    "directions of features",
    "averages of kernels",
    "averages of regressions",
    "a mixture of components",
    "location and scale",
    "the search for a plain density",
    "smoothed rows",
    "folds",
    "gate",
]


def sine_rows(n=60):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, n)
    return x[:, None], np.sin(x) + 0.2 * rng.standard_normal(n)


def fitted_with(looks, Y=None):
    """Fit with a clock that allows so many looks at it, and return fit and deadline."""
    X, y = sine_rows()
    ticks = count()
    deadline = Deadline(looks + 1.0, clock=lambda: float(next(ticks)))
    spec = ModelSpec(
        Automatic(), settings=Settings(effort=SHORT), progress=Progress(deadline=deadline)
    )
    outputs = y[:, None] if Y is None else Y
    return automatic_fit(spec, Rows(X, outputs, np.ones(len(X)))), deadline


@pytest.mark.parametrize("looks", [0, 1, 4, 5, 6, 7, 8, 9, 11])
def test_a_fit_stops_where_the_time_is_over(looks):
    fit, deadline = fitted_with(looks)
    assert deadline.left_out
    assert deadline.left_out[0] == STAGES[looks]
    assert set(deadline.left_out) <= set(STAGES[looks:])
    assert fit.model.primary.training is not None
    assert sum(fit.parameters.weights.values()) == pytest.approx(1.0)
    components = {part for part in fit.parameters.weights if part != "marginal_tail"}
    assert ("location_scale" in components) == (looks > 8)
    assert ("smoothed" in components) == (looks > 10)


def test_several_outputs_stop_too():
    y = sine_rows()[1]
    fit, deadline = fitted_with(1, np.column_stack([y, y**2]))
    assert deadline.left_out[0] == "a mixture of components"
    assert fit.model.dim == 2


@pytest.mark.parametrize("d", [3, 5])
def test_chains_of_outputs_stop_too(short_searches, d):
    """Neither orders nor links are searched for once the time is over, and the fit says so."""
    X, y = sine_rows()
    Y = y[:, None] + 0.1 * np.random.default_rng(1).standard_normal((len(y), d))
    with pytest.warns(kcdo.KcdoWarning, match="without orders, every search, importances"):
        model = kcdo.ConditionalDensityOperator(max_seconds=1e-9).fit(X, Y)
    assert list(model.report_.weights) == ["chain " + "-".join(map(str, range(d)))]
    assert np.all(np.abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.5)


def test_a_grid_that_takes_too_long_is_not_judged(short_searches, monkeypatch):
    X, y = sine_rows(30)

    def slow(spec, rows, chain):
        spec.progress.deadline.left_out.append("a stage")
        return True

    monkeypatch.setattr("kcdo.fitting.chain._grid_wins", slow)
    with pytest.warns(kcdo.KcdoWarning, match="without grid"):
        model = kcdo.ConditionalDensityOperator(max_seconds=1e6).fit(X, np.stack([y, -y], axis=1))
    assert all(name.startswith("chain") for name in model.report_.weights)


def test_pieces_of_work_share_the_time():
    moments = iter([0.0, 4.0, 4.0, 8.0])
    deadline = Deadline(10.0, clock=lambda: next(moments))
    piece = deadline.share(0.5)
    assert piece.seconds == 3.0
    assert not piece.allows("a stage")
    assert (piece.left_out, deadline.left_out) == (["a stage"], [])
    assert Deadline().share(0.5).seconds is None


def test_with_time_enough_nothing_is_left_out():
    deadline = Deadline(1.0, clock=lambda: 0.0)
    assert deadline.allows("a stage")
    assert deadline.left_out == []
    assert Deadline().allows("a stage")


def test_the_estimator_says_so(short_searches):
    X, y = sine_rows()
    with pytest.warns(kcdo.KcdoWarning, match=r"max_seconds=1e-09 were over: .* without every se"):
        model = kcdo.ConditionalDensityOperator(max_seconds=1e-9).fit(X, y)
    assert model.report_.stopped == ("every search", "importances")
    assert "stopped        ('every search', 'importances')" in str(model.report_)
    assert np.abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule = kcdo.ConditionalDensityOperator(max_seconds=1e-9, selection="heuristic").fit(X, y)
    assert rule.report_.stopped == ()


def test_many_rows_take_the_rule_of_some(give_effort):
    give_effort(rows=40)
    X, y = sine_rows(200)
    with pytest.warns(kcdo.KcdoWarning, match="were over"):
        model = kcdo.ConditionalDensityOperator(max_seconds=1e-9, solver=kcdo.Nystrom(20)).fit(X, y)
    assert model.report_.method == "nystrom"
    assert np.abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.5


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_times_are_positive(seconds):
    with pytest.raises(ValueError, match="max_seconds must be positive"):
        kcdo.ConditionalDensityOperator(max_seconds=seconds).fit(*sine_rows())


def test_times_are_numbers():
    with pytest.raises(TypeError, match="max_seconds must be a positive number or None"):
        kcdo.ConditionalDensityOperator(max_seconds="1 s").fit(*sine_rows())


def test_fits_by_folds_heed_the_time():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    model = kcdo.ConditionalDensityOperator(max_seconds=0.05)
    with pytest.warns(kcdo.KcdoWarning, match="the search by folds"):
        model.fit(X, y, groups=np.arange(60) // 6)
    assert "the search by folds" in model.report_.stopped
    assert np.isfinite(model.conditional(X[:3]).mean()).all()


def test_chunks_and_partial_fit_refuse_a_time_limit():
    X, y = np.random.default_rng(0).uniform(size=(40, 1)), np.arange(40.0)
    model = kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(10), max_seconds=5.0)
    with pytest.raises(kcdo.InvalidInputError, match="partial_fit passes over all rows"):
        model.partial_fit(X, y)
    with pytest.raises(kcdo.InvalidInputError, match="a fit to chunks passes over all rows"):
        model.fit([(X, y)])
