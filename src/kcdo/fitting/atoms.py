"""Atoms beside a mixture: whether every value is one, and how rows tell their probabilities."""

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components import (
    Atoms,
    AtomShares,
    Mixture,
    Settings,
    SmoothedRows,
    class_shares,
    interval_masses,
)
from kcdo.distributions import Batch, TransformedBatch
from kcdo.fitting.metric import Metric
from kcdo.fitting.smoothed import every_bandwidth, mixing_shares
from kcdo.rows import Rows, sampled
from kcdo.transforms import Tabulated

_LEAST_SHARE = 2e-3
_EXACT = 0.3  # median error, in gaps of rounding; that of the rounding itself is 0.25
_MOST_VALUES = 200


def foretold_below_rounding(
    rows: Rows, transform: Tabulated, metric: Metric, gap: float, settings: Settings
) -> bool:
    """Whether outputs are foretold more exactly than they are rounded, and take not many values.

    Undoing the rounding at random would then be most of what is left to foretell.
    """
    if len(np.unique(np.rint(transform.inverse(rows.Y) / gap))) > _MOST_VALUES:
        return False
    located = SmoothedRows.located(metric.regressors, rows, settings).table
    both = (transform.inverse(each[:, None])[:, 0] for each in (located.output, located.location))
    errors = np.abs(np.subtract(*both))
    return float(np.median(errors)) < _EXACT * gap


def shares_beside(
    mixture: Mixture,
    transform: Tabulated,
    atoms: Atoms,
    y: Array,
    located: SmoothedRows,
    settings: Settings,
) -> AtomShares:
    """Choose the probabilities of atoms beside a mixture of outputs that are seen through a map."""
    held_out = None
    if atoms.every_value:  # a continuous distribution knows their order
        held_out = TransformedBatch(mixture.held_out(_judging(y, settings)), transform)
    return choose_atom_shares(atoms, y, located, settings, held_out)


def _judging(y: Array, settings: Settings) -> Integers:
    """Return the rows that judge the probabilities of atoms."""
    return sampled(len(y), settings.effort.weighed_rows, settings.seed + 1)


def choose_atom_shares(
    atoms: Atoms, y: Array, rows: SmoothedRows, settings: Settings, continuous: Batch | None = None
) -> AtomShares:
    """Choose how rows are smoothed into probabilities of atoms, by held-out rows.

    ``continuous`` are held-out distributions of the same rows, where intervals about atoms may have
    a share.
    """
    labels, n_atoms, table = atoms.labels(y), len(atoms.places), rows.table
    judged = _judging(y, settings)
    likeness = table.likeness_left_out(judged, rows.n_jobs)
    bandwidths = every_bandwidth()
    prior = np.bincount(labels, table.weights, n_atoms + 1)
    few = 1.0 / (prior.sum() + 1.0)
    each = few * prior / prior.sum() + (1.0 - few) * np.stack(
        [class_shares(table, likeness, b, labels, n_atoms) for b in bandwidths]
    )  # (B, n, A + 1)
    own, weights = labels[judged], table.weights[judged]
    steps = settings.effort.shares_steps
    shares = mixing_shares(each[:, np.arange(len(judged)), own].T, weights, steps)
    shares = np.where(shares >= _LEAST_SHARE, shares, 0.0)
    shares /= shares.sum()
    of_intervals = 0.0
    if continuous is not None:
        by_rows = np.einsum("b,bna->na", shares, each)[:, :n_atoms]
        masses = interval_masses(atoms, continuous)
        of_intervals = _share_of_intervals(atoms, by_rows, masses, own, weights)
    chosen = tuple(b for b, share in zip(bandwidths, shares, strict=True) if share > 0)
    kept = (1.0 - of_intervals) * shares[shares > 0]
    return AtomShares(atoms, rows, labels, chosen, kept, of_intervals)


def _share_of_intervals(
    atoms: Atoms, by_rows: Array, masses: Array, labels: Integers, weights: Array
) -> float:
    """Return the share of the second of two kinds of probabilities (n, A) that foretells best.

    By log score and CRPS alike: -mean log p + log(mean CRPS).
    """
    gaps = np.diff(atoms.places)
    below = labels[:, None] <= np.arange(len(atoms.places) - 1)

    def loss(share: float) -> float:
        p = (1.0 - share) * by_rows + share * masses
        crps = ((np.cumsum(p, axis=1)[:, :-1] - below) ** 2) @ gaps
        logs = np.log(np.maximum(p[np.arange(len(p)), labels], 1e-12))
        return float(np.log(np.average(crps, weights=weights)) - np.average(logs, weights=weights))

    return float(min(np.linspace(0.0, 1.0, 21), key=loss))
