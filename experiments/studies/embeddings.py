"""Recovering a density from a mean embedding: the paper's section 5 in numbers.

A sample of a known density is embedded with a Gaussian kernel of the normal reference scale. From
that embedding: the reconstruction C_ρ u = μ̂, distributional pre-images, herded super-samples;
beside them kernel density estimates, which see the sample. Errors are ∫ |p̂ - p|, from 0 to 2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kcdo
from experiments.markdown import leading, markdown_table, spread
from experiments.preimages import IsotropicMixture, preimage
from experiments.runner import Options, Outcome, Results, Study, Task
from experiments.studies.herding import HERDING, herding, herding_table
from kcdo.arrays import Array
from kcdo.distributions import make_positive
from kcdo.kernels import DensityKernel
from kcdo.measures import Grid
from kcdo.reconstruction import Reconstruction

EMBEDDING = "the embedding itself, normalised"
FIXED = "reconstruction, α' = 0.1"
CHOSEN = "reconstruction, α' by five folds"
BOTH = "reconstruction, scale and α' by five folds"
BEST = "reconstruction, best scale and α' in hindsight"
PREIMAGE_TRUE = "pre-image, the true number of components"
PREIMAGE_OTHER = "pre-image, another number of components"
KDE_CHOSEN = "kernel density estimate, bandwidth by five folds"
KDE_BEST = "kernel density estimate, best bandwidth in hindsight"
ERROR = "L1 error"

_RIDGES = np.geomspace(1e-5, 10.0, 13)
_FACTORS = 2.0 ** np.arange(-3.5, 1.25, 0.25)  # of the normal reference scale
_FOLDS = 5
_KEPT = 200  # super-samples in a density estimate
SUPER_SAMPLES = f"{_KEPT} super-samples, smoothed at best"
DRAWS = f"{_KEPT} draws, smoothed at best"


@dataclass(frozen=True)
class Problem:
    """A density that is known, a box around it, and a wrong number of components to try."""

    truth: IsotropicMixture
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n: int
    nodes: int
    components: int

    @property
    def grid(self) -> Grid:
        """Where densities are computed and compared."""
        box = kcdo.UniformBox(self.lower, self.upper, nodes=self.nodes)
        return box.realise(np.zeros((1, len(self.lower))))


def problems(quick: bool) -> dict[str, Problem]:
    """Two mixtures in one dimension, and the donut seen from above."""
    n, nodes = (300, 200) if quick else (1000, 800)
    two = IsotropicMixture(np.array([0.7, 0.3]), np.array([[-1.0], [1.5]]), np.array([0.6, 0.2]))
    fingers = np.linspace(-1.0, 1.0, 5)
    claw = IsotropicMixture(  # Marron and Wand (1992), no. 10
        np.array([0.5, *[0.1] * 5]), np.array([0.0, *fingers])[:, None], np.array([1.0, *[0.1] * 5])
    )
    donut = kcdo.Donut()
    means = donut.means[:, :2]
    ring = IsotropicMixture(np.full(len(means), 1 / len(means)), means, np.full(len(means), 0.1))
    n_ring, side = (500, 48) if quick else (2500, 100)
    return {
        "two bumps": Problem(two, (-4.0,), (3.5,), n, nodes, 5),
        "claw": Problem(claw, (-4.5,), (4.5,), n, nodes, 3),
        "donut, (x, y)": Problem(ring, (-2.0, -2.0), (2.0, 2.0), n_ring, side, 10),
    }


def reference_scale(points: Array) -> float:
    """The normal reference bandwidth, one for all columns."""
    n, d = points.shape
    return float(points.std(axis=0).mean() * (4 / ((d + 2) * n)) ** (1 / (d + 4)))


def reconstructions(points: Array, grid: Grid, scale: float, ridges: Array) -> Array:
    """Densities on the grid for each α', (R, M)."""
    kernel = DensityKernel(kcdo.Gaussian(scale), grid.dim)
    mean = Reconstruction(grid, kernel, 1.0).combine(np.full((1, len(points)), 1.0), points)
    signed = np.concatenate(
        [Reconstruction(grid, kernel, ridge).reconstruct(mean) for ridge in ridges]
    )
    signed /= (signed @ grid.weights)[:, None]
    return make_positive(signed, grid.weights, "project")


def kde(points: Array, grid: Grid, scale: float) -> Array:
    """A kernel density estimate on the grid, normalised there, (1, M)."""
    kernel = DensityKernel(kcdo.Gaussian(scale), grid.dim)
    values = Reconstruction(grid, kernel, 1.0).combine(np.full((1, len(points)), 1.0), points)
    return values / (values @ grid.weights)[:, None]


def five_folds(points: Array, grid: Grid, densities: Callable[[Array], Array]) -> int:
    """Which of the densities has the least held-out ∫p² - 2 mean p(y); rows are in random order."""
    losses: Array | float = 0.0
    for fold in range(_FOLDS):
        held = np.arange(len(points)) % _FOLDS == fold
        p = densities(points[~held])
        losses = losses + p**2 @ grid.weights - 2 * (grid.interpolation(points[held]) @ p.T).mean(0)
    return int(np.argmin(losses))


def tasks(options: Options) -> list[Task]:
    """Every method on every problem; the seed is that of the sample."""
    found = []
    for seed in range(options.at_most(1 if options.quick else 5)):
        for name, problem in problems(options.quick).items():
            sizes = {"n": problem.n, "nodes": problem.nodes}
            for method, function in methods(problem).items():
                run = _deferred(function, problem, seed)
                found.append(Task(name, method, seed, sizes, run))
    return found


def _deferred(function: Any, problem: Problem, seed: int) -> Any:
    def run() -> Outcome:
        points = problem.truth.sample(problem.n, np.random.default_rng(seed))
        return function(problem, points, seed)

    return run


def methods(problem: Problem) -> dict[str, Callable[[Problem, Array, int], Outcome]]:
    """The rows of the table, by name."""
    return {
        EMBEDDING: _embedding,
        FIXED: _fixed,
        CHOSEN: _chosen,
        BOTH: _both,
        BEST: _best,
        PREIMAGE_TRUE: _preimage(len(problem.truth.weights)),
        PREIMAGE_OTHER: _preimage(problem.components),
        SUPER_SAMPLES: _smoothed(herded=True),
        DRAWS: _smoothed(herded=False),
        KDE_CHOSEN: _kde_chosen,
        KDE_BEST: _kde_best,
        HERDING: lambda problem, points, seed: herding(problem, embedded(points), seed),
    }


def _outcome(problem: Problem, density: Array, seed: int, **scores: float) -> Outcome:
    grid = problem.grid
    error = np.abs(density - problem.truth.pdf(grid.nodes)) @ grid.weights
    arrays = {"density": density.reshape(grid.shape)} if seed == 0 else {}
    return Outcome({ERROR: float(error), **scores}, arrays)


def _least_error(problem: Problem, densities: Array) -> int:
    grid = problem.grid
    return int(np.argmin(np.abs(densities - problem.truth.pdf(grid.nodes)) @ grid.weights))


def _embedding(problem: Problem, points: Array, seed: int) -> Outcome:
    return _outcome(problem, kde(points, problem.grid, reference_scale(points))[0], seed)


def _fixed(problem: Problem, points: Array, seed: int) -> Outcome:
    scale, ridge = reference_scale(points), np.array([0.1])
    return _outcome(problem, reconstructions(points, problem.grid, scale, ridge)[0], seed)


def _chosen(problem: Problem, points: Array, seed: int) -> Outcome:
    grid, scale = problem.grid, reference_scale(points)
    best = five_folds(points, grid, lambda part: reconstructions(part, grid, scale, _RIDGES))
    density = reconstructions(points, grid, scale, _RIDGES[best : best + 1])[0]
    return _outcome(problem, density, seed, ridge=_RIDGES[best])


def _all_scales(points: Array, grid: Grid, scales: Array, ridges: Array) -> Array:
    return np.concatenate([reconstructions(points, grid, s, ridges) for s in scales])


def _both(problem: Problem, points: Array, seed: int) -> Outcome:
    grid, scales = problem.grid, reference_scale(points) * _FACTORS[::2]
    ridges = _RIDGES[::3]
    best = five_folds(points, grid, lambda part: _all_scales(part, grid, scales, ridges))
    return _outcome(problem, _all_scales(points, grid, scales, ridges)[best], seed)


def _best(problem: Problem, points: Array, seed: int) -> Outcome:
    scales = reference_scale(points) * _FACTORS[::2]
    found = _all_scales(points, problem.grid, scales, _RIDGES)
    return _outcome(problem, found[_least_error(problem, found)], seed)


def _preimage(components: int) -> Callable[[Problem, Array, int], Outcome]:
    def run(problem: Problem, points: Array, seed: int) -> Outcome:
        found = preimage(points, reference_scale(points), components, seed)
        return _outcome(problem, found.pdf(problem.grid.nodes), seed)

    return run


def _all_bandwidths(points: Array, grid: Grid, scales: Array) -> Array:
    return np.concatenate([kde(points, grid, scale) for scale in scales])


def _kde_chosen(problem: Problem, points: Array, seed: int) -> Outcome:
    grid, scales = problem.grid, reference_scale(points) * _FACTORS
    best = five_folds(points, grid, lambda part: _all_bandwidths(part, grid, scales))
    return _outcome(problem, kde(points, grid, scales[best])[0], seed)


def _kde_best(problem: Problem, points: Array, seed: int) -> Outcome:
    found = _all_bandwidths(points, problem.grid, reference_scale(points) * _FACTORS)
    return _outcome(problem, found[_least_error(problem, found)], seed)


def _smoothed(herded: bool) -> Callable[[Problem, Array, int], Outcome]:
    def run(problem: Problem, points: Array, seed: int) -> Outcome:
        chosen = embedded(points).herd(_KEPT) if herded else points[:_KEPT]
        scales = reference_scale(points) * _FACTORS * 1.5  # fewer points, wider kernels
        found = _all_bandwidths(chosen, problem.grid, scales)
        return _outcome(problem, found[_least_error(problem, found)], seed)

    return run


def embedded(points: Array) -> kcdo.SampleEmbedding:
    """The mean embedding of a sample under the Gaussian kernel of the normal reference scale."""
    kernel = DensityKernel(kcdo.Gaussian(reference_scale(points)), points.shape[1])
    return kcdo.SampleEmbedding(points, kernel=kernel)


def table(results: Results) -> str:
    """Errors of the densities, then the rates of herding."""
    names = results.problems()
    rows = list(dict.fromkeys(m for name in names for m in results.methods(name) if m != HERDING))
    cells = []
    for problem in names:
        values = [results.values(problem, row, ERROR) for row in rows]
        medians = [np.median(v) if len(v) else np.nan for v in values]
        cells.append(leading([spread(v, 3) for v in values], medians))
    body = [[row, *(c[i] for c in cells)] for i, row in enumerate(rows)]
    first = markdown_table(["L1 error", *names], body)
    return f"{first}\n\n{herding_table(results)}"


def figures(results: Results) -> dict[str, Any]:
    """Densities beside the truth, and the errors of herding."""
    from experiments.figures import embedding_densities, herding_curves

    drawn: dict[str, Any] = {}
    sizes = {r["problem"]: r["settings"] for r in results.records}
    quick = any(s["n"] < 1000 for s in sizes.values())
    known = {name: p for name, p in problems(quick).items() if name in sizes}
    if known:
        shown = (EMBEDDING, CHOSEN, PREIMAGE_TRUE, PREIMAGE_OTHER, KDE_CHOSEN)
        densities = {}
        for name in known:
            found = {m: results.arrays(name, m) for m in shown}
            densities[name] = {m: a["density"] for m, a in found.items() if a}
        drawn["densities"] = embedding_densities(known, densities)
        drawn["herding"] = herding_curves({name: results.of(name, HERDING) for name in known})
    return drawn


STUDY = Study("embeddings", tasks, table, figures)
