"""Sets of several outputs for the joint benchmark: real ones, and three whose truth is known."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from experiments.data import data_folder
from kcdo.arrays import Array

MULAN = {"enb": 2, "slump": 3, "edm": 2, "andro": 6, "wq": 14, "atp1d": 6}  # targets come last
_MOONS, _RING = 200, 400  # points that integrate over an angle
_NAVAL_ROWS, _CALTRANS_ROWS = 3000, 3000
_TRAIN_SHARE, _TRAIN_ROWS = 0.8, 1600  # of random splits; of synthetic sets


@dataclass(frozen=True)
class JointSet:
    """Inputs and outputs, the number of random 80/20 splits, and the true log density if known."""

    X: Array
    Y: Array
    splits: int = 5
    log_density: Callable[[Array, Array], Array] | None = None

    def split(self, index: int) -> tuple[Array, Array, Array, Array]:
        """Return training and test rows: X, Y, X, Y, outputs standardised by the training rows."""
        order = np.random.default_rng(index).permutation(len(self.X))
        train, test = np.split(order, [round(_TRAIN_SHARE * len(order))])
        Y = without_rounding(self.Y, index)
        centre, unit = Y[train].mean(axis=0), Y[train].std(axis=0)
        Z = (Y - centre) / unit
        return self.X[train], Z[train], self.X[test], Z[test]

    def true_score(self, index: int) -> float | None:
        """Return the negative log score of the truth on a split, in the same units."""
        if self.log_density is None:
            return None
        order = np.random.default_rng(index).permutation(len(self.X))
        train, test = np.split(order, [round(_TRAIN_SHARE * len(order))])
        unit = self.Y[train].std(axis=0)
        logs = self.log_density(self.X[test], self.Y[test]) + np.log(unit).sum()
        return -float(logs.mean())


def without_rounding(Y: Array, seed: int) -> Array:
    """Return outputs whose rounded columns have noise of one gap: for every method alike."""
    rng = np.random.default_rng([seed, 1])
    out = Y.copy()
    for column in out.T:
        values, counts = np.unique(column, return_counts=True)
        if len(values) > 1 and counts[counts > 1].sum() >= 0.5 * len(column):
            column += np.diff(values).min() * rng.uniform(-0.5, 0.5, len(column))
    return out


def joint_set(name: str, folder: Path | None = None, train_rows: int | None = None) -> JointSet:
    """Return the set of that name; synthetic ones with so many training rows."""
    if name in SYNTHETIC:
        return SYNTHETIC[name](train_rows or _TRAIN_ROWS)
    if name in MULAN:
        table = _table(data_folder(folder) / "joint" / f"{name}.csv.gz")
        d = MULAN[name]
        return JointSet(table[:, :-d], table[:, -d:], 10 if name == "andro" else 5)
    return REAL[name](folder)


def _table(path: Path) -> Array:
    return np.loadtxt(path, delimiter=",", skiprows=1)


def naval(folder: Path | None) -> JointSet:
    """Both decay coefficients of the naval propulsion plant, 3,000 rows."""
    path = data_folder(folder) / "uci" / "naval-propulsion-plant" / "data.txt.gz"
    table = np.loadtxt(path)
    rows = np.random.default_rng(0).choice(len(table), _NAVAL_ROWS, replace=False)
    return JointSet(table[rows, :16], table[rows, 16:18])


def caltrans(folder: Path | None) -> JointSet:
    """Occupancy of two sensors given hour and weekday, 3,000 hours."""
    path = data_folder(folder) / "traffic" / "caltrans_hourly"
    path = path / "caltrans_occupancy_hourly_2sensors.csv.gz"
    occupancy = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(1, 2))
    hours = np.arange(len(occupancy))  # 2015-01-01 was a Thursday
    X = np.stack([hours % 24, (hours // 24 + 3) % 7], axis=1).astype(float)
    rows = np.random.default_rng(0).choice(len(X), _CALTRANS_ROWS, replace=False)
    return JointSet(X[rows], occupancy[rows])


def _all_rows(train_rows: int) -> int:
    """Return how many rows have so many for training."""
    return round(train_rows / _TRAIN_SHARE)


def ring(train_rows: int = _TRAIN_ROWS) -> JointSet:
    """Points about a circle of radius 1 + x, with noise of sd 0.1."""
    rng, n = np.random.default_rng(1), _all_rows(train_rows)
    x, angle = rng.uniform(0, 1, n), rng.uniform(0, 2 * np.pi, n)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    Y = (1 + x)[:, None] * circle + 0.1 * rng.standard_normal((n, 2))

    def log_density(X: Array, Y: Array) -> Array:
        angles = 2 * np.pi * np.arange(_RING) / _RING
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return _about_curve((1 + X[:, 0])[:, None, None] * points, Y)

    return JointSet(x[:, None], Y, log_density=log_density)


def moons(train_rows: int = _TRAIN_ROWS) -> JointSet:
    """Two half circles whose distance grows with x, with noise of sd 0.1."""
    rng, n = np.random.default_rng(2), _all_rows(train_rows)
    x, angle, upper = rng.uniform(0, 1, n), rng.uniform(0, np.pi, n), rng.random(n) < 0.5
    Y = np.where(upper[:, None], _upper(angle), _lower(angle))
    Y = Y + np.stack([np.zeros(n), np.where(upper, x, -x)], axis=1)
    Y += 0.1 * rng.standard_normal((n, 2))

    def log_density(X: Array, Y: Array) -> Array:
        angles = np.pi * (np.arange(_MOONS) + 0.5) / _MOONS
        shift = np.stack([0 * X[:, 0], X[:, 0]], axis=1)[:, None]
        curves = np.concatenate([_upper(angles) + shift, _lower(angles) - shift], axis=1)
        return _about_curve(curves, Y)

    return JointSet(x[:, None], Y, log_density=log_density)


def _upper(angle: Array) -> Array:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _lower(angle: Array) -> Array:
    return np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)


def _about_curve(curves: Array, Y: Array, sd: float = 0.1) -> Array:
    """Return the log density of normal noise about points (Q, n, 2) that are equally likely."""
    squares = ((Y[:, None] - curves) ** 2).sum(axis=2)
    normal = -0.5 * squares / sd**2 - np.log(2 * np.pi * sd**2)
    return np.asarray(logsumexp(normal, axis=1) - np.log(curves.shape[1]))


def banana(train_rows: int = _TRAIN_ROWS, d: int = 16) -> JointSet:
    """y_1 ~ N(x, 1); then y_1²/4 + N(0, 1/4) and N(y_{j-1}/2, 1) in turn."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(_all_rows(train_rows))
    columns = [x + rng.standard_normal(len(x))]
    for j in range(1, d):
        mean, sd = _banana_link(columns, j)
        columns.append(mean + sd * rng.standard_normal(len(x)))

    def log_density(X: Array, Y: Array) -> Array:
        logs = norm.logpdf(Y[:, 0], X[:, 0], 1.0)
        for j in range(1, Y.shape[1]):
            mean, sd = _banana_link(list(Y.T), j)
            logs += norm.logpdf(Y[:, j], mean, sd)
        return np.asarray(logs)

    return JointSet(x[:, None], np.stack(columns, axis=1), log_density=log_density)


def _banana_link(columns: list[Array], j: int) -> tuple[Array, float]:
    return (columns[0] ** 2 / 4, 0.5) if j % 2 else (columns[j - 1] / 2, 1.0)


REAL: dict[str, Callable[[Path | None], JointSet]] = {"caltrans": caltrans, "naval": naval}
SYNTHETIC: dict[str, Callable[[int], JointSet]] = {"ring": ring, "moons": moons, "banana": banana}
NAMES = [*MULAN, *REAL, *SYNTHETIC]
