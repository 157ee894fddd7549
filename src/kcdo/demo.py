"""The demonstration: the Gaussian donut of the paper, fitted, checked and drawn."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kcdo.arrays import Array
from kcdo.datasets import Donut
from kcdo.distributions import ConditionalDistribution
from kcdo.estimators import ConditionalDensityOperator
from kcdo.kernels import Gaussian, Laplace
from kcdo.measures import UniformBox
from kcdo.plotting.donut import donut_figure

__all__ = ["run_demo"]


_QUERIES = (0.0, 1.0)
_HALF_WIDTH = 2.0
_GRID_SIDE = 300  # fine enough that the error is the estimate's, not the quadrature's

_NEXT_STEPS = """\
kcdo fit data.csv --target y --test 0.2 -o model.kcdo
kcdo predict model.kcdo data.csv -o out.csv
kcdo report model.kcdo --data data.csv -o report.html

or in Python, with a column y to predict from all others:

import kcdo, pandas as pd

data = pd.read_csv("data.csv")
model = kcdo.ConditionalDensityOperator().fit(data.drop(columns="y"), data["y"])
dist = model.conditional(data.drop(columns="y")[:5])
dist.quantile([0.05, 0.5, 0.95])
"""


def run_demo(out: Path, seed: int, console: Console) -> Path:
    """Fit the donut, report how near the truth it comes, and draw figure 1 of the paper.

    Parameters
    ----------
    out : Path
        Directory for the figure; created if it does not exist.
    seed : int
        Seed of the data and of the draws.
    console : rich.console.Console
        Where to report.

    Returns
    -------
    Path
        The figure written.
    """
    donut = Donut()
    X, Y = donut.sample(random_state=seed)
    _step(console, "Data", f"Gaussian donut, {len(X)} points (x, y, z), noise {donut.noise:g}.")

    model = _donut_model()
    started = time.perf_counter()
    with console.status("Fitting ..."):
        model.fit(X, Y)
    fit_seconds = time.perf_counter() - started
    _step(console, "Fit", f"density of (y, z) given x, in closed form: {fit_seconds:.2f} s.")

    dist = model.conditional(np.reshape(_QUERIES, (-1, 1)))
    grid = _grid()
    started = time.perf_counter()
    with console.status("Evaluating the densities ..."):
        truth, estimate = donut.conditional_pdf(_QUERIES, grid), dist.pdf(grid)
    seconds = time.perf_counter() - started
    _step(console, "Compare", f"truth and estimate at {len(grid)} points (y, z): {seconds:.2f} s.")
    console.print(_comparison(donut, dist, truth, estimate))
    _report_draws(console, dist, seed)

    path = _write_figure(out, X, Y, truth, estimate)
    _step(console, "Figure", f"truth, estimate and samples: {path}")
    console.print(
        "\nTry next, with a table of your own, whose column y is to be foretold:\n", style="bold"
    )
    console.print(_NEXT_STEPS, markup=False, highlight=False, soft_wrap=True)
    console.print("The documentation: make docs, then docs/_build/html/index.html")
    return path


def _donut_model() -> ConditionalDensityOperator:
    """The model, with parameters that show the donut well."""
    box = UniformBox(lower=(-_HALF_WIDTH,) * 2, upper=(_HALF_WIDTH,) * 2, nodes=(60, 60))
    return ConditionalDensityOperator(
        kernel_x=Laplace(1.0),
        kernel_y=Gaussian(0.1),
        alpha=3e-3,
        alpha_prime=0.16,
        reference=box,
        selection="heuristic",  # nothing is left to choose
    )


def _grid() -> Array:
    """Cell centres of a fine regular grid over the square, y varying slowest."""
    spacing = 2 * _HALF_WIDTH / _GRID_SIDE
    axis = -_HALF_WIDTH + spacing * (np.arange(_GRID_SIDE) + 0.5)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def _comparison(
    donut: Donut,
    dist: ConditionalDistribution,
    truth: Array,
    estimate: Array,
) -> Table:
    """Errors and moments, one column per query."""
    table = Table(title="Estimate against truth")
    table.add_column("(y, z) given")
    for x in _QUERIES:
        table.add_column(f"x = {x:g}", justify="right")
    # The L1 norm of the paper is with respect to the uniform distribution on the square.
    table.add_row("L1 error of the estimate", *_numbers(np.abs(estimate - truth).mean(axis=1)))
    table.add_row("L1 error of the zero function", *_numbers(truth.mean(axis=1)))
    table.add_row("mean, estimate", *_pairs(dist.mean()))
    table.add_row("mean, truth", *_pairs(donut.conditional_mean(_QUERIES)))
    table.add_row("sd, estimate", *_pairs(dist.std()))
    table.add_row("sd, truth", *_pairs(donut.conditional_std(_QUERIES)))
    return table


def _report_draws(console: Console, dist: ConditionalDistribution, seed: int) -> None:
    draws = dist.sample(1000, random_state=seed)
    # At x = 0 the circle is cut twice, which no single mean and sd would tell.
    upper = (draws[0, :, 0] > 0).mean()
    text = (
        f"1000 from the estimate at x = 0: {upper:.0%} on the side y > 0, {1 - upper:.0%} on y < 0."
    )
    _step(console, "Draws", text)


def _write_figure(
    out: Path,
    X: Array,
    Y: Array,
    truth: Array,
    estimate: Array,
) -> Path:
    image_shape = (len(_QUERIES), _GRID_SIDE, _GRID_SIDE)
    figure = donut_figure(
        X, Y, _QUERIES, truth.reshape(image_shape), estimate.reshape(image_shape), _HALF_WIDTH
    )
    out.mkdir(parents=True, exist_ok=True)
    path = out / "donut.png"
    figure.savefig(path, dpi=150)
    return path


def _step(console: Console, name: str, text: str) -> None:
    console.print(Text.assemble((f"{name:<8} ", "bold"), text), soft_wrap=True)


def _numbers(values: Array) -> list[str]:
    return [f"{value:.4f}" for value in values]


def _pairs(values: Array) -> list[str]:
    rounded = np.round(values, 3) + 0.0  # adding zero turns -0.0 into 0.0
    return [f"({y:.3f}, {z:.3f})" for y, z in rounded]
