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
from tests.conftest import SHORT

STAGES = [
    "every search",
    "the refined metric",
    "normal scores",
    "the last word on the noise",
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


@pytest.mark.parametrize("looks", [0, 1, 4, 5, 6, 8])
def test_a_fit_stops_where_the_time_is_over(looks):
    fit, deadline = fitted_with(looks)
    assert deadline.left_out
    assert deadline.left_out[0] == STAGES[looks]
    assert set(deadline.left_out) <= set(STAGES[looks:])
    assert fit.model.primary.training is not None
    assert sum(fit.parameters.weights.values()) == pytest.approx(1.0)
    components = {part for part in fit.parameters.weights if part != "marginal_tail"}
    assert ("location_scale" in components) == (looks > 5)
    assert ("smoothed" in components) == (looks > 7)


def test_several_outputs_stop_too():
    y = sine_rows()[1]
    fit, deadline = fitted_with(1, np.column_stack([y, y**2]))
    assert deadline.left_out[0] == "a mixture of components"
    assert fit.model.dim == 2


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
