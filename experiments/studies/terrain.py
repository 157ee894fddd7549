"""Rough terrain: the elevation of Mount St. Helens given position, random 80/20 splits.

The published table mixes two errors: for CDO and GP Σ|ŷ - y| / Σ|y - ȳ_train| (centred), for the
flows mean |ŷ/y - 1| (uncentred), which on this data is five times smaller. Both are given for all.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

import kcdo
from experiments.markdown import leading, markdown_table, mean_sd
from experiments.published import Published
from experiments.rows import DEFAULT, GP, MAF, PAPER, PAPER_WEAK, REALNVP, Row, common_rows
from experiments.runner import Options, Outcome, Results, Study, Task
from kcdo.arrays import Array
from kcdo.datasets import fetch_mount_st_helens
from kcdo.kernels import median_scales
from kcdo.regularisation import PowerScheme, PrintedScheme, Scheme

PROBLEM = "Mount St. Helens"
PAPER_TEXT = "CDO, paper (scale as in the text)"
NEIGHBOUR = "nearest neighbour"
SCORES = ("SMAE, centred", "SMAE, uncentred", "log score")
PUBLISHED = {
    PAPER: "0.0269 ± 0.0006 (centred)",
    GP: "0.0358 ± 0.0006 (centred)",
    REALNVP: "0.0373 ± 0.0380 (uncentred)",
    MAF: "0.0309 ± 0.0395 (uncentred)",
}
_QUICK_SIDE = 30  # points of the square that is mapped when it is to be quick
_SPACINGS = 50  # the output scale of the authors' code, in node spacings


def code_kernel(X: Array) -> kcdo.Gaussian:
    """The input kernel of the authors' code: √median / 2, about 11 length units."""
    return kcdo.Gaussian(float(np.sqrt(median_scales(X).mean()) / 2))


def text_kernel(X: Array) -> kcdo.Gaussian:
    """The input kernel of the text: the median distance."""
    return kcdo.Gaussian(float(median_scales(X).mean()))


def _published(kernel: Any, scheme: Scheme | None = None) -> Published:
    def scale(grid: Any) -> Array:
        return _SPACINGS * grid.spacing

    return Published(None, kernel, scale, scheme or PrintedScheme())


class NearestNeighbour:
    """The mean elevation of the nearest training positions, up to four at the same distance."""

    def fit(self, X: Array, Y: Array) -> Self:
        """Learn from rows of inputs and outputs."""
        self._neighbours, self._Y = NearestNeighbors(n_neighbors=4).fit(X), Y
        return self

    def conditional(self, X: Array) -> Self:
        """Elevations given each row."""
        distance, index = self._neighbours.kneighbors(X)
        nearest = distance <= (1 + 1e-9) * distance[:, :1]
        self._mean = (self._Y[index] * nearest).sum(axis=1) / nearest.sum(axis=1)
        return self

    def mean(self) -> Array:
        """The elevations, (Q,)."""
        return self._mean


def rows(quick: bool) -> list[Row]:
    """The methods; the flows, slow to compile, are left out when it is to be quick."""
    seeds = 1 if quick else 3
    found = [
        Row(PAPER, lambda seed: _published(code_kernel), seeds),
        Row(PAPER_TEXT, lambda seed: _published(text_kernel), seeds),
        Row(PAPER_WEAK, lambda seed: _published(code_kernel, PowerScheme(1.0, 1.0)), seeds),
        *common_rows(seeds, seeds, layers=10, epochs=200, learnt_on=4000),
        Row(NEIGHBOUR, lambda seed: NearestNeighbour(), seeds),
    ]
    return [row for row in found if not (quick and row.name in (REALNVP, MAF))]


def tasks(options: Options) -> list[Task]:
    """A seed is a random split."""
    X, y, on_map = terrain(options, _QUICK_SIDE if options.quick else None)
    sizes = {"points": len(y)}
    return [
        Task(PROBLEM, row.name, seed, sizes | row.settings, _run(row, X, y, seed, on_map))
        for seed in range(options.at_most(3))
        for row in rows(options.quick)
        if seed < row.seeds
    ]


def terrain(options: Options, side: int | None = None) -> tuple[Array, Array, tuple[int, int]]:
    """Positions, elevations and the shape of the map, or of a square in the middle of it."""
    data = fetch_mount_st_helens(data_home=options.data)
    chosen = np.arange(len(data.target)).reshape(data.grid_shape)
    if side is not None:
        rows, columns = ((n - side) // 2 for n in chosen.shape)
        chosen = chosen[rows : rows + side, columns : columns + side]
    return data.data[chosen.ravel()], data.target[chosen.ravel()], chosen.shape


def split(n: int, seed: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """80 % of the rows to train, 20 % to test."""
    order = np.random.default_rng(seed).permutation(n)
    train, test = np.split(order, [int(0.8 * n)])
    return train, test


def _run(row: Row, X: Array, y: Array, seed: int, on_map: tuple[int, int]) -> Any:
    def run() -> Outcome:
        train, test = split(len(X), seed)
        fitted = row.make(seed).fit(X[train], y[train])
        predictive = fitted.conditional(X[test])
        scores = errors(predictive.mean(), y[test], y[train].mean())
        if hasattr(predictive, "logpdf_pairs"):
            scores["log score"] = float(predictive.logpdf_pairs(y[test]).mean())
        drawn = seed == 0 and row.name in (PAPER, DEFAULT, GP)
        return Outcome(scores, _maps(fitted, X, y, on_map, test) if drawn else {})

    return run


def errors(estimate: Array, y: Array, middle: float) -> dict[str, float]:
    """Both scaled mean absolute errors."""
    error = np.abs(estimate - y)
    return {
        "SMAE, centred": float(error.sum() / np.abs(y - middle).sum()),
        "SMAE, uncentred": float((error / np.abs(y)).mean()),
    }


def _maps(fitted: Any, X: Array, y: Array, on_map: tuple[int, int], test: Array) -> dict:
    predictive = fitted.conditional(X)
    held_out = np.zeros(len(X), dtype=bool)
    held_out[test] = True
    maps = {"truth": y, "mean": predictive.mean(), "sd": predictive.std(), "test": held_out}
    maps |= {"x": X[:, 0], "y": X[:, 1]}
    return {name: np.asarray(values).reshape(on_map) for name, values in maps.items()}


def table(results: Results) -> str:
    """Mean ± sd over the splits, the published numbers beside them."""
    names = results.methods(PROBLEM)
    cells = []
    for score in SCORES:
        values = [results.values(PROBLEM, name, score) for name in names]
        sign = -1.0 if score == "log score" else 1.0
        order = [sign * np.mean(v) if len(v) else np.nan for v in values]
        cells.append(leading([mean_sd(v) for v in values], order))
    header = ["method", "splits", *SCORES, "published SMAE"]
    body = [
        [name, str(len(results.of(PROBLEM, name))), *(c[i] for c in cells), _beside(results, name)]
        for i, name in enumerate(names)
    ]
    return markdown_table(header, body)


def _beside(results: Results, name: str) -> str:
    if not results.of(PROBLEM, name):
        return results.reason(PROBLEM, name) or "not run"
    return PUBLISHED.get(name, "–")


def figures(results: Results) -> dict[str, Any]:
    """Contour, predicted mean, sd and error maps."""
    from experiments.figures import terrain_maps

    found = {name: results.arrays(PROBLEM, name) for name in (PAPER, DEFAULT, GP)}
    found = {name: maps for name, maps in found.items() if maps}
    return {"maps": terrain_maps(found)} if found else {}


STUDY = Study("terrain", tasks, table, figures)
