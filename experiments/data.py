"""Problems for the accuracy benchmark: data, splits, and what is special about their outputs."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import load_diabetes, make_friedman1

import kcdo
from kcdo.arrays import Array

WIDE = {"andro": 6, "atp1d": 6}  # sets of few rows and many columns; so many targets come last
ROUNDED = {"wine-quality-red": 1.0, "diabetes": 1.0, "cancer": 1.0, "naval": 0.001}  # gaps
ROUNDED |= {f"atp1d-{k + 1}": 1.0 for k in range(WIDE["atp1d"])}
ROUNDED |= {"andro-2": 0.005, "andro-3": 0.05}  # at least half of their outputs repeat


@dataclass(frozen=True)
class Split:
    """Training and test rows, and named parts of the test rows that are scored on their own."""

    X: Array
    Y: Array
    X_test: Array
    Y_test: Array
    parts: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """A data set with its splits.

    ``gap`` is the distance between the values of a rounded output, 0 for a continuous one.
    """

    name: str
    splits: int
    split: Callable[[int], Split]
    gap: float = 0.0


def data_folder(folder: Path | None = None) -> Path:
    """The given folder, or that of the environment variable KCDO_DATA."""
    if folder is None and "KCDO_DATA" not in os.environ:
        raise FileNotFoundError("no data folder: pass --data DIR or set KCDO_DATA.")
    return Path(folder or os.environ["KCDO_DATA"])


def problem(name: str, folder: Path | None = None) -> Problem:
    """The problem of that name; see ``PROBLEMS``."""
    if name not in PROBLEMS:
        raise KeyError(f"no problem {name!r}; there are {', '.join(PROBLEMS)}.")
    return PROBLEMS[name](name, folder)


def _table(name: str, X: Array, Y: Array, splits: int = 20) -> Problem:
    """Random 90/10 splits: the usual ones of the UCI sets, and the same recipe for others."""

    @lru_cache(maxsize=1)
    def permutations() -> list[NDArray[np.integer]]:
        rng = np.random.RandomState(1)
        return [rng.choice(range(len(X)), len(X), replace=False) for _ in range(splits)]

    def split(index: int) -> Split:
        order = permutations()[index]
        train, test = np.split(order, [round(0.9 * len(X))])
        parts = {"no twins": ~_has_twin(X[test], X[train])} if name == "wine-quality-red" else {}
        return Split(X[train], Y[train], X[test], Y[test], parts)

    return Problem(name, splits, split, ROUNDED.get(name, 0.0))


def _has_twin(X: Array, others: Array) -> NDArray[np.bool_]:
    """Whether a row has an identical row of inputs among the others."""
    known = {row.tobytes() for row in others}
    return np.array([row.tobytes() in known for row in X])


def _uci(folder_name: str, target: int = -1, splits: int = 20) -> Callable:
    def load(name: str, folder: Path | None) -> Problem:
        table = np.loadtxt(data_folder(folder) / "uci" / folder_name / "data.txt.gz")
        X, Y = table[:, : target % table.shape[1]], table[:, target]
        return _table(name, np.ascontiguousarray(X), Y, splits)

    return load


def _classic(file: str, inputs: list[str], output: str) -> Callable:
    def load(name: str, folder: Path | None) -> Problem:
        path = data_folder(folder) / "classic" / file
        table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
        columns = [table[c] for c in inputs]
        columns = [np.char.strip(c, '"') == '"female"'.strip('"') if c.dtype.kind == "U" else c
                   for c in columns]  # fmt: skip
        return _table(name, np.column_stack(columns).astype(float), table[output].astype(float))

    return load


def _statsmodels(module: str, select: Callable) -> Callable:
    def load(name: str, folder: Path | None) -> Problem:
        import statsmodels.api as sm

        X, Y = select(getattr(sm.datasets, module).load_pandas().data)
        return _table(name, np.asarray(X, float), np.asarray(Y, float))

    return load


def _wide(file: str, place: int) -> Callable:
    """One target of a set of several, by its place, given the inputs alone."""

    def load(name: str, folder: Path | None) -> Problem:
        path = data_folder(folder) / "joint" / f"{file}.csv.gz"
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        return _table(name, table[:, : -WIDE[file]], table[:, place - WIDE[file]])

    return load


def _diabetes(name: str, folder: Path | None) -> Problem:
    X, Y = load_diabetes(return_X_y=True)
    return _table(name, X, Y)


def _friedman(name: str, folder: Path | None) -> Problem:
    def split(index: int) -> Split:
        X, Y = make_friedman1(1500, n_features=10, noise=1.0, random_state=index)
        return Split(X[:500], Y[:500], X[500:], Y[500:])

    return Problem(name, 10, split)


def _bimodal(name: str, folder: Path | None) -> Problem:
    """Two branches whose distance, weights and noise vary with x; a second input is irrelevant."""

    def split(index: int) -> Split:
        rng = np.random.default_rng(index)
        X = rng.random((2000, 2))
        x = X[:, 0]
        sign = np.where(rng.random(len(x)) < expit(4 * (x - 0.5)), 1.0, -1.0)
        Y = sign * (0.5 + x) + (0.05 + 0.25 * x) * rng.standard_normal(len(x))
        return Split(X[:1000], Y[:1000], X[1000:], Y[1000:])

    return Problem(name, 10, split)


def _donut(name: str, folder: Path | None) -> Problem:
    def split(index: int) -> Split:
        donut = kcdo.Donut()
        X_test, Y_test = donut.sample(10, random_state=1000 + index)
        return Split(*donut.sample(50, random_state=index), X_test, Y_test)

    return Problem(name, 10, split)


def _sunspots(table: object) -> tuple[Array, Array]:
    activity = np.asarray(table["SUNACTIVITY"])  # type: ignore[index]
    return np.column_stack([activity[1:-1], activity[:-2]]), activity[2:]


PROBLEMS: dict[str, Callable[[str, Path | None], Problem]] = {
    "yacht": _uci("yacht"),
    "energy": _uci("energy"),
    "wine-quality-red": _uci("wine-quality-red"),
    "geyser": _classic("geyser.csv", ["waiting"], "duration"),
    "mcycle": _classic("mcycle.csv", ["times"], "accel"),
    "lidar": _classic("lidar.csv", ["range"], "logratio"),
    "bone": _classic("bone.csv", ["age", "gender"], "spnbmd"),
    "diabetes": _diabetes,
    "engel": _statsmodels("engel", lambda t: (t[["income"]], t["foodexp"])),
    "star98": _statsmodels(
        "star98", lambda t: (t.iloc[:, 2:14], t["NABOVE"] / (t["NABOVE"] + t["NBELOW"]))
    ),
    "cancer": _statsmodels("cancer", lambda t: (t[["population"]], t["cancer"])),
    "sunspots": _statsmodels("sunspots", _sunspots),
    "friedman1": _friedman,
    "bimodal": _bimodal,
    "donut": _donut,
    "naval": _uci("naval-propulsion-plant", target=16),
    "protein": _uci("protein", splits=5),
    **{f"{file}-{k + 1}": _wide(file, k) for file, n in WIDE.items() for k in range(n)},
}
