"""Traffic given day of week and time of day: mean and sd of every input, and joint densities.

SMAE is the mean over inputs of |estimate/truth - 1|. The published table takes the truth from the
training days; here it is given against held-out and against training days. PEMS-SF itself is run
if its files are in the data folder; the other problems are stand-ins, and named as what they are.
"""

import time
from functools import partial
from typing import Any, Self

import numpy as np

import kcdo
from experiments.markdown import leading, markdown_table
from experiments.published import Published
from experiments.rivals import CDO
from experiments.rows import (
    DEFAULT,
    GP,
    HEURISTIC,
    KCEF,
    KDE,
    LSCDE,
    MAF,
    PAPER,
    PAPER_WEAK,
    REALNVP,
    Row,
    common_rows,
    rival,
)
from experiments.runner import Options, Outcome, Results, Study, Task
from experiments.studies.traffic_data import (
    JOINT,
    SHAPE,
    Statistics,
    Traffic,
    missing,
    pems_shape,
    problems,
)
from kcdo.arrays import Array
from kcdo.regularisation import PowerScheme

GROUPS = "per-group statistics"
TRUTHS = ("held-out", "training")
PUBLISHED = {  # PEMS-SF, training statistics
    PAPER: "0.02 ± 0.05 / 0.36 ± 1.21",
    REALNVP: "0.32 ± 0.41 / 1.19 ± 1.65",
    MAF: "0.52 ± 0.81 / 4.50 ± 4.40",
}
_SCORED = 4000  # test rows in a log score, a random choice of more
_QUERIES = 2000
_NOT_JOINT = (PAPER, PAPER_WEAK, GROUPS)  # moments only
_SLOW = (DEFAULT, GP, REALNVP, MAF, KCEF)
_LEAST_LOG = -20.0  # counts for a log density of -inf, so that one row does not decide a mean


class GroupStatistics:
    """Mean and sd of the training outputs of each input."""

    def fit(self, X: Array, Y: Array) -> Self:
        """Learn from rows of inputs and outputs."""
        self._known = Statistics.of(X, Y)
        return self

    def conditional(self, X: Array) -> Self:
        """Statistics given each row, which must be an input of the training rows."""
        place = {row.tobytes(): i for i, row in enumerate(self._known.inputs)}
        self._rows = np.array([place[row.tobytes()] for row in np.ascontiguousarray(X)])
        return self

    def mean(self) -> Array:
        """Means, (Q,)."""
        return self._known.mean[self._rows]

    def std(self) -> Array:
        """Standard deviations, (Q,)."""
        return self._known.sd[self._rows]


def rows(quick: bool) -> list[Row]:
    """The methods for one output; a seed changes nothing but what is random in a method."""
    slow_seeds, layers, epochs = (1, 2, 10) if quick else (2, 5, 200)
    return [
        Row(PAPER, lambda seed: Published(on_box=True), 1),
        Row(PAPER_WEAK, lambda seed: Published(scheme=PowerScheme(1.0, 1.0), on_box=True), 1),
        *common_rows(1, slow_seeds, layers, epochs),
        Row(GROUPS, lambda seed: GroupStatistics(), 1),
    ]


def timed_rows() -> list[Row]:
    """The library alone, for the time of a fit."""
    box = kcdo.UniformBox(margin=0.0, nodes=1000, edge_nodes=True)

    def paper(seed: int) -> CDO:
        return CDO(seed, selection="paper", kernel_x=kcdo.Laplace(), reference=box)

    return [
        Row(PAPER, paper, 1),
        rival(HEURISTIC, "kcdo-heuristic", 1),
        rival(DEFAULT, "kcdo", 1),
    ]


def tasks(options: Options) -> list[Task]:
    """Single outputs first, then the joint density, then the time of a fit of PEMS-SF's shape."""
    found = []
    quick, sizes = options.quick, {"quick": options.quick}
    there = problems(options)
    for name in [name for name in there if name != JOINT]:
        for row in rows(quick):
            for seed in range(options.at_most(row.seeds)):
                run = partial(_single, row, seed, there[name])
                found.append(Task(name, row.name, seed, sizes | row.settings, run))
    for row in rows(quick) if JOINT in there else []:
        if row.name not in (_NOT_JOINT + _SLOW if quick else _NOT_JOINT):
            run = partial(_joint, row, 0, there[JOINT], separate=not quick)
            found.append(Task(JOINT, row.name, 0, sizes | row.settings, run))
    shape = {"days": 4, "slots": 24} if quick else {"days": 32, "slots": 144}
    timed = [Task(SHAPE, r.name, 0, shape, partial(_timed, r, **shape)) for r in timed_rows()]
    return found + timed


def _single(row: Row, seed: int, load: Any) -> Outcome:
    data: Traffic = load()
    fitted = row.make(seed).fit(data.X, data.Y)
    known = Statistics.of(data.X, data.Y)
    predictive = fitted.conditional(known.inputs)
    mean, sd = predictive.mean(), predictive.std()
    scores: dict[str, Any] = {}
    arrays = {"inputs": known.inputs, "mean": mean, "sd": sd}
    for truth in TRUTHS:
        of = known if truth == "training" else Statistics.of(data.X_test, data.Y_test)
        here = np.isin(_codes(known.inputs), _codes(of.inputs))
        there = np.isin(_codes(of.inputs), _codes(known.inputs))
        for what, values, true in (("mean", mean, of.mean), ("sd", sd, of.sd)):
            errors = scaled_errors(values[here], true[there])
            scores[f"{what}, {truth}"] = errors.mean()
            scores[f"{what}, {truth}, spread"] = errors.std()
            arrays[f"{what} errors, {truth}"] = errors
    if hasattr(predictive, "logpdf_pairs"):
        scores |= _log_scores("log score", log_densities(fitted, *_scored(data)))
    if row.name == GROUPS:  # the figure shows them
        arrays |= {"test inputs": data.X_test, "test outputs": data.Y_test}
    return Outcome(scores, arrays if seed == 0 else {})


def _scored(data: Traffic) -> tuple[Array, Array]:
    chosen = np.random.default_rng(0).permutation(len(data.X_test))[:_SCORED]
    return data.X_test[chosen], data.Y_test[chosen]


def log_densities(fitted: Any, X: Array, Y: Array) -> Array:
    """Log densities of Y[i] given X[i], in blocks of rows."""
    if isinstance(fitted, CDO):
        (logs,) = _of_repeated_inputs(fitted, X, [lambda predictive: predictive.logpdf(Y)])
        return logs
    blocks = [slice(i, i + _QUERIES) for i in range(0, len(X), _QUERIES)]
    return np.concatenate([fitted.conditional(X[b]).logpdf_pairs(Y[b]) for b in blocks])


def _of_repeated_inputs(fitted: CDO, X: Array, questions: list[Any]) -> list[Array]:
    """Answers (Q, N) for the distinct inputs, of which row i keeps that of X[i]: (N,) each."""
    inputs, member = np.unique(X, axis=0, return_inverse=True)
    predictive = fitted.conditional(inputs)
    rows = member.ravel(), np.arange(len(X))
    return [question(predictive)[rows] for question in questions]


def _codes(inputs: Array) -> Array:
    """One number for each (day, hour)."""
    return inputs[:, 0] * 24.0 + inputs[:, 1]


def scaled_errors(estimate: Array, truth: Array) -> Array:
    """|estimate/truth - 1| of the inputs whose truth is not 0; an undefined sd counts as 0."""
    known = truth != 0
    return np.abs(np.nan_to_num(estimate[known]) / truth[known] - 1)


def _log_scores(name: str, logs: Array) -> dict[str, float]:
    low = ~(logs > _LEAST_LOG)
    scores = {name: float(np.where(low, _LEAST_LOG, logs).mean())}
    return scores | ({f"{name}, cut": int(low.sum())} if low.any() else {})


def _joint(row: Row, seed: int, load: Any, separate: bool) -> Outcome:
    """Held-out log score of the joint density, of the product of its marginals, of two models."""
    data: Traffic = load()
    fitted = row.make(seed).fit(data.X, data.Y)
    X, Y = _scored(data)
    scores = _log_scores("joint", log_densities(fitted, X, Y))
    if isinstance(fitted, CDO):
        marginals = [lambda joint, k=k: joint.marginal(k).logpdf(Y[:, k]) for k in range(2)]
        logs = sum(_of_repeated_inputs(fitted, X, marginals))
        scores |= _log_scores("product of its marginals", logs)
    if separate:
        models = [row.make(seed).fit(data.X, data.Y[:, k]) for k in range(2)]
        logs = sum(log_densities(model, X, Y[:, k]) for k, model in enumerate(models))
        scores |= _log_scores("two separate models", logs)
    return Outcome(scores)


def _timed(row: Row, days: int, slots: int) -> Outcome:
    """Seconds of fit and prediction, and errors against the known truth."""
    data, truth = pems_shape(days, slots)
    started, processor = time.perf_counter(), time.process_time()
    fitted = row.make(0).fit(data.X, data.Y)
    between, worked = time.perf_counter(), time.process_time() - processor
    predictive = fitted.conditional(data.X_test)
    mean, sd = predictive.mean(), predictive.std()
    ended = time.perf_counter()
    scores = {"pairs": len(data.X), "inputs": len(data.X_test)}
    scores |= {"fit seconds": between - started, "of the processor": worked}
    scores["prediction seconds"] = ended - between
    scores["mean, truth"] = scaled_errors(mean, truth[:, 0]).mean()
    scores["sd, truth"] = scaled_errors(sd, truth[:, 1]).mean()
    return Outcome(scores)


def table(results: Results) -> str:
    """One table for each problem."""
    parts = []
    for problem in results.problems():
        make = {JOINT: _joint_table, SHAPE: _time_table}.get(problem, _single_table)
        parts.append(f"**{problem}**\n\n{make(results, problem)}")
    return "\n\n".join(parts)


def _single_table(results: Results, problem: str) -> str:
    columns = [f"{what}, {truth}" for truth in TRUTHS for what in ("mean", "sd")]
    names = results.methods(problem)
    cells = []
    for column in columns:
        values = [results.values(problem, name, column) for name in names]
        spreads = [results.values(problem, name, f"{column}, spread") for name in names]
        texts = [
            f"{v.mean():.3f} ± {s.mean():.3f}" if len(v) else "–"
            for v, s in zip(values, spreads, strict=True)
        ]
        cells.append(leading(texts, [v.mean() if len(v) else np.nan for v in values]))
    logs = [results.values(problem, name, "log score") for name in names]
    log_cells = leading(*_means(logs))
    header = ["method", "seeds", *columns, "log score", "published on PEMS-SF (training)"]
    body = []
    for i, name in enumerate(names):
        beside = PUBLISHED.get(name, "–")
        if not results.of(problem, name):
            beside = results.reason(problem, name) or "not run"
        count = str(len(results.of(problem, name)))
        body.append([name, count, *(c[i] for c in cells), log_cells[i], beside])
    return markdown_table(header, body)


def _means(values: list[Array]) -> tuple[list[str], list[float]]:
    """Cells of means, and what to order by: the greatest is best."""
    means = [float(v.mean()) if len(v) else np.nan for v in values]
    return [f"{m:.3f}" if np.isfinite(m) else "–" for m in means], [-m for m in means]


def _joint_table(results: Results, problem: str) -> str:
    columns = ("joint", "product of its marginals", "two separate models")
    names = results.methods(problem)
    cells = [_means([results.values(problem, n, c) for n in names])[0] for c in columns]
    header = ["method", "seeds", *(f"log score, {c}" for c in columns)]
    body = []
    for i, name in enumerate(names):
        runs = results.of(problem, name)
        count = str(len(runs)) if runs else results.reason(problem, name) or "not run"
        body.append([name, count, *(c[i] for c in cells)])
    return markdown_table(header, body)


def _time_table(results: Results, problem: str) -> str:
    columns = {"fit seconds": 2, "of the processor": 2, "prediction seconds": 2}
    columns |= {"mean, truth": 3, "sd, truth": 3}
    body = []
    for name in results.methods(problem):
        values = [results.values(problem, name, c) for c in ("pairs", "inputs")]
        numbers = [results.values(problem, name, c) for c in columns]
        cells = [f"{v[0]:,.0f}" if len(v) else "–" for v in values]
        cells += [
            f"{v[0]:.{d}f}" if len(v) else "–"
            for v, d in zip(numbers, columns.values(), strict=True)
        ]
        body.append([name, *cells])
    header = ["method", "pairs", "distinct inputs", *columns]
    return markdown_table(header, body)


def figures(results: Results) -> dict[str, Any]:
    """For each problem figure 3 of the paper: histogram with mean ± 2 sd, box plots of errors."""
    from experiments.figures import traffic_figure

    drawn = {}
    for problem in results.problems():
        if problem in (JOINT, SHAPE):
            continue
        shown = (PAPER_WEAK, DEFAULT, GP, REALNVP, MAF, LSCDE, KDE, GROUPS)
        found = {name: results.arrays(problem, name) for name in shown}
        found = {name: arrays for name, arrays in found.items() if arrays}
        drawn[problem.lower().replace(", ", "_").replace(" ", "_")] = traffic_figure(found, problem)
    return drawn


STUDY = Study("traffic", tasks, table, figures, missing)
