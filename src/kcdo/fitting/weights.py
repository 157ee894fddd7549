"""Weights of the components of a mixture, by held-out log score and CRPS."""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import Combination, Gate
from kcdo.distributions import Batch
from kcdo.fitting.search import BestSoFar, minimise
from kcdo.kernels import Kernel, has_metric
from kcdo.parallel import ordered_map
from kcdo.rows import Rows

_ROWS_AT_A_TIME = 128
_GATE_NEIGHBOURS, _GATE_PRIORS = (15, 40), (5.0, 20.0, 80.0)
_GATE_CERTAINTY = 2.0  # standard errors that weights which vary with x must gain
_LEAST_GATE_GAIN = 0.003  # nats per row
_STEPS = 500
_LEAST_WEIGHT = 0.01  # of a component that is kept


def combined_weights(
    held_out: dict[str, Batch],
    Y: Array,
    row_weights: Array,
    combination: Combination,
    n_jobs: int | None = None,
) -> dict[str, float]:
    """Return weights of small held-out log score and CRPS, with the user's kept.

    What is made small is -mean log p + log(mean CRPS), the CRPS for one output only: both change
    by a constant when the unit does. Every open component is given one row of its own beside the
    data: a weight of exactly 0 would leave an output that only this component foresees without a
    density. Where rows are many, so that one is next to nothing, tails alone are left for that.
    """
    names = list(held_out)
    fixed = {name: combination.fixed[name] for name in names if name in combination.fixed}
    free = np.array([name not in fixed for name in names])
    if not free.any():
        total = sum(fixed.values())
        return {name: weight / total for name, weight in fixed.items()}
    table = np.column_stack([batch.pdf_pairs(Y) for batch in held_out.values()])
    share = row_weights / row_weights.sum()
    crps = None
    if Y.shape[1] == 1:
        crps = _pairwise_crps(list(held_out.values()), Y[:, 0], share, n_jobs)
    given = np.array([fixed.get(name, 0.0) for name in names])
    weights = _least_loss(table, share, crps, given, free)
    n = float(row_weights.sum())
    left, k = 1.0 - given.sum(), int(free.sum())
    weights[free] = left * (weights[free] / left * n + 1.0) / (n + k) if left > 0 else 0.0
    weights = _without_the_least(names, weights, free)
    return dict(zip(names, weights.tolist(), strict=True))


def _without_the_least(names: list[str], weights: Array, free: NDArray[np.bool_]) -> Array:
    """Return weights without those of open components that hardly count, which cost time.

    Tails stay: only they foresee what is far from all rows, and nothing goes without one.
    """
    tails = np.char.endswith(names, "tail")
    least = free & ~tails & (weights < _LEAST_WEIGHT)
    kept = np.where(least, 0.0, weights)
    if not (np.any(weights[tails] > 0) and np.any(kept[free] > 0)):
        return weights
    kept[free] *= weights[free].sum() / kept[free].sum()
    return kept


def choose_gate(
    held_out: dict[str, Batch],
    weights: dict[str, float],
    rows: Rows,
    kernel: Kernel,
    fewest: int,
) -> Gate | None:
    """Return weights that vary with x, if held-out rows gain more by them than their chance.

    ``rows`` are those that were held out. Each is weighed by its neighbours, without itself.
    """
    names = [name for name, weight in weights.items() if weight > 0]
    if len(names) < 2 or len(rows) < fewest or not has_metric(kernel, rows.X):
        return None
    table = np.column_stack([held_out[name].pdf_pairs(rows.Y) for name in names])
    pi = np.array([weights[name] for name in names])
    parts = np.maximum(table, 1e-300) * pi
    responsibilities = parts / parts.sum(axis=1, keepdims=True)
    share = rows.weights / rows.total
    best: BestSoFar[tuple[Gate, Array]] = BestSoFar()
    for k, prior in product(_GATE_NEIGHBOURS, _GATE_PRIORS):
        gate = Gate(kernel, rows.X, responsibilities, pi, tuple(names), k, prior)
        mixed = np.sum(gate.held_out() * table, axis=1)
        gain = np.log(np.maximum(mixed, 1e-300)) - np.log(np.maximum(table @ pi, 1e-300))
        best.offer(-float(share @ gain), (gate, gain))
    gate, gain = best.best()
    mean = float(share @ gain)
    error = np.sqrt(float(share @ (gain - mean) ** 2) / len(rows))
    return gate if mean > max(_GATE_CERTAINTY * error, _LEAST_GATE_GAIN) else None


def _least_loss(
    table: Array, share: Array, crps: Array | None, given: Array, free: NDArray[np.bool_]
) -> Array:
    """Return the weights of least loss; the free ones are a softmax of the search's vector."""
    left = 1.0 - given.sum()
    # the unit of the outputs, a constant of the loss, would end the search elsewhere
    table = table / np.maximum(table.max(axis=1, keepdims=True), np.finfo(float).tiny)
    crps = None if crps is None else crps / max(np.trace(crps), np.finfo(float).tiny)

    def weights_of(logits: Array) -> Array:
        weights = given.copy()
        powers = np.exp(logits - logits.max())
        weights[free] = left * powers / powers.sum()
        return weights

    def loss(logits: Array) -> tuple[float, Array]:
        weights = weights_of(logits)
        density = np.maximum(table @ weights, 1e-300)
        value = -float(share @ np.log(density))
        slope = -(share / density) @ table
        if crps is not None:
            mean = float(weights @ crps @ weights)
            value += np.log(mean)
            slope = slope + 2.0 * (crps @ weights) / mean
        part = weights[free]
        return value, part * slope[free] - part * (part @ slope[free]) / max(left, 1e-300)

    start = np.zeros(int(free.sum()))
    return weights_of(minimise(loss, start, [(-30.0, 30.0)] * len(start), _STEPS)[0])


def _pairwise_crps(batches: list[Batch], y: Array, share: Array, n_jobs: int | None) -> Array:
    """Return the mean of ∫ (F_k - 1)(F_l - 1) dt, (k, k): the CRPS of a mixture is its form."""

    def of_rows(start: int) -> Array:
        rows = np.arange(start, min(start + _ROWS_AT_A_TIME, len(y)))
        parts = [batch.take(rows) for batch in batches]
        knots = np.hstack([y[rows, None], *(part.knots() for part in parts)])
        knots.sort(axis=1)
        middle = 0.5 * (knots[:, 1:] + knots[:, :-1])
        step = np.diff(knots, axis=1) * share[rows, None]
        above = middle >= y[rows, None]
        excess = np.stack([part.cdf_each(middle[:, :, None]) - above for part in parts])
        return np.einsum("kqt,lqt->kl", excess * step, excess, optimize=True)

    starts = range(0, len(y), _ROWS_AT_A_TIME)
    return np.sum(list(ordered_map(of_rows, starts, n_jobs)), axis=0)
