"""Constructors refuse parts that do not fit one another, whoever calls them."""

from dataclasses import replace

import numpy as np
import pytest

import kcdo
from kcdo import components, fitting, measures, systems, transforms
from kcdo.components import OperatorParameters, RowValues, SolvedValues, Spread
from kcdo.distributions import ScatteredLayout
from kcdo.kernels import DensityKernel
from kcdo.reconstruction import Reconstruction
from kcdo.systems import Centres, ExactRows, ExactSystem, Groups, NearestRows, NystromSums
from kcdo.validation import InputEncoder
from tests.model_files import data

KERNEL = kcdo.Gaussian((1.0, 1.0))
X = np.random.default_rng(0).random((5, 2))
Y = X[:, :1]
ONES = np.ones(5)
GRID = measures.Grid(np.zeros(1), np.ones(1), (4,))
SIDE = Reconstruction(GRID, DensityKernel(kcdo.Gaussian(0.3), 1), 0.1)
WIDE = Reconstruction(
    measures.Grid(np.zeros(2), np.ones(2), (4, 4)), DensityKernel(kcdo.Gaussian(0.3), 2), 0.1
)
ROWS = ExactRows(KERNEL, Groups.of(X))
CENTRES = Centres(KERNEL, X, None)
OPERATOR = components.DensityOperator.solved(ROWS.factor(0.1), SIDE, Y, "project")
PLAIN = components.PlainDensity(OPERATOR)
TAIL = components.MarginalTail(np.zeros(1), np.ones(1))
SPREAD = Spread(CENTRES, ONES, 0.1, np.ones(1))
LINE = components.Regression(CENTRES, np.ones((5, 1)), np.zeros(1))
MAP = components.LocationScaleMap(LINE, SPREAD, None, np.ones(1), np.zeros(1))
CHOSEN = OperatorParameters(KERNEL, 0.1, SIDE)
OTHER_INPUTS = Centres(kcdo.Gaussian(1.0), np.ones((3, 3)), None)


def grid(shape, lower=0.0, upper=1.0):
    return measures.Grid(np.full(1, lower), np.full(1, upper), shape)


def groups(member_of, weights):
    return Groups(X[:2], np.array(member_of), np.array(weights))


def sums(**other):
    whole = {"cross": np.zeros((2, 2)), "targets": np.zeros((3, 2)), "ones": np.zeros(2)}
    return NystromSums(**{**whole, "target_totals": np.zeros(3), **other})


def plan(**other):
    whole = {"kernel": KERNEL, "centres": X, "output": SIDE, "bins": None, "chunk_rows": 10}
    return fitting.StreamPlan(**{**whole, "spec": fitting.ModelSpec(), **other})


WRONG = [
    # where, and what is wrong with it
    (lambda: grid((0,)), "a grid without nodes"),
    (lambda: grid((1 << 50,)), "a grid of too many nodes"),
    (lambda: grid((4,), upper=0.0), "a box without width"),
    (lambda: grid((4, 4)), r"shape \(1,\) where \(2,\) is needed"),
    (lambda: measures.Scattered(np.zeros((0, 1)), np.zeros(0)), "a measure without nodes"),
    (lambda: measures.Scattered(X, -ONES), "weights of nodes that are not positive"),
    (lambda: measures.Scattered(X, ONES[:3]), r"shape \(3,\) where \(5,\)"),
    (lambda: transforms.Columns(()), "a transform of no outputs"),
    (lambda: transforms.Columns((transforms.Columns((transforms.Identity(),)),)), "in transforms"),
    (lambda: DensityKernel(kcdo.Gaussian(1.0), 10**9), "the dimension of an output kernel"),
    (lambda: Reconstruction(GRID, DensityKernel(kcdo.Gaussian(0.3), 2), 0.1), "output kernel and"),
    (lambda: replace(SIDE, kernel=DensityKernel(kcdo.Gaussian((1.0, 2.0)), 1)), "2 scales"),
    (lambda: replace(SIDE, n_jobs=0), "n_jobs must not be 0"),
    (lambda: ScatteredLayout(X, np.zeros((5, 2))), "widths that are not positive"),
    (lambda: ScatteredLayout(X, np.ones((5, 1))), r"where \(5, 2\) is needed"),
    (lambda: InputEncoder(KERNEL, {0: {"a": 0, "b": 2}}), "codes of categories"),
    # the input side
    (lambda: Centres(KERNEL, np.zeros((0, 2)), None), "no centres"),
    (lambda: Centres(KERNEL, ONES, None), r"shape \(5,\) where \(None, None\)"),
    (lambda: Centres(KERNEL, np.ones((3, 3)), None), "2 scales but the data have 3 columns"),
    (lambda: Centres(KERNEL, X, 0), "n_jobs must not be 0"),
    (lambda: Centres(kcdo.Adapter(lambda A, B: A @ B.T + np.nan), X, None), "and its inputs"),
    (lambda: groups([0, 0], [1.0, 1.0]), "groups of equal inputs"),
    (lambda: groups([0, 1, 2], [1.0, 1.0, 1.0]), "groups of equal inputs"),
    (lambda: groups([0, -1], [1.0, 1.0]), "groups of equal inputs"),
    (lambda: groups([0, 1], [1.0, 0.0]), "weights that are not positive"),
    (lambda: groups([0, 1], [1.0]), r"shape \(1,\) where \(2,\)"),
    (lambda: groups([], []), "no rows"),
    (lambda: ROWS.factor(0.0), "alpha must be positive; got 0.0"),
    (lambda: ExactSystem(KERNEL, X, None, 0.1, Groups.of(X[:3])), r"shape \(3, 2\) where \(5, 2\)"),
    (lambda: NearestRows(KERNEL, X, -ONES), "weights that are not positive"),
    (lambda: NearestRows(KERNEL, X, ONES, 0), "the number of neighbours"),
    (lambda: NearestRows(kcdo.Adapter(np.dot), X, ONES), "a kernel without a metric"),
    (lambda: ExactSystem(KERNEL, X + 1, None, 0.1, Groups.of(X)), "groups of other inputs"),
    (lambda: NearestRows(kcdo.Periodic(1.0, 1.0), X + np.inf, ONES), "infinitely far apart"),
    (lambda: sums(cross=np.zeros((3, 3))), r"shape \(3, 3\) where \(2, 2\)"),
    (lambda: sums(weight=-1.0), "negative sums"),
    (lambda: sums(weight=np.inf), "sums without an end"),
    # components
    (lambda: replace(OPERATOR, marginal=np.ones(3)), r"shape \(3,\) where \(4,\)"),
    (lambda: replace(OPERATOR, output=WIDE), r"where \(16,\)"),
    (
        lambda: replace(OPERATOR, layout=ScatteredLayout(X, X + 1)),
        "layout and measure",
    ),
    (
        lambda: replace(OPERATOR, layout=ScatteredLayout(Y[:4], Y[:4] + 1)),
        "a layout of another kind of nodes",
    ),
    (
        lambda: replace(OPERATOR, values=RowValues(SIDE, Y)),
        "without their system",
    ),
    (lambda: components.MatrixValues(np.ones((5, 3)), np.ones((3, 4))), r"where \(2, None\)"),
    (lambda: SolvedValues(ROWS.factor(0.1), SIDE, X), r"where \(5, 1\) is needed"),
    (
        lambda: RowValues(SIDE, Y).check(ROWS.factor(0.1), WIDE),
        "two output sides",
    ),
    (lambda: replace(CHOSEN, alpha=np.inf), "ridges that are not positive"),
    (lambda: components.NearestDensity(OPERATOR), "near rows"),
    (lambda: components.LocationParameters(KERNEL, 0.0), "noise that is not positive"),
    (lambda: replace(LINE, coefficients=np.ones((5, 2))), r"where \(5, 1\)"),
    (lambda: replace(SPREAD, ridge=-ONES), "noise that is not positive"),
    (lambda: replace(SPREAD, signal=-np.ones(1)), "variances that are negative"),
    (lambda: replace(MAP, factor=-np.ones(1)), "scales that are negative"),
    (lambda: replace(MAP, factor=np.zeros(1)), "scales that are not positive"),
    (
        lambda: replace(MAP, log_noise=replace(LINE, centres=OTHER_INPUTS, coefficients=X[:3, :1])),
        "inputs of location and scale",
    ),
    (
        lambda: components.LocationScale(of_two_outputs(), OPERATOR),
        r"shape \(2,\) where \(1,\)",
    ),
    (lambda: components.MarginalTail(np.zeros(1), np.zeros(1)), "a tail without width"),
    (lambda: components.Mixture((), {}), "without its density operator"),
    (lambda: components.Mixture((TAIL,), {"marginal_tail": 1.0}), "without its density operator"),
    (lambda: components.Mixture((PLAIN,), {"plain": 0.5}), "weights that do not sum to 1"),
    (lambda: components.Mixture((PLAIN,), {"other": 1.0}), "weights of unknown components"),
    (lambda: components.Mixture((PLAIN,), {"normal": 1.0}), "a component that is missing"),
    (
        lambda: components.Mixture(
            (PLAIN, components.MarginalTail(np.zeros(2), np.ones(2))), {"plain": 1.0}
        ),
        "outputs of the components",
    ),
    (lambda: components.ModelParameters((), {}), "without those of the density operator"),
    (
        lambda: components.ModelParameters((CHOSEN, replace(CHOSEN, output=WIDE)), {"plain": 1.0}),
        "outputs of the components",
    ),
    (
        lambda: components.LocationScaleParameters(
            components.LocationParameters(KERNEL, 1.0), CHOSEN, -np.ones(1)
        ),
        "scales that are negative",
    ),
    (
        lambda: components.MeanOperator(ROWS.factor(0.1), X[:3], KERNEL),
        r"shape \(3, 2\) where \(5, None\)",
    ),
    # streams
    (lambda: plan(chunk_rows=0), "chunks without rows"),
    (lambda: plan(kernel=kcdo.Gaussian((1.0, 1.0, 1.0))), "3 scales"),
    (lambda: plan(judges=(X, X, ONES)), r"where \(5, 1\)"),
    (lambda: plan(bins=fitting.OutputBins(replace(SIDE, ridge=0.2), GRID)), "another output side"),
    (lambda: fitting.OutputBins(WIDE, GRID), "bins and reference measure"),
]


def of_two_outputs():
    """Return a location and scale of two outputs."""
    location = components.Regression(CENTRES, np.ones((5, 2)), np.zeros(2))
    spread = replace(SPREAD, signal=np.ones(2))
    return components.LocationScaleMap(location, spread, None, np.ones(2), np.zeros(2))


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_parts_that_do_not_fit_are_refused(make, message):
    with pytest.raises(kcdo.InvalidInputError, match=message):
        make()


def test_the_ridge_of_a_spread_gives_its_whitener():
    inverse = SPREAD.whitener @ SPREAD.whitener.T
    np.testing.assert_allclose(np.linalg.inv(inverse), KERNEL(X) + np.diag(ONES), atol=1e-9)


def test_a_system_factors_itself_when_asked():
    fitted = ROWS.factor(0.3)
    system = ExactSystem(KERNEL, fitted.centres, None, 0.3, fitted.groups)
    assert "_found" in vars(fitted)
    assert "_found" not in vars(system)
    np.testing.assert_array_equal(system.coefficients(X), fitted.coefficients(X))
    assert "_found" in vars(system)
    assert "_found" not in vars(system.unfactored())
    assert system.jitter == fitted.jitter == 0.0


def test_sums_without_their_empty_rows_are_the_same():
    whole = NystromSums.empty(3, 6)
    rng = np.random.default_rng(0)
    targets = rng.random((4, 6))
    targets[:, [1, 4]] = 0.0
    whole.add(rng.random((4, 3)), targets, np.ones(4))
    state = whole.to_state()
    assert state["targets"].shape == (4, 3)
    again = NystromSums.from_state(state)
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    again.add(rng.random((4, 3)), targets, np.ones(4))  # in arrays of its own
    assert whole.n_rows == 4
    assert whole.to_state()["ones"].sum() == state["ones"].sum()


def test_a_streamed_fit_checks_its_bins():
    X, Y = data()
    model = kcdo.ConditionalDensityOperator(selection="heuristic", solver=kcdo.Nystrom(10))
    plan = model.fit(X, Y)._plan
    assert plan.bins.output is plan.output
    scattered = Reconstruction(measures.Scattered(X[:, :1], np.ones(60)), plan.output.kernel, 0.1)
    with pytest.raises(kcdo.InvalidInputError, match="bins of scattered nodes"):
        replace(plan.bins, output=scattered)


def test_systems_of_all_kinds_need_a_ridge():
    near = NearestRows(KERNEL, X, ONES)
    whitened = systems.WhitenedSums.of_rows(KERNEL, X[:3], X, ONES)
    for rows in (near, whitened, ROWS):
        with pytest.raises(kcdo.InvalidInputError, match="alpha must be positive; got nan"):
            rows.factor(float("nan"))
