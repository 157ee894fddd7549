"""The Gaussian donut: errors of p(y, z | x) at x = 1 and x = 0, both tilts, both targets.

The text tilts about the y axis, draws 50 points around each mean (N = 2500) and compares with the
conditional density. The authors' code tilts about the x axis, draws 75 (N = 3750) and compares with
the joint density p(x, y, z) at that x. Here both settings are run, and both targets reported.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import kcdo
from experiments.donut import BOX_CORNERS, QUERIES, square
from experiments.markdown import leading, markdown_table, spread
from experiments.published import Published
from experiments.rows import DEFAULT, GP, KCEF, LSCDE, MAF, PAPER, REALNVP, Row, common_rows
from experiments.runner import Options, Outcome, Results, Study, Task
from kcdo.arrays import Array

ZERO = "the zero function"
TARGETS = ("conditional", "joint")
PLACES = ("x = 1", "x = 0")

# Medians read off the published box plot (authors' setting, joint target), x = 1 and x = 0.
PUBLISHED = {
    PAPER: (0.040, 0.034),
    GP: (0.081, 0.072),
    REALNVP: (0.031, 0.043),
    MAF: (0.026, 0.044),
    LSCDE: (0.076, 0.069),
}
_SLOW = (DEFAULT, GP, KCEF)  # run once when it is to be quick


@dataclass(frozen=True)
class Setting:
    """A donut with so many samples around each mean, compared on a grid of side² points."""

    name: str
    donut: kcdo.Donut
    n_per_mean: int


SETTINGS = (
    Setting("authors' setting", kcdo.Donut(axis="x"), 75),
    Setting("the text's setting", kcdo.Donut(axis="y"), 50),
)
DESCRIPTIONS = {
    "authors' setting": "tilt about x; the published figures have the joint target",
    "the text's setting": "tilt about y; the text has the conditional target",
}


class _Zero:
    """A yardstick: p̂ = 0."""

    def fit(self, X: Array, Y: Array) -> "_Zero":
        return self

    def conditional(self, X: Array) -> "_Zero":
        self._queries = len(X)
        return self

    def pdf(self, y: Array) -> Array:
        return np.zeros((self._queries, len(y)))


def rows(quick: bool) -> list[Row]:
    """The methods; the flows, slow to compile, are left out when it is to be quick."""
    seeds, slow_seeds = (1, 1) if quick else (10, 5)
    others = common_rows(seeds, slow_seeds, layers=5, epochs=200)
    paper = Row(PAPER, lambda seed: Published(BOX_CORNERS), seeds)
    found = [paper, *others, Row(ZERO, lambda seed: _Zero(), 1)]
    return [row for row in found if not (quick and row.name in (REALNVP, MAF))]


def tasks(options: Options) -> list[Task]:
    """Seeds go slowest, so that a stopped run has something of everything."""
    found = []
    for seed in range(options.at_most(10)):
        for setting in SETTINGS:
            n_per_mean = 6 if options.quick else setting.n_per_mean
            side = 100 if options.quick else 300
            for row in rows(options.quick):
                slow = options.quick and setting is SETTINGS[0] and row.name in _SLOW
                if seed < row.seeds and not slow:
                    sizes = {"n_per_mean": n_per_mean, "side": side}
                    run = _run(row, setting.donut, seed, **sizes)
                    found.append(Task(setting.name, row.name, seed, sizes | row.settings, run))
    return found


def _run(row: Row, donut: kcdo.Donut, seed: int, n_per_mean: int, side: int) -> Any:
    def run() -> Outcome:
        X, Y = donut.sample(n_per_mean, random_state=seed)
        points, queries = square(side), QUERIES[:, 0]
        density = row.make(seed).fit(X, Y).conditional(QUERIES).pdf(points)
        truth = {"conditional": donut.conditional_pdf(queries, points)}
        truth["joint"] = donut.joint_pdf(queries, points)
        errors = {
            f"{target}, {place}": error
            for target in TARGETS
            for place, error in zip(PLACES, _l1(density, truth[target]), strict=True)
        }
        kept = {"density": density.reshape(len(QUERIES), side, side)} if seed == 0 else {}
        return Outcome(errors, {k: v.astype(np.float32) for k, v in kept.items()})

    return run


def _l1(density: Array, truth: Array) -> Array:
    return np.abs(density - truth).mean(axis=1)


def table(results: Results) -> str:
    """For each setting: median error (least and greatest), the published median beside it."""
    parts = []
    for problem in results.problems():
        columns = [f"{target}, {place}" for target in TARGETS for place in PLACES]
        names = results.methods(problem)
        cells = []
        for column in columns:
            values = [results.values(problem, name, column) for name in names]
            medians = [
                np.median(v) if len(v) and n != ZERO else np.nan
                for n, v in zip(names, values, strict=True)
            ]
            cells.append(leading([spread(v) for v in values], medians))
        ours = problem == SETTINGS[0].name
        header = ["method", "seeds", *columns, *(["published (joint, x = 1 / 0)"] if ours else [])]
        body = []
        for i, name in enumerate(names):
            published = PUBLISHED.get(name)
            beside = f"{published[0]:.3f} / {published[1]:.3f}" if published else "–"
            count = str(len(results.of(problem, name)))
            body.append([name, count, *(c[i] for c in cells), *([beside] if ours else [])])
        sizes = [r["settings"] for r in results.records if r["problem"] == problem]
        n = SETTINGS[0].donut.n_means * sizes[0]["n_per_mean"]
        title = f"**{problem}**, N = {n}: {DESCRIPTIONS[problem]}"
        parts.append(f"{title}\n\n{markdown_table(header, body)}")
    return "\n\n".join(parts)


def figures(results: Results) -> dict[str, Any]:
    """Cross-sections as in figure 1 of the paper, and box plots as in its figure 2."""
    from experiments.figures import box_panels, density_panels

    drawn = {}
    for setting in SETTINGS:
        names = results.methods(setting.name)
        if not names:
            continue
        tag = f"tilt_{setting.donut.axis}"
        shown = [n for n in (PAPER, DEFAULT, GP, REALNVP, KCEF) if results.arrays(setting.name, n)]
        if shown:
            densities = {n: results.arrays(setting.name, n)["density"] for n in shown}
            side = next(iter(densities.values())).shape[-1]
            truth = setting.donut.conditional_pdf(QUERIES[:, 0], square(side))
            panels = {"truth": truth.reshape(-1, side, side)} | densities
            drawn[f"cross_sections_{tag}"] = density_panels(panels, PLACES)
        data = {
            f"{target} target, {place}": {
                n: results.values(setting.name, n, f"{target}, {place}") for n in names if n != ZERO
            }
            for target in TARGETS
            for place in PLACES
        }
        drawn[f"errors_{tag}"] = box_panels(data, "$L_1(\\rho)$ error", columns=2)
    return drawn


STUDY = Study("donut", tasks, table, figures)
