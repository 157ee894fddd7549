"""Distributions of every kind, and plain quadrature of their densities."""

import numpy as np

from kcdo.distributions import (
    AffineBatch,
    ConditionalDistribution,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    RecalibratedBatch,
    ScatteredLayout,
    SpikesBatch,
    StudentTail,
    TransformedBatch,
)
from kcdo.measures import Grid
from kcdo.transforms import Above, Below, Between, Columns, Identity, Tabulated

Q = 3  # distributions in every batch


def frozen(array):
    """An array that nobody may write to."""
    array = np.array(array, dtype=float)
    array.setflags(write=False)
    return array


def masses_on(nodes, seed=0, q=Q):
    """Masses of q bimodal densities on the nodes."""
    rng = np.random.default_rng(seed)
    out = np.zeros((q, len(nodes)))
    for _ in range(2):
        centres = rng.uniform(-1, 1, (q, 1, nodes.shape[1]))
        out += np.exp(-0.5 * np.sum(((nodes - centres) / 0.5) ** 2, axis=2))
    return frozen(out / out.sum(axis=1, keepdims=True))


def rough_masses(n_nodes, seed=0):
    """Masses without any order, one of them 0."""
    out = np.random.default_rng(seed).exponential(size=(Q, n_nodes)) ** 2
    out[:, n_nodes // 2] = 0.0
    return frozen(out / out.sum(axis=1, keepdims=True))


def box(*shape):
    d = len(shape)
    return GridLayout(Grid(np.linspace(-2.5, -2.0, d), np.linspace(3.0, 2.5, d), shape))


def on_grid(*shape, seed=0, q=Q):
    layout = box(*shape)
    return NodeBatch(layout, masses_on(layout.grid.nodes, seed, q))


def rough_grid(*shape):
    layout = box(*shape)
    return NodeBatch(layout, rough_masses(layout.n_nodes))


def on_nodes(n, d, seed=0):
    rng = np.random.default_rng(seed)
    nodes = rng.uniform(-2, 2, (n, d))
    return NodeBatch(ScatteredLayout(nodes, rng.uniform(0.3, 0.5, (n, d))), masses_on(nodes, seed))


def affine(inner, seed=1):
    rng = np.random.default_rng(seed)
    shape = (Q, inner.dim)
    return AffineBatch(inner, frozen(rng.normal(size=shape)), frozen(rng.uniform(0.3, 2, shape)))


def tail(d, seed=2, dof=3.0):
    rng = np.random.default_rng(seed)
    return StudentTail(frozen(rng.normal(size=(Q, d))), frozen(rng.uniform(0.3, 1, (Q, d))), dof)


def nested(d):
    shape = (31,) if d == 1 else (12, 14)
    inner = MixtureBatch([on_grid(*shape), affine(on_grid(*shape, seed=5))], frozen([0.3, 0.7]))
    weights = frozen([[0.2, 0.5, 0.3], [0.0, 0.6, 0.4], [0.9, 0.1, 0.0]])
    return MixtureBatch([inner, affine(on_nodes(30, d)), tail(d, dof=5.0)], weights)


def with_tail(inner):
    return MixtureBatch([inner, tail(inner.dim)], frozen([0.9, 0.1]))


def tabulated(seed=4):
    """A map of the line with kinks."""
    rng = np.random.default_rng(seed)
    places, values = (np.cumsum(rng.uniform(0.05, 0.4, 30)) for _ in range(2))
    return Tabulated(places - places.mean(), values - values.mean())


def spikes(width=0.02):
    """Probabilities of four values, one of them 0."""
    values = np.array([[0.5, 0.2, 0.3, 0.0], [0.1, 0.0, 0.4, 0.5], [0.25, 0.25, 0.25, 0.25]])
    return SpikesBatch(np.array([-1.0, 0.0, 0.5, 2.0]), width, frozen(values))


LINES = {
    "grid": on_grid(31),
    "smallest grid": rough_grid(2),
    "rough grid": rough_grid(7),
    "nodes": on_nodes(40, 1),
    "affine grid": affine(on_grid(31)),
    "student": tail(1),
    "normal": tail(1, dof=np.inf),
    "mixture": with_tail(affine(on_grid(31))),
    "nested mixture": nested(1),
    "affine mixture": affine(nested(1), 7),
    "identity": TransformedBatch(on_grid(31), Identity()),
    "above": TransformedBatch(on_grid(31), Above(0.5, 0.7)),
    "below": TransformedBatch(affine(on_grid(31)), Below(2.0, 0.5)),
    "between": TransformedBatch(affine(on_grid(31)), Between(-1.0, 2.0)),
    "above with a tail": TransformedBatch(with_tail(affine(on_grid(31))), Above(0.0, 1.0)),
    "tabulated": TransformedBatch(with_tail(affine(on_grid(31))), tabulated()),
    "tabulated below": TransformedBatch(
        TransformedBatch(affine(on_grid(31)), tabulated()), Columns((Below(2.0, 0.5),))
    ),
    "spikes": spikes(),
    "atoms": MixtureBatch(
        [TransformedBatch(with_tail(affine(on_nodes(40, 1))), tabulated()), spikes()],
        frozen([0.7, 0.3]),
    ),
    "recalibrated grid": RecalibratedBatch(on_grid(31), frozen([0.25, 0.5, 0.25])),
    "recalibrated mixture": RecalibratedBatch(nested(1), frozen([0.5, 0.2, 0.3])),
    "recalibrated below": TransformedBatch(
        RecalibratedBatch(with_tail(affine(on_grid(31))), frozen([0.2, 0.5, 0.3])), tabulated()
    ),
    "mixture of transformed": MixtureBatch(
        [TransformedBatch(on_grid(31), Above(0.5, 0.7)), on_grid(31, seed=3)], frozen([0.5, 0.5])
    ),
}
PLANES = {
    "grid": on_grid(12, 14),
    "rough grid": rough_grid(4, 3),
    "nodes": on_nodes(40, 2),
    "affine grid": affine(on_grid(12, 14)),
    "student": tail(2),
    "nested mixture": nested(2),
    "transformed": TransformedBatch(
        affine(on_grid(12, 14)), Columns((Identity(), Above(-1.0, 0.5)))
    ),
}
SPACES = {"grid": on_grid(9, 8, 10), "nodes": on_nodes(40, 3)}
EVERY = {
    f"{name}, d={d}": batch
    for d, kinds in ((1, LINES), (2, PLANES), (3, SPACES))
    for name, batch in kinds.items()
}
STEEP = {"above with a tail"}  # beside a bound, too much so for plain quadrature


class Known:
    """A source of distributions that are known, and a record of how many were asked for."""

    def __init__(self, batch, *, signed=False):
        self.all, self.signed = batch, signed
        self.dim, self.width, self.n_jobs = batch.dim, batch.width, 1
        self.asked = []

    def __len__(self):
        return len(self.all)

    def batch(self, rows):
        self.asked.append(len(rows))
        return self.all.take(rows)


def distribution(batch, *, signed=False):
    """The distributions of a batch as a user has them."""
    return ConditionalDistribution(Known(batch, signed=signed), flat=batch.dim == 1)


def uniforms(batch, n, seed=0):
    """Random numbers for n draws of each distribution."""
    return np.random.default_rng(seed).random((len(batch), n, batch.uniforms))


def edges(one):
    """Places between which one density is smooth, and finely spaced."""
    return np.concatenate([one.knots()[0], one.pieces()[0]])


def gauss(edges, order=12):
    """Gauss points between edges and their weights."""
    edges = np.unique(edges)
    places, weights = np.polynomial.legendre.leggauss(order)
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * places).ravel(), (half * weights).ravel()


def integral(batch, row, g):
    """∫ g(y, p(y)) dy of one distribution of one output."""
    one = batch.take(np.array([row]))
    points, weights = gauss(edges(one))
    return float(weights @ g(points, one.pdf(points[:, None])[0]))
