"""Kernel herding: integration errors of super-samples beside those of random draws.

Chen, Welling and Smola: Super-samples from kernel herding (UAI 2010). The distance of the first n
super-samples to the embedding falls like 1/n in finite dimension, that of n draws like 1/√n.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import kcdo
from experiments.markdown import markdown_table
from experiments.preimages import IsotropicMixture
from experiments.runner import Outcome, Results
from kcdo.arrays import Array

HERDING = "herding"
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_REPEATS = 20


class Problem(Protocol):
    """A density that is known, and a box around it."""

    truth: IsotropicMixture
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    nodes: int


def herding(problem: Problem, embedding: kcdo.SampleEmbedding, seed: int) -> Outcome:
    """Integration errors of n super-samples and of n draws, as n grows.

    In the RKHS: the distance to the given embedding, the worst case over its unit ball. Of four
    functions against the true density: root mean square over functions, in units of their sd.
    """
    points = embedding.points
    counts = [n for n in COUNTS if n <= len(points) // 2]
    herded = embedding.herd(counts[-1])
    rng = np.random.default_rng(seed)
    draws = [points[rng.choice(len(points), counts[-1])] for _ in range(_REPEATS)]
    fresh = [problem.truth.sample(counts[-1], rng) for _ in range(_REPEATS)]
    expected = Expectations.of(problem)
    scores: dict[str, Any] = {"n": counts}
    distance = _distances(embedding)
    scores["distance, herding"] = [distance(herded[:n]) for n in counts]
    scores["distance, draws"] = [_rms([distance(d[:n]) for d in draws]) for n in counts]
    scores["error, herding"] = [expected.error(herded[:n]) for n in counts]
    scores["error, draws"] = [_rms([expected.error(d[:n]) for d in fresh]) for n in counts]
    scores["error, all the sample"] = expected.error(points)
    large = np.log([n for n in counts if n >= 5])
    for kind in ("herding", "draws"):
        values = np.log(scores[f"distance, {kind}"][-len(large) :])
        scores[f"slope, {kind}"] = float(np.polyfit(large, values, 1)[0])
    return Outcome(scores)


def _distances(embedding: kcdo.SampleEmbedding) -> Callable[[Array], float]:
    own = embedding(embedding.points).mean()

    def distance(sample: Array) -> float:
        other = kcdo.SampleEmbedding(sample, kernel=embedding.kernel)
        squared = own + other(sample).mean() - 2 * embedding(sample).mean()
        return float(np.sqrt(max(squared, 0.0)))

    return distance


@dataclass(frozen=True)
class Expectations:
    """Expectations and sds of the test functions under the true density."""

    mean: Array
    sd: Array

    @classmethod
    def of(cls, problem: Problem) -> "Expectations":
        """By the grid of the problem, eight times as fine in one dimension."""
        fine = 8 * problem.nodes if len(problem.lower) == 1 else 4 * problem.nodes
        box = kcdo.UniformBox(problem.lower, problem.upper, nodes=fine)
        grid = box.realise(np.zeros((1, len(problem.lower))))
        masses = problem.truth.pdf(grid.nodes) * grid.weights
        values = _functions(grid.nodes)
        mean = masses @ values / masses.sum()
        return cls(mean, np.sqrt(masses @ (values - mean) ** 2 / masses.sum()))

    def error(self, sample: Array) -> float:
        """Root mean square error of the sample's averages, in units of sd."""
        return _rms((_functions(sample).mean(axis=0) - self.mean) / self.sd)


def _functions(points: Array) -> Array:
    """y, y², sin 3y and whether y > 0.5, of the first coordinate, (n, 4)."""
    y = points[:, 0]
    return np.column_stack([y, y**2, np.sin(3 * y), y > 0.5])


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def herding_table(results: Results) -> str:
    """Slopes of the distance over n in logarithms, and errors at some n."""
    body = []
    for problem in results.problems():
        runs = results.of(problem, HERDING)
        if not runs:
            continue
        counts = runs[0]["scores"]["n"]
        for kind in ("herding", "draws"):
            slope = np.median([r["scores"][f"slope, {kind}"] for r in runs])
            errors = np.median([r["scores"][f"error, {kind}"] for r in runs], axis=0)
            chosen = {n: e for n, e in zip(counts, errors, strict=True) if n in (10, 100, 500)}
            numbers = [f"{chosen[n]:.3f}" if n in chosen else "–" for n in (10, 100, 500)]
            body.append([problem, kind, f"{slope:.2f}", *numbers])
    sizes = [f"error, n = {n}" for n in (10, 100, 500)]
    return markdown_table(["problem", "points", "slope of the RKHS distance", *sizes], body)
