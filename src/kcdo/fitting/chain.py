"""Several outputs: a chain of univariate fits, in which orders, or one density on a grid.

Orders and the grid are tried on few rows, with short searches, and judged by the joint log density
of rows held out. What is kept is then fitted to all rows.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components import (
    Chain,
    ChainModel,
    ChainModelParameters,
    ChainParameters,
    Effort,
    ModelParameters,
    UnivariateParameters,
    link_rows,
    some_outputs,
)
from kcdo.errors import InvalidInputError, KcdoWarning
from kcdo.fitting.automatic import AutomaticFit, automatic_fit
from kcdo.fitting.smoothed import mixing_shares
from kcdo.fitting.spec import ModelSpec
from kcdo.kernels import Automatic, Kernel, OnColumns, Product
from kcdo.parallel import ordered_map, thread_count
from kcdo.progress import Progress
from kcdo.rows import Fold, Rows
from kcdo.systems import Exact, Solver

ChooseSolver = Callable[[NDArray, Array], Solver]  # for inputs and weights

_MOST_ON_GRID = 3  # outputs of which a grid is tried
_MANY_OUTPUTS = 8  # beyond which fewer orders are tried
_TRIAL_TIME = 0.25  # of the time that the user allows
_CERTAINTY = 2.0  # standard errors by which a grid that is behind is given up
_FEWEST_JUDGES = 24  # rows that know a standard error
_ROWS_AT_ONCE = 8  # held-out rows between two looks at a grid
_MOST_LOG = 1e3  # one row that is impossible, or certain, must not outweigh all others


def joint_fit(
    spec: ModelSpec, rows: Rows, choose_solver: ChooseSolver, form: str = "auto"
) -> AutomaticFit:
    """Choose everything that is open and fit the model of one or several outputs.

    Parameters
    ----------
    spec, rows
        What the user fixed, and all rows.
    choose_solver : function
        The solver of a ridge system with given inputs and weights.
    form : {"auto", "chain", "grid"}
        How several outputs are modelled; "auto" chooses up to three outputs by held-out rows.
    """
    d = rows.Y.shape[1]
    weighed = form == "auto" and d <= _MOST_ON_GRID and bool(spec.combination.fixed)
    if d == 1 or form == "grid" or weighed or not may_chain(spec, rows):
        if d > 1 and form == "chain":
            _tell_no_chain(spec, rows)
        return automatic_fit(spec, rows)
    with spec.progress.stage("orders"):
        trial = _Trial.of(spec, rows, with_grid=form == "auto" and d <= _MOST_ON_GRID)
    if trial.grid_wins:
        return automatic_fit(spec, rows)
    with spec.progress.stage("chain"):
        return fit_orders(spec, rows, choose_solver, trial)


def _tell_no_chain(spec: ModelSpec, rows: Rows) -> None:
    """Say why a chain that was asked for is not made."""
    if rows.X.dtype == object:
        raise InvalidInputError(
            'joint="chain" needs inputs that are columns of numbers, behind which earlier outputs '
            'stand. Take joint="grid".'
        )
    warnings.warn(
        f"joint='chain' needs {spec.settings.effort.fewest_rows} rows; of {len(rows)} one density "
        "of all outputs is fitted.",
        KcdoWarning,
        stacklevel=2,
    )


def may_chain(spec: ModelSpec, rows: Rows) -> bool:
    """Whether outputs may follow one another: open on the output side, enough rows of numbers."""
    open_output = spec.kernel_y is None and spec.reference is None and spec.alpha_prime is None
    enough = len(rows) >= spec.settings.effort.fewest_rows
    positive = spec.settings.positivity != "signed"
    return open_output and positive and enough and rows.X.dtype != object


def fit_orders(
    spec: ModelSpec, rows: Rows, choose_solver: ChooseSolver, trial: "_Trial"
) -> AutomaticFit:
    """Fit the chains of the orders that a trial kept, all links side by side."""
    tasks = [(order, j) for order in trial.orders for j in range(len(order))]
    deadline, threads = spec.progress.deadline, thread_count(spec.n_jobs)

    def fit_link(place: int) -> tuple[AutomaticFit, Solver]:
        order, j = tasks[place]
        own = link_rows(rows, order, j)
        solver = choose_solver(own.X, own.weights)
        share = deadline.share(min(1.0, threads / (len(tasks) - place)))
        part = link_spec(spec.in_silence(share), rows.X.shape[1], j, solver)
        fit = automatic_fit(part, own)
        deadline.left_out.extend(share.left_out)
        return fit, solver

    found = []
    for done, each in enumerate(ordered_map(fit_link, range(len(tasks)), spec.n_jobs), 1):
        found.append(each)
        spec.progress.update(done, len(tasks))
    chains, parameters = [], []
    for k, order in enumerate(trial.orders):
        fits, solvers = zip(*found[k * len(order) : (k + 1) * len(order)], strict=True)
        chains.append(Chain(order, tuple(fit.model for fit in fits)))
        chosen = tuple(fit.parameters for fit in fits)
        parameters.append(ChainParameters(order, chosen, solvers))
    model = ChainModel(tuple(chains), trial.weights, some_outputs(rows, spec.seed))
    return AutomaticFit(model, ChainModelParameters(tuple(parameters), trial.weights), trial.loss)


def link_spec(spec: ModelSpec, p: int, j: int, solver: Solver) -> ModelSpec:
    """Return the spec of link j, which has j earlier outputs behind its p inputs."""
    return replace(
        spec,
        kernel_x=link_kernel(spec.kernel_x, p, j),
        settings=replace(spec.settings, solver=solver),
        twins=spec.twins and j == 0,  # earlier outputs that are drawn are never those of a row
    )


def link_kernel(kernel: Kernel, p: int, j: int) -> Kernel:
    """Return an input kernel that also sees j outputs behind the p inputs.

    An automatic kernel takes them as inputs like the others; a kernel of the user is multiplied by
    an automatic one on them.

    >>> from kcdo import Gaussian
    >>> link_kernel(Gaussian(1.0), 2, 1).kernels[1].columns
    (2,)
    """
    if j == 0 or kernel.family_open:
        return kernel
    new = tuple(range(p, p + j))
    if isinstance(kernel, Product):
        for k, part in enumerate(kernel.kernels):
            if isinstance(part, OnColumns) and part.kernel.family_open:
                wider = OnColumns(part.kernel, (*part.indices(p), *new))
                return Product((*kernel.kernels[:k], wider, *kernel.kernels[k + 1 :]))
    return Product((kernel.on(list(range(p))), Automatic().on(list(new))))


@dataclass(frozen=True, eq=False)
class _Trial:
    """Orders that are worth their work, their weights, and whether a grid does better."""

    orders: tuple[tuple[int, ...], ...]
    weights: Array
    loss: float | None = None
    grid_wins: bool = False

    @classmethod
    def of(cls, spec: ModelSpec, rows: Rows, *, with_grid: bool) -> "_Trial":
        """Judge some orders, and the grid, by held-out rows of a small sample.

        What is not judged in its share of the time is left out: fits that were stopped tell little.
        """
        effort, d = spec.settings.effort, rows.Y.shape[1]
        orders = list(islice(candidates(d, spec.seed), effort.orders))
        as_given = cls(tuple(orders[:1]), np.ones(1))
        sample = _tried_rows(rows, effort.order_rows, spec.seed)
        nothing_to_choose = len(orders) == 1 and not with_grid
        if nothing_to_choose or not _folds(sample, effort.order_folds, spec.seed):
            return as_given
        deadline = spec.progress.deadline
        trial_deadline = deadline.share(_TRIAL_TIME)
        settings = replace(spec.settings, effort=short(effort), solver=Exact())
        light = replace(spec, settings=settings).in_silence(trial_deadline)
        logs = _held_out_logs(light, sample, orders, spec.progress)
        if trial_deadline.left_out:
            deadline.left_out.append("orders")
            return as_given
        judged = np.flatnonzero(np.isfinite(logs[0]))
        weights = sample.weights[judged] / sample.weights[judged].sum()
        order_logs = [log[judged] for log in logs]
        kept_orders = _worth_keeping(order_logs, weights)
        kept_logs = [order_logs[k] for k in kept_orders]
        shares = _order_shares(np.stack(kept_logs, axis=1), weights, effort.shares_steps)
        chain_logs = np.zeros(len(sample))
        chain_logs[judged] = _mixed(kept_logs, shares)
        grid_wins = with_grid and _grid_wins(light, sample, chain_logs)
        if trial_deadline.left_out:
            deadline.left_out.append("grid")
            grid_wins = False
        loss = -float(weights @ chain_logs[judged])
        return cls(tuple(orders[k] for k in kept_orders), shares, loss, grid_wins)


def _tried_rows(rows: Rows, count: int, seed: int) -> Rows:
    """Return some of the rows, if there are many; all, if nearly all are of one group."""
    sample = rows.sample(count, seed + 5)
    return sample if sample.kin is None or sample.kin.count > 1 else rows


def _folds(rows: Rows, count: int, seed: int) -> list[Fold]:
    """Return rows that learn and rows that judge, where those that learn have folds of their own.

    Rows that belong together are in one fold, and later ones are judged by earlier ones.
    """
    folds = rows.folds(count, seed + 6)
    return folds if rows.kin is None else [f for f in folds if rows.kin.take(f[0]).count > 1]


def candidates(d: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield the orders that are tried: as given, reversed, and one at random of many."""
    given = tuple(range(d))
    yield given
    yield given[::-1]
    if 2 < d <= _MANY_OUTPUTS:
        rng = np.random.default_rng(seed)
        yield (1, 0, 2) if d == 3 else tuple(rng.permutation(d).tolist())


def short(effort: Effort) -> Effort:
    """Return an effort that is enough to tell orders apart."""
    return replace(
        effort,
        race_rows=min(effort.race_rows, 120),
        rows=min(effort.rows, 200),
        last_rows=min(effort.last_rows, 200),
        race_steps=min(effort.race_steps, 3),
        steps=min(effort.steps, 4),
        filter_steps=min(effort.filter_steps, 4),
        factorisations=min(effort.factorisations, 2),
        leaders=(1, 1),
        folds=min(effort.folds, 3),
        many_folds=min(effort.many_folds, 3),
        metric_steps=(min(effort.metric_steps[0], 4), min(effort.metric_steps[1], 4)),
        local_judged=(min(effort.local_judged[0], 100), min(effort.local_judged[1], 150)),
        crossed_rows=0,  # whose scales are judged by folds
        crossed_per_column=0,
        rough_rows=min(effort.rough_rows, 100),
        transform_rows=min(effort.transform_rows, 100),
        coarse_nodes={**effort.coarse_nodes, 1: min(effort.coarse_nodes[1], 50)},
        fine_nodes={**effort.fine_nodes, 1: min(effort.fine_nodes[1], 100)},
    )


def _held_out_logs(
    spec: ModelSpec, rows: Rows, orders: list[tuple[int, ...]], progress: Progress
) -> list[Array]:
    """Return log p(y | x) of rows held out, (n,), by the chain of each order; NaN if never held.

    Orders share the links of an output that follows the same others, in whatever order.
    """
    of_order = [[(o, tuple(sorted(order[:j]))) for j, o in enumerate(order)] for order in orders]
    links = list(dict.fromkeys(link for each in of_order for link in each))

    def of_link(link: tuple[int, tuple[int, ...]]) -> Array:
        output, earlier = link
        logs = np.full(len(rows), np.nan)
        if spec.progress.deadline.allows("orders"):
            own = link_rows(rows, (*earlier, output), len(earlier))
            part = link_spec(spec, rows.X.shape[1], len(earlier), spec.settings.solver)
            for places, found in _held_out_folds(part, own):
                logs[places] = found
        return logs

    found = {}
    for link, logs in zip(links, ordered_map(of_link, links, spec.n_jobs), strict=True):
        found[link] = logs
        progress.update(len(found), len(links))
    return [_bounded(np.sum([found[link] for link in each], axis=0)) for each in of_order]


def _bounded(logs: Array) -> Array:
    return np.asarray(np.clip(logs, -_MOST_LOG, _MOST_LOG))


def _grid_wins(spec: ModelSpec, rows: Rows, chain: Array) -> bool:
    """Whether a grid foretells rows better than a chain, whose log densities are given.

    Its densities cost far more: as many rows as leave no doubt are enough.
    """
    gain = np.zeros(len(rows))
    share = np.zeros(len(rows))
    for places, found in _held_out_folds(spec, rows, _ROWS_AT_ONCE):
        gain[places], share[places] = _bounded(found) - chain[places], rows.weights[places]
        so_far = share / share.sum()
        mean = float(so_far @ gain)
        error = float(np.sqrt(np.sum(so_far**2 * (gain - mean) ** 2)))
        if mean < -_CERTAINTY * error and np.count_nonzero(share) >= _FEWEST_JUDGES:
            return False
    return mean > 0.0


def _held_out_folds(
    spec: ModelSpec, rows: Rows, at_once: int | None = None
) -> Iterator[tuple[Integers, Array]]:
    """Yield rows of each fold, at most so many at once, and their log p(y | x) by a default fit.

    Parameters are chosen without the first fold, and kept for the others.
    """
    parameters: ChainModelParameters | ModelParameters | UnivariateParameters | None = None
    for learnt, fold in _folds(rows, spec.settings.effort.order_folds, spec.seed):
        train = rows.take(learnt)
        if parameters is None:
            fit = automatic_fit(spec, train)
            model, parameters = fit.model, fit.parameters
        else:
            model = parameters.fit(train, spec.settings)
        size = at_once or len(fold)
        for places in (fold[start : start + size] for start in range(0, len(fold), size)):
            logs = model.batch(rows.X[places]).logpdf_pairs(rows.Y[places])
            yield places, np.nan_to_num(logs, nan=-_MOST_LOG)


def _worth_keeping(logs: Sequence[Array], weights: Array) -> list[int]:
    """Return the best order, and those that add more than their standard error to it."""
    ranked = sorted(range(len(logs)), key=lambda k: -float(weights @ logs[k]))
    kept = ranked[:1]
    for k in ranked[1:]:
        before = [logs[i] for i in kept]
        n = len(before)
        gain = _mixed([*before, logs[k]], np.full(n + 1, 1 / (n + 1))) - _mixed(
            before, np.full(n, 1 / n)
        )
        mean = float(weights @ gain)
        error = float(np.sqrt(np.sum(weights**2 * (gain - mean) ** 2)))
        if mean > error:
            kept.append(k)
    return kept


def _mixed(logs: Sequence[Array], shares: Array) -> Array:
    """Return the log densities of a mixture, (n,)."""
    parts = [log + np.log(share) for log, share in zip(logs, shares, strict=True)]
    return np.asarray(np.logaddexp.reduce(parts))


def _order_shares(logs: Array, weights: Array, steps: int) -> Array:
    """Return the weights of orders of highest held-out log score; none is given up."""
    densities = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares = np.maximum(mixing_shares(densities, weights, steps), 1e-3)
    return np.asarray(shares / shares.sum())
