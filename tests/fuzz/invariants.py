"""What must hold of every fit, whatever the data: functions that raise AssertionError if not."""

import pickle
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kstest

import kcdo
from tests.fuzz.problems import Problem

_OWN_UNITS = ("Gaussian(0.7)", "Periodic", "Warped")  # kernels with given scales
_ROUNDED = 1e-7  # densities in units of the outputs: of smaller ones digits are lost
LEVELS = np.array([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])


class Skipped(Exception):  # noqa: N818 - nothing is wrong
    """A problem of which an invariant says nothing."""


class Case:
    """A fitted problem: data, model, queries and their distributions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.X, self.Y, self.weights = problem.data()
        self.frame = problem.as_frame(self.X)
        self.model = problem.model().fit(self.frame, self.Y, self.weights)
        self.rng = np.random.default_rng([problem.seed, 2])
        # a column that does not vary among the rows that count has no unit of its own
        used = self.X if self.weights is None else self.X[self.weights > 0]
        near_rows = used[self.rng.integers(len(used), size=4)]
        self.queries = near_rows + 0.1 * np.nanstd(used, axis=0) * self.rng.normal(size=(4, 1))
        self.categorical = "Categorical" in problem.options.get("kernel_x", "")
        self.centres = "Nystrom" in problem.options.get("solver", "")
        if self.categorical:
            self.queries = near_rows
        self.dist = self.given(self.queries)
        self.signed = problem.options.get("positivity") == "'signed'"
        self.ratios = "Sample" in problem.options.get("reference", "")  # beside a sample's density
        outputs = self.Y.reshape(len(self.Y), -1)
        outputs = outputs if self.weights is None else outputs[self.weights > 0]
        unit = np.maximum(outputs.std(axis=0), 1e-9 * np.abs(outputs).max(axis=0))
        self.all_zero = not np.all(unit > 0)  # and without a unit
        self.unit = np.where(unit > 0, unit, 1.0)
        self.values = len(np.unique(outputs[:, 0]))
        self.points = self.Y[self.rng.integers(len(self.Y), size=6)]
        # chains of outputs tell means by draws; six standard errors are no chance
        self.draws = 6.0 * float(np.max(self.dist.standard_error() / self.unit.max()))

    def given(self, queries: np.ndarray, model: Any = None) -> Any:
        """Return the distributions of some inputs."""
        return (model or self.model).conditional(self.problem.as_frame(queries))

    def answers(self, model: Any = None, queries: np.ndarray | None = None) -> list[np.ndarray]:
        """Return numbers that a model says of some inputs, in units of the outputs."""
        return self.told(self.given(self.queries if queries is None else queries, model))

    def told(self, dist: Any, scale: float = 1.0) -> list[np.ndarray]:
        """Return numbers that distributions of scaled outputs say, in units of the outputs."""
        unit, points = self.unit * scale, self.points * scale
        if self.draws > 0:
            return [self.log_densities(dist.logpdf(points) + np.log(unit).sum())]
        found = [dist.mean() / (unit[0] if self.problem.flat else unit)]
        if not self.signed:
            found.append(self.log_densities(dist.logpdf(points) + np.log(unit).sum()))
            found.append(dist.cdf(points))
        return found

    @cached_property
    def wanted(self) -> list[np.ndarray]:
        """What the model says, asked once."""
        return self.answers()

    @cached_property
    def order(self) -> np.ndarray:
        """Another order of the rows."""
        return np.random.default_rng([self.problem.seed, 3]).permutation(len(self.X))

    def permuted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return inputs, outputs and weights in another order."""
        weights = None if self.weights is None else self.weights[self.order]
        return self.X[self.order], self.Y[self.order], weights

    @cached_property
    def indifferent(self) -> bool:
        """Whether one fit of permuted rows, other units and arrays says the same.

        Fits are most of the work. Where this one says the same, none of the changes that it has
        in it did any harm; only where it does not, each is looked at by a fit of its own.
        """
        X, Y, weights = self.permuted() if self.any_order else (self.X, self.Y, self.weights)
        by_x, by_y = 4.0 if self.any_input_unit else 1.0, 8.0 if self.any_output_unit else 1.0
        try:
            other = self.problem.model().fit(X * by_x, Y * by_y, weights)
            self.same(self.told(other.conditional(self.queries * by_x), by_y), 1e-8, "all at once")
        except Exception:  # what is wrong is told by the fit that has one change alone
            return False
        return True

    @property
    def any_order(self) -> bool:
        """Whether the rows may be permuted: streams are read in their own order."""
        return self.problem.selection == "auto" or not self.centres

    @property
    def any_input_unit(self) -> bool:
        """Whether inputs may have another unit."""
        kernel = self.problem.options.get("kernel_x", "")
        if any(name in kernel for name in _OWN_UNITS):
            return False
        # rounding may choose other centres
        return not (self.centres and self.problem.selection == "auto")

    @property
    def any_output_unit(self) -> bool:
        """Whether outputs may have another unit."""
        own = "alpha_prime" in self.problem.options or self.problem.support() is not None
        return not own and not self.ratios and not self.all_zero

    def same(self, other: list[np.ndarray], tolerance: float, what: str) -> None:
        """Need answers to be those of the model, as far as its solver promises; most are exact."""
        report = self.model.report_
        if report.residual > 0:
            tolerance += report.residual * np.sqrt(report.condition)
        for found, wanted in zip(other, self.wanted, strict=True):
            near(found, wanted, tolerance, what)

    def log_densities(self, logs: np.ndarray) -> np.ndarray:
        """Return log densities, in units of the outputs, as far as rounding lets them be known.

        Sums of kernel values are rounded beside their largest: a density of 1e-9 has few digits.
        """
        return np.asarray(np.logaddexp(logs, np.log(_ROUNDED)))


def near(found: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Need numbers to be equal up to a tolerance, relative where they are large."""
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    with np.errstate(invalid="ignore"):
        small = np.abs(found - wanted) <= tolerance * np.maximum(1, np.abs(wanted))
    same = (found == wanted) | small
    if not same.all():
        worst = np.flatnonzero(~same.ravel())[0]
        raise AssertionError(f"{what}: {found.ravel()[worst]!r} for {wanted.ravel()[worst]!r}")


INVARIANTS: dict[str, Callable[[Case], None]] = {}


def invariant(function: Callable[[Case], None]) -> Callable[[Case], None]:
    """Register what must hold."""
    INVARIANTS[function.__name__.replace("_", " ")] = function
    return function


def of_one_output(function: Callable[[Case], None]) -> Callable[[Case], None]:
    """Register what must hold of densities of one output."""

    def checked(case: Case) -> None:
        if case.problem.joint or case.signed:
            raise Skipped
        function(case)

    INVARIANTS[function.__name__.replace("_", " ")] = checked
    return function


@invariant
def densities_are_numbers(case: Case) -> None:
    assert np.isfinite(case.dist.mean()).all(), "a mean is not finite"
    if case.signed:
        raise Skipped
    p, logs = case.dist.pdf(case.points), case.dist.logpdf(case.points)
    assert np.all(p >= 0), "a density is negative"
    assert not np.isnan(logs).any(), "a log density is NaN"
    with np.errstate(divide="ignore"):
        normal = p > 1e-290
        near(np.log(p[normal]), logs[normal], 1e-9, "logpdf is log pdf")
    assert np.all(case.dist.std() >= 0), "an sd is negative or NaN"


@of_one_output
def distribution_functions_rise(case: Case) -> None:
    places = np.sort(np.append(case.Y.ravel(), case.dist.quantile(LEVELS).ravel()))
    steps = case.dist.cdf(places)
    assert np.all((steps >= -1e-12) & (steps <= 1 + 1e-12)), "a cdf is not a probability"
    assert np.all(np.diff(steps, axis=1) >= -1e-10), "a cdf falls"
    assert np.all(np.diff(case.dist.quantile(LEVELS), axis=1) >= 0), "quantiles fall"


@of_one_output
def quantiles_invert_the_distribution_function(case: Case) -> None:
    places = case.dist.quantile(LEVELS)
    width = np.maximum(np.abs(places), case.unit[0])[:, None, :]
    for row in range(len(case.dist)):
        one, hair = case.dist[row], 1e-9 * width[row, 0]
        below, above = one.cdf(places[row] - hair)[0], one.cdf(places[row] + hair)[0]
        assert np.all((below <= LEVELS + 1e-6) & (above >= LEVELS - 1e-6)), "cdf(quantile(q)) ≠ q"


@of_one_output
def densities_integrate_to_probabilities(case: Case) -> None:
    if case.ratios:
        raise Skipped
    edges = case.dist.quantile(np.linspace(0.001, 0.999, 200))
    places, weights = np.polynomial.legendre.leggauss(6)
    for row, line in enumerate(edges):
        line = np.unique(line)
        half, middle = 0.5 * np.diff(line)[:, None], 0.5 * (line[1:] + line[:-1])[:, None]
        one = case.dist[row]
        p = one.pdf((middle + half * places).ravel())[0].reshape(len(half), -1)
        # a spike of an atom may begin between two of the places: jumps are not integrated
        even = (p.min(axis=1) > 0) & (p.max(axis=1) <= 2.0 * p.min(axis=1))
        masses, wanted = np.sum(half * weights * p, axis=1), np.diff(one.cdf(line)[0])
        # nor is a spike that begins and ends between two of them: one for each value, at most
        unseen = 0.005 * case.values if case.values < 20 else 0.0
        near(masses[even].sum(), wanted[even].sum(), 0.02 + unseen, "∫ pdf")


@of_one_output
def moments_are_expectations(case: Case) -> None:
    mean, sd = case.dist.mean().ravel(), case.dist.std().ravel()
    if not np.all(np.isfinite(sd)):
        raise Skipped
    unit = case.unit[0]
    near(case.dist.expect(lambda y: y / unit).ravel(), mean / unit, 1e-3, "E y")
    (low,) = case.dist[:1].quantile(0.3).ravel()[:1]
    below = case.dist.expect(lambda y: (y <= low).astype(float)).ravel()
    hair = 1e-9 * max(abs(low), unit)  # an output may hardly vary beside its size
    least, wanted, most = case.dist.cdf([low - hair, low, low + hair]).T
    assert np.all((below >= least - 1e-6) & (below <= most + 1e-6)), f"E 1[y <= a] {below} {wanted}"


@of_one_output
def intervals_and_regions_hold_their_level(case: Case) -> None:
    for row, (low, high) in enumerate(np.reshape(case.dist.interval(0.8), (-1, 2))):
        hair = 1e-9 * max(abs(low), abs(high), case.unit[0])
        first, below, last, above = case.dist[row].cdf([low, low - hair, high - hair, high])[0]
        least, most = last - first, above - below  # they differ where an end has a probability
        assert least <= 0.8 + 1e-3, f"{least} inside an interval of 0.8"
        assert most >= 0.8 - 1e-3, f"{most} in an interval of 0.8"
    draws = case.dist.sample(400, random_state=1)
    for row, region in enumerate(case.dist.hpd(0.8)):
        share = np.mean(region.contains(draws[row]))
        assert share > 0.8 - 0.11, f"an 80 % region holds {share:.2f} of draws"


@invariant
def draws_are_of_the_distribution(case: Case) -> None:
    if case.signed:
        raise Skipped
    draws = case.dist.sample(300, random_state=0)
    assert np.isfinite(draws).all(), "a draw is not finite"
    again = case.dist.sample(300, random_state=0)
    assert np.array_equal(draws, again), "draws of one seed differ"
    if not case.problem.joint:
        ranks = case.dist[0].cdf(draws[0].ravel())[0]
        if len(np.unique(ranks)) > 290:  # no bound has a probability
            assert kstest(ranks, "uniform").pvalue > 1e-7, "draws are not of the cdf"


@invariant
def rows_in_any_order(case: Case) -> None:
    if not case.any_order:
        raise Skipped
    if case.indifferent:
        return
    X, Y, weights = case.permuted()
    other = case.problem.model().fit(case.problem.as_frame(X), Y, weights)
    case.same(case.answers(other), 1e-8, "permuted rows")


@invariant
def one_query_or_many(case: Case) -> None:
    single = [case.answers(queries=case.queries[i : i + 1]) for i in range(len(case.queries))]
    case.same([np.concatenate(parts) for parts in zip(*single, strict=True)], 1e-7, "one by one")


@of_one_output
def summaries_are_single_calls(case: Case) -> None:
    table = case.dist.summary(["mean", "sd", "q50", "logpdf"], case.points[: len(case.dist)])
    unit, mean = case.unit[0], case.dist.mean()
    near(table["mean"] / unit, mean / unit, 1e-9, "mean")
    near(table["sd"] / unit, case.dist.std() / unit, 1e-6, "sd")
    near(table["q50"] / unit, case.dist.quantile([0.5]).reshape(mean.shape) / unit, 1e-6, "q50")
    pairs = case.dist.logpdf_pairs(case.points[: len(case.dist)])
    near(table["logpdf"], pairs, 1e-9, "logpdf")


@invariant
def files_and_pickles(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kcdo"
        case.model.save(path)
        loaded = kcdo.load(path)
    for other in (loaded, pickle.loads(pickle.dumps(case.model))):
        for a, b in zip(case.answers(other), case.wanted, strict=True):
            near(a, b, 1e-10, "after save or pickle")


@invariant
def threads_change_nothing(case: Case) -> None:
    wanted = case.wanted
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: case.answers(), range(4)):
            for a, b in zip(found, wanted, strict=True):
                near(a, b, 1e-9, "from another thread")


@invariant
def units_of_inputs(case: Case) -> None:
    if not case.any_input_unit:
        raise Skipped
    if case.indifferent:
        return
    frame = case.problem.as_frame(case.X * 4.0)
    other = case.problem.model().fit(frame, case.Y, case.weights)
    case.same(case.answers(other, case.queries * 4.0), 1e-6, "inputs times 4")


@invariant
def units_of_outputs(case: Case) -> None:
    if not case.any_output_unit:
        raise Skipped
    if case.indifferent:
        return
    other = case.problem.model().fit(case.frame, case.Y * 8.0, case.weights)
    dist = case.given(case.queries, other)
    tolerance = 1e-6 + case.draws
    near(dist.mean() / 8.0 / case.unit.max(), case.dist.mean() / case.unit.max(), tolerance, "mean")
    if not case.signed and not case.draws:
        near(dist.cdf(case.points * 8.0), case.dist.cdf(case.points), 1e-6, "outputs times 8")


@invariant
def counts_are_copies(case: Case) -> None:
    if case.problem.weights != "counts" or case.problem.selection != "heuristic":
        raise Skipped
    if case.centres or case.problem.missing:  # copies draw values of their own for missing cells
        raise Skipped
    assert case.weights is not None
    copies = np.repeat(np.arange(len(case.X)), case.weights.astype(int))
    frame = case.problem.as_frame(case.X[copies])
    case.same(case.answers(case.problem.model().fit(frame, case.Y[copies])), 1e-5, "copies")


GIVEN: dict[str, Any] = {
    "kernel_x": kcdo.Gaussian(1.0),
    "kernel_y": kcdo.Gaussian(0.5),
    "alpha": 0.01,
    "alpha_prime": 0.01,
    "selection": "heuristic",
}


@invariant
def given_parameters_move_with_the_outputs(case: Case) -> None:
    """Of given parameters, outputs + c are the same model c higher, and float32 are numbers."""
    if case.problem.selection != "heuristic" or case.problem.scales != (1.0, 1.0):
        raise Skipped
    if case.problem.joint or case.problem.missing or len(case.X) > 100:
        raise Skipped
    X, y = case.X.astype(np.float32), np.round(case.Y.ravel(), 2).astype(np.float32)
    model = kcdo.ConditionalDensityOperator(**GIVEN)
    dist = model.fit(X, y, case.weights).conditional(X[:3])
    wanted, levels = dist.mean(), dist.cdf(y[:3])
    wide = model.fit(X.astype(float), y.astype(float), case.weights).conditional(X[:3])
    near(wide.mean(), wanted, 1e-9, "float32 inputs and outputs")
    higher = y.astype(float) + 64.0
    moved = model.fit(X.astype(float), higher, case.weights).conditional(X[:3])
    near(moved.mean() - 64.0, wanted, 1e-6, "outputs + 64")
    near(moved.cdf(higher[:3]), levels, 1e-6, "cdf of outputs + 64")


@invariant
def given_parameters_count_copies(case: Case) -> None:
    """A row with the weight 3 is three rows, whatever the data, of every solver."""
    if case.problem.scales != (1.0, 1.0) or case.problem.missing or len(case.X) > 100:
        raise Skipped
    counts = np.random.default_rng([case.problem.seed, 4]).integers(1, 4, len(case.X))
    lower, upper = case.Y.min(axis=0) - 1.0, case.Y.max(axis=0) + 1.0
    box = kcdo.UniformBox(lower, upper, nodes=64 if case.Y.ndim == 1 or case.Y.shape[1] < 3 else 8)
    model = kcdo.ConditionalDensityOperator(**GIVEN, reference=box)
    one = model.fit(case.X, case.Y, counts).conditional(case.queries).mean()
    X, Y = np.repeat(case.X, counts, axis=0), np.repeat(case.Y, counts, axis=0)
    other = model.fit(X, Y).conditional(case.queries).mean()
    near(other / case.unit.max(), one / case.unit.max(), 1e-6, "copies of rows")


@invariant
def uncertain_inputs_in_their_limit(case: Case) -> None:
    if case.categorical or case.problem.missing:
        raise Skipped
    queries = case.queries[:2]
    for inputs in (  # points without spread are one point: a few of them will do
        kcdo.GaussianInput(queries, np.zeros(queries.shape[1]), n_points=8),
        kcdo.SampleInput(queries[:, None]),
    ):
        dist = case.model.conditional(inputs)
        found, wanted = dist.mean() / case.unit.max(), case.dist.mean()[:2] / case.unit.max()
        own = 6.0 * float(np.max(dist.standard_error() / case.unit.max())) if case.draws else 0.0
        near(found, wanted, 1e-6 + case.draws + own, "certain input")


@invariant
def the_same_rows_again(case: Case) -> None:
    if case.centres:  # others are chosen
        raise Skipped
    other = case.model.refit(case.frame, case.Y, case.weights)
    case.same(case.answers(other), 1e-5, "refit")


@invariant
def streams_are_sums(case: Case) -> None:
    if case.problem.selection != "heuristic" or case.problem.rows < 8:
        raise Skipped
    if "solver" in case.problem.options and "Nystrom" not in case.problem.options["solver"]:
        raise Skipped
    if case.categorical:  # later rows may have others
        raise Skipped
    half = len(case.X) // 2
    cut = [slice(0, half), slice(half, None)]
    frames = [case.problem.as_frame(case.X[part]) for part in cut]
    weights = [None if case.weights is None else case.weights[part] for part in cut]
    one, other = (
        case.problem.model().partial_fit(frames[0], case.Y[cut[0]], weights[0]) for _ in range(2)
    )
    one.partial_fit(frames[1], case.Y[cut[1]], weights[1])
    other.merge(other.worker().partial_fit(frames[1], case.Y[cut[1]], weights[1]))
    for a, b in zip(case.answers(one), case.answers(other), strict=True):
        near(a, b, 1e-6, "partial_fit and merge")


@invariant
def marginals_of_joint_outputs(case: Case) -> None:
    if not case.problem.joint or case.signed:
        raise Skipped
    mean, tolerance = case.dist.mean() / case.unit, 1e-3 + case.draws
    for i in range(len(case.problem.outputs)):
        line = case.dist.marginal(i)
        near(line.mean().ravel() / case.unit[i], mean[:, i], tolerance, "marginal mean")
        middle = line.quantile(0.5).ravel()
        hair = 1e-9 * np.maximum(np.abs(middle), case.unit[i])  # a bound may have a probability
        below, above = line.cdf_pairs(middle - hair), line.cdf_pairs(middle + hair)
        assert np.all((below <= 0.5 + 1e-6) & (above >= 0.5 - 1e-6)), f"median {below} {above}"


@invariant
def data_are_not_touched(case: Case) -> None:
    X, Y, weights = case.problem.data()
    assert np.array_equal(X, case.X, equal_nan=True), "the fit wrote into X"
    assert np.array_equal(Y, case.Y), "the fit wrote into y"
    assert weights is None or np.array_equal(weights, case.weights), "the fit wrote into weights"


@invariant
def far_inputs_have_distributions(case: Case) -> None:
    if case.categorical:
        raise Skipped
    far = case.queries + 1e6 * (np.nanstd(case.X, axis=0) + np.nanmax(np.abs(case.X), axis=0) + 1.0)
    dist = case.given(far)
    assert np.isfinite(dist.mean()).all(), "far away a mean is not finite"
    if not case.signed:
        assert not np.isnan(dist.logpdf(case.points)).any(), "far away a density is NaN"


@invariant
def frames_are_arrays(case: Case) -> None:
    if case.problem.frame == "array":
        raise Skipped
    if case.indifferent:
        return
    other = case.problem.model().fit(case.X, case.Y, case.weights)
    dist = other.conditional(case.queries)
    near(dist.mean() / case.unit.max(), case.dist.mean() / case.unit.max(), 1e-9, "array for frame")
