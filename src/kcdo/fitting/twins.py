"""Rows of the very same inputs: copies are fitted once, and twins have a say of their own."""

from dataclasses import replace

import numpy as np
from scipy.stats import norm

from kcdo.arrays import Array, Integers
from kcdo.components import Settings, Twins, Univariate, drawn_to, summed
from kcdo.fitting.problem import Problem
from kcdo.fitting.search import BestSoFar
from kcdo.rows import Rows, row_keys, sampled

_LEAST_PRIOR, _MOST_PRIOR = 0.02, 20.0  # rows that count as much as a twin
_MANY_COPIES = 0.1  # of the rows: fewer hardly move what is chosen
_COPIED = 0.5  # of the pairs of rows of the same inputs have the same outputs: these are copies
_TWIN_CERTAINTY = 2.0  # standard errors
_NARROWEST_TWIN = 1.0 / 2000.0  # of the range


def without_copies(problem: Problem) -> tuple[Problem, Integers | None]:
    """Return a problem with one row of each copies, and the place of every row among these.

    None where there are few, inputs are no numbers, or rows of the same inputs have the same
    outputs by chance, as those of few values do.
    """
    rows = problem.rows
    if rows.X.dtype == object:
        return problem, None
    pairs = _pairs_of(row_keys(rows.X))
    fewer, place = rows.without_copies()
    few = len(rows) - len(fewer) < _MANY_COPIES * len(rows)
    if few or not np.ptp(rows.Y) or _pairs_of(place) < _COPIED * pairs:
        return problem, None
    return replace(problem, rows=fewer), place


def _pairs_of(labels: Integers) -> int:
    """Return how many pairs have the same label."""
    counts = np.unique(labels, return_counts=True)[1]
    return int(np.sum(counts * (counts - 1)) // 2)


def choose_twins(
    model: Univariate, rows: Rows, copy_of: Integers | None, settings: Settings
) -> Twins | None:
    """Choose how much rows of the same inputs say of one another; None if others say it as well.

    By held-out rows that have twins, of a model without them, fitted to one of each copies if their
    places ``copy_of`` (N,) are given. ``rows`` have the inputs of the user: after features, equal
    ones may differ in a last digit.
    """
    if rows.X.dtype == object:
        return None
    y = rows.Y[:, 0]
    every = Twins(row_keys(rows.X), y, rows.weights, 1.0, 0.0)
    sizes = every.sizes()
    judged = np.flatnonzero(sizes > 1)
    effort = settings.effort
    if not len(judged) or (len(judged) < effort.fewest_twins and copy_of is None):
        return None
    judged = judged[sampled(len(judged), effort.weighed_rows, settings.seed + 1)]
    if (
        sizes[judged].mean() > effort.most_twins
    ):  # so many of the same inputs that the fit knows them
        return None
    of_row, others = every.found(every.keys[judged])
    apart = judged[of_row] != others
    of_row, others = of_row[apart], others[apart]
    gaps, counts = y[judged][of_row] - y[others], rows.weights[others]
    totals = summed(of_row, counts, len(judged))
    left_out = judged if copy_of is None else copy_of[judged]
    own, weights = held_out_likelihoods(model, left_out, y[judged]), rows.weights[judged]
    best: BestSoFar[tuple[float, float, Array]] = BestSoFar()
    for width in _twin_widths(y, discrete=model.atoms is not None):
        bumps = gaps == 0 if width == 0 else norm.pdf(gaps, scale=width)
        sums = summed(of_row, counts * bumps, len(judged))
        for prior in np.geomspace(max(_LEAST_PRIOR, 1.0 / len(judged)), _MOST_PRIOR, 31).tolist():
            gain = np.log(np.maximum(drawn_to(own, sums, prior, totals), 1e-300)) - np.log(own)
            best.offer(-float(weights @ gain), (prior, width, gain))
    prior, width, gain = best.best()
    mean, error = np.average(gain, weights=weights), np.std(gain) / np.sqrt(len(gain))
    sure = copy_of is not None or mean > _TWIN_CERTAINTY * error
    return replace(every, prior=prior, width=width) if sure else None


def held_out_likelihoods(model: Univariate, rows: Integers, y: Array) -> Array:
    """Return the density, or the probability of the atom, of outputs of rows, each left out."""
    mixed = model.mixture.held_out(rows)
    if model.atoms is None:
        return np.maximum(np.exp(model.seen_through(mixed).logpdf_pairs(y[:, None])), 1e-300)
    probabilities = model.atoms.held_out(rows, model.seen_through(mixed))
    labels = model.atoms.labels[rows]
    return np.maximum(probabilities[np.arange(len(rows)), labels], 1e-12)


def _twin_widths(y: Array, *, discrete: bool) -> list[float]:
    """Return widths of bumps to try: none of atoms, else from a small part of the range on."""
    if discrete:
        return [0.0]
    low, high = np.quantile(y, [0.001, 0.999])
    narrowest = _NARROWEST_TWIN * float(high - low if high > low else np.ptp(y))
    return np.geomspace(narrowest, 800.0 * narrowest, 16).tolist()
