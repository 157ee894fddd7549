"""Distributions of one output as mixtures of normals: exact where they are, fitted where not."""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions import (
    AffineBatch,
    Batch,
    ConditionalDistribution,
    MixtureBatch,
    NodeBatch,
    ScatteredLayout,
    StudentTail,
    TransformedBatch,
)
from kcdo.metrics.predictive import by_chunks, middles
from kcdo.transforms import Tabulated

_POINTS = 512  # of equal mass, that normals are fitted to
_STEPS = 200
_NARROWEST = 1e-3  # sd of a fitted normal, in that of the distribution
_TOGETHER = 32  # distributions fitted at a time


class Normals(NamedTuple):
    """Mixtures of normals, each array (Q, K)."""

    weights: Array
    means: Array
    sds: Array


def exact_normals(dist: ConditionalDistribution) -> Normals | None:
    """Return the normals that distributions of one output are made of; None for other kinds."""
    parts = dist.each_batch(lambda batch, _: normals_of(batch))
    found = [part for part in parts if part is not None]
    return _joined(found, axis=0) if len(found) == len(parts) else None


@singledispatch
def normals_of(batch: Batch) -> Normals | None:
    """Return the normals that a batch is made of, where it is."""
    return None


@normals_of.register
def _(batch: StudentTail) -> Normals | None:
    if np.isfinite(batch.dof):
        return None
    return Normals(np.ones_like(batch.location), batch.location, batch.scale)


@normals_of.register
def _(batch: NodeBatch) -> Normals | None:
    if not isinstance(batch.layout, ScatteredLayout) or batch.masses.min() < 0:
        return None
    shape = batch.masses.shape
    nodes, sds = (np.broadcast_to(a[:, 0], shape) for a in (batch.layout.nodes, batch.layout.sds))
    return Normals(batch.masses, nodes, sds)


@normals_of.register
def _(batch: AffineBatch) -> Normals | None:
    inner = normals_of(batch.inner)
    if inner is None:
        return None
    return Normals(inner.weights, batch.shift + batch.scale * inner.means, batch.scale * inner.sds)


@normals_of.register
def _(batch: TransformedBatch) -> Normals | None:
    table, inner = batch.transform, normals_of(batch.inner)
    if inner is None or not isinstance(table, Tabulated) or not table.is_straight:
        return None
    slope = float(np.ptp(table.places) / np.ptp(table.values))
    return Normals(inner.weights, table.inverse(inner.means), slope * inner.sds)


@normals_of.register
def _(batch: MixtureBatch) -> Normals | None:
    parts = []
    for part, weight in zip(batch.parts, batch.weights.T, strict=True):
        normals = normals_of(part)
        if normals is None:
            return None
        parts.append(normals._replace(weights=weight[:, None] * normals.weights))
    return _joined(parts, axis=1)


def fitted_normals(dist: ConditionalDistribution, n: int) -> Normals:
    """Return n normals for each query, by maximum likelihood on points of equal mass.

    Mean and variance are those of the points: each step of expectation and maximisation keeps
    them.
    """
    table = by_chunks(
        dist, lambda part, _: np.hstack(_climbed(part.quantile(middles(_POINTS)), n)), _TOGETHER
    )
    return Normals(*np.split(table, 3, axis=1))


def _climbed(points: Array, n: int) -> Normals:
    """Fit n normals to each row of sorted points (Q, P) by expectation and maximisation."""
    groups = np.array_split(points, n, axis=1)
    means = np.column_stack([group.mean(axis=1) for group in groups])
    narrowest = _NARROWEST * points.std(axis=1, keepdims=True) + 1e-300
    # as wide as to the next: narrower ones would each keep to their own points
    gaps = np.diff(means, axis=1) if n > 1 else points.std(axis=1, keepdims=True)
    sds = np.maximum(np.hstack([gaps[:, :1], gaps[:, : n - 1]]), narrowest)[:, :n]
    weights = np.full(means.shape, 1.0 / n)
    for _ in range(_STEPS):
        t = (points[:, None, :] - means[:, :, None]) / sds[:, :, None]
        share = np.log(weights / sds)[:, :, None] - 0.5 * t**2
        share = np.exp(share - share.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        mass = share.sum(axis=2) + 1e-300
        means = np.einsum("qkp,qp->qk", share, points) / mass
        squares = (points[:, None, :] - means[:, :, None]) ** 2
        sds = np.maximum(np.sqrt(np.einsum("qkp,qkp->qk", share, squares) / mass), narrowest)
        weights = mass / points.shape[1]
    return Normals(weights, means, sds)


def _joined(parts: list[Normals], axis: int) -> Normals:
    return Normals(*(np.concatenate(same, axis=axis) for same in zip(*parts, strict=True)))
