"""Fits whose answers are frozen: what a change of structure must not change.

``python -m tests.frozen write FILE`` keeps the answers of every case, ``python -m tests.frozen
check FILE`` compares with them; names after FILE choose cases. ``tests/test_frozen.py`` compares a
few of them with ``tests/data/frozen.npz`` in every run of the tests.
"""

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import kcdo
from kcdo.components import StreamEffort
from tests.efforts import SHORT

Answers = dict[str, np.ndarray]
M = kcdo.ConditionalDensityOperator
CASES: dict[str, Callable[[], Answers]] = {}
QUICK = (
    "heuristic",
    "heuristic-discrete-weights",
    "paper",
    "iterative",
    "nystrom-heuristic",
    "auto-small",
    "auto-two-outputs",
    "chunks-heuristic",
    "groups",
    "time",
    "rows-at",
    "saved",
)
_LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def case(name: str) -> Callable[[Callable[[], Answers]], Callable[[], Answers]]:
    """Register a function that returns answers."""

    def register(function: Callable[[], Answers]) -> Callable[[], Answers]:
        CASES[name] = function
        return function

    return register


def data(n: int = 120, p: int = 2, d: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, p) and outputs (n,) or (n, d): two modes, noise that varies."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, p))
    branch = rng.choice([-1.0, 1.0], (n, d))
    Y = branch * np.sin(X[:, [0]]) + (0.1 + 0.1 * np.abs(X[:, [-1]])) * rng.normal(size=(n, d))
    Y += 0.5 * np.arange(d) * X[:, [0]]
    return X, Y[:, 0] if d == 1 else Y


def answers(model: Any, queries: Any, Y: np.ndarray) -> Answers:
    """Return densities, quantiles or draws, moments and the numbers of the report."""
    dist = model.conditional(queries)
    found = {"mean": dist.mean()}
    if model.positivity != "signed":
        if Y.ndim == 1:
            points = np.linspace(Y.min() - 0.5, Y.max() + 0.5, 41)
            found |= {"pdf": dist.pdf(points), "cdf": dist.cdf(points)}
            found["quantile"] = dist.quantile(_LEVELS)
        else:
            found["pdf"] = dist.pdf(Y[:20])
            found["sample"] = dist.sample(3, random_state=0)
        found["variance"] = dist.var()
    report = model.report_
    numbers = [report.alpha, report.alpha_prime, report.n_centres, report.n_nodes, report.n_samples]
    found["report"] = np.array([*numbers, *report.weights.values()])
    return found


def fitted(X: Any, Y: np.ndarray, *, weight: Any = None, queries: Any = None, **options: Any):
    """Fit and answer at a few inputs."""
    model = M(**options).fit(X, Y, sample_weight=weight)
    return answers(model, X[:6] if queries is None else queries, Y)


@case("heuristic")
def _() -> Answers:
    return fitted(*data(), selection="heuristic")


@case("heuristic-discrete-weights")
def _() -> Answers:
    X, y = data(200, 1)
    return fitted(X, np.round(4 * y), weight=np.arange(200) % 4, selection="heuristic")


@case("heuristic-fractional-weights")
def _() -> Answers:
    X, y = data(100)
    return fitted(X, y, weight=np.linspace(0.1, 1.3, 100), selection="heuristic")


@case("heuristic-grouped")
def _() -> Answers:
    X, y = data(300)
    return fitted(np.round(X), y, selection="heuristic")


@case("heuristic-bounded")
def _() -> Answers:
    X, y = data()
    return fitted(X, np.exp(y), selection="heuristic", support=(0, None))


@case("heuristic-two-outputs")
def _() -> Answers:
    return fitted(*data(d=2), selection="heuristic")


@case("heuristic-three-outputs")
def _() -> Answers:
    return fitted(*data(60, d=3), selection="heuristic")


@case("heuristic-four-outputs")
def _() -> Answers:
    return fitted(*data(60, d=4), selection="heuristic")


@case("heuristic-quasi-random")
def _() -> Answers:
    reference = kcdo.QuasiRandomBox(-3.0, 3.0, 300)
    return fitted(*data(60), selection="heuristic", reference=reference)


@case("heuristic-float32")
def _() -> Answers:
    return fitted(*data(), selection="heuristic", solver=kcdo.Exact(dtype="float32"))


@case("heuristic-clip-laplace")
def _() -> Answers:
    options = {"kernel_x": kcdo.Laplace(), "kernel_y": kcdo.Laplace(0.2), "positivity": "clip"}
    return fitted(*data(), selection="heuristic", **options)


@case("heuristic-signed")
def _() -> Answers:
    return fitted(*data(), selection="heuristic", positivity="signed", alpha_prime=1e-3)


@case("given-product-kernel")
def _() -> Answers:
    kernel = kcdo.Gaussian(0.7).on([0]) * kcdo.Periodic(4.0, 1.0).on([1]) + kcdo.Matern(1.0)
    return fitted(*data(), selection="heuristic", kernel_x=kernel, alpha=1e-3, alpha_prime=0.2)


@case("sklearn-kernel")
def _() -> Answers:
    from sklearn.gaussian_process.kernels import RBF

    return fitted(*data(), selection="heuristic", kernel_x=RBF(0.8))


@case("iterated-filter")
def _() -> Answers:
    return fitted(*data(), selection="heuristic", filter=kcdo.IteratedTikhonov(3))


@case("paper")
def _() -> Answers:
    return fitted(*data(80), selection="paper")


@case("paper-two-outputs")
def _() -> Answers:
    return fitted(*data(80, d=2), selection="paper")


@case("iterative")
def _() -> Answers:
    return fitted(*data(), selection="heuristic", solver=kcdo.Iterative(rank=20, tolerance=1e-13))


@case("iterative-grid")
def _() -> Answers:
    X, y = data(200)
    solver = kcdo.Iterative(rank=20, tolerance=1e-13)
    return fitted(np.round(4 * X) / 4, y, selection="heuristic", solver=solver)


@case("nystrom-heuristic")
def _() -> Answers:
    return fitted(*data(400), selection="heuristic", solver=kcdo.Nystrom(centers=30))


@case("nystrom-uniform-weights")
def _() -> Answers:
    X, y = data(400)
    solver = kcdo.Nystrom(centers=30, choice="uniform")
    return fitted(X, y, weight=np.linspace(0.5, 2, 400), selection="heuristic", solver=solver)


@case("auto-small")
def _() -> Answers:
    # one mode: of 60 rows on two branches, the last bits of a processor choose the components
    X, _ = data(60, 1, seed=1)
    noise = np.random.default_rng(2).normal(size=60)
    return fitted(X, np.sin(X[:, 0]) + (0.1 + 0.1 * np.abs(X[:, 0])) * noise)


@case("auto-middle")
def _() -> Answers:
    return fitted(*data(500, 3))


@case("auto-few")
def _() -> Answers:
    return fitted(*data(12))


@case("auto-long-tails")
def _() -> Answers:
    X, y = data(150)
    return fitted(np.exp(2 * X), y)


@case("auto-discrete")
def _() -> Answers:
    X, y = data(150)
    return fitted(X, np.round(3 * y))


@case("auto-bounded")
def _() -> Answers:
    X, y = data(100)
    return fitted(X, np.exp(y), support=(0, None))


@case("auto-weights")
def _() -> Answers:
    X, y = data(100)
    return fitted(X, y, weight=np.linspace(0.0, 2.0, 100))


@case("auto-grouped")
def _() -> Answers:
    X, y = data(200, 1)
    return fitted(np.round(2 * X), y)


@case("auto-some-twins")
def _() -> Answers:
    X, y = data(120, 2)
    X[::7] = X[1]
    return fitted(X, y)


@case("auto-categories")
def _() -> Answers:
    import pandas as pd

    X, y = data(150)
    group = pd.Categorical(np.where(X[:, 1] > 0.5, "a", np.where(X[:, 1] > -1, "b", "c")))
    frame = pd.DataFrame({"x": X[:, 0], "g": group})
    return fitted(frame, y, queries=frame.iloc[:6])


@case("auto-given-scale")
def _() -> Answers:
    return fitted(*data(), kernel_x=kcdo.Gaussian(0.6), alpha=1e-3)


@case("auto-periodic")
def _() -> Answers:
    kernel = kcdo.Automatic().on([0]) * kcdo.Periodic(4.0).on([1])
    return fitted(*data(), kernel_x=kernel)


@case("auto-two-outputs")
def _() -> Answers:
    return fitted(*data(60, 1, d=2))


@case("auto-combination")
def _() -> Answers:
    return fitted(*data(), combination=kcdo.Combination(plain=0.3, normal=0.1))


@case("auto-plain-only")
def _() -> Answers:
    return fitted(*data(), reference=kcdo.UniformBox(-3.0, 3.0, nodes=120))


@case("auto-near-rows")
def _() -> Answers:
    return fitted(*data(2300), solver=kcdo.Nystrom(centers=60))


@case("auto-iterative")
def _() -> Answers:
    return fitted(*data(60), solver=kcdo.Iterative(rank=20, tolerance=1e-13))


@case("uncertain-gaussian")
def _() -> Answers:
    X, y = data(80)
    inputs = kcdo.GaussianInput(X[:3], 0.1)
    first = fitted(X, y, queries=inputs)
    second = fitted(X, y, queries=inputs, selection="heuristic")
    return first | {f"heuristic-{name}": value for name, value in second.items()}


@case("uncertain-sample")
def _() -> Answers:
    X, y = data(80)
    return fitted(X, y, queries=kcdo.SampleInput([X[:5], X[5:7]]))


@case("refit")
def _() -> Answers:
    X, y = data(80)
    model = M().fit(X, y)
    return answers(model.refit(*data(70, seed=1)), X[:6], y)


def _chunks(n: int) -> list[Any]:
    X, y = data(n)
    return [(X[i : i + 150], y[i : i + 150]) for i in range(0, n, 150)]


@case("chunks-heuristic")
def _() -> Answers:
    X, y = data(600)
    model = M(selection="heuristic", solver=kcdo.Nystrom(centers=40)).fit(_chunks(600))
    return answers(model, X[:6], y)


@case("chunks-auto")
def _() -> Answers:
    X, y = data(600)
    return answers(M(solver=kcdo.Nystrom(centers=40)).fit(_chunks(600)), X[:6], y)


def _with_kin(**labels: np.ndarray) -> Answers:
    X, y = data(60, 1)
    return answers(M().fit(X, y, **labels), X[:6], y)


@case("groups")
def _() -> Answers:
    return _with_kin(groups=np.arange(60) // 3)


@case("time")
def _() -> Answers:
    return _with_kin(time=np.arange(60) // 2)


@case("rows-at")
def _() -> Answers:
    X, y = data(600)
    # a sample of fewer rows than there are, so that near rows among all of them are sought
    effort = replace(SHORT, streamed=StreamEffort(sample_rows=200))
    model = M(solver=kcdo.Nystrom(centers=20))
    with patch("kcdo.estimators.conditional.EFFORT", effort), TemporaryDirectory() as folder:
        return answers(model.fit(_chunks(600), rows_at=f"{folder}/rows"), X[:6], y)


@case("partial-fit-merge")
def _() -> Answers:
    X, y = data(600)
    model = M(selection="heuristic", solver=kcdo.Nystrom(centers=40))
    model.partial_fit(X[:200], y[:200])
    other = model.worker().partial_fit(X[200:400], y[200:400])
    model.partial_fit(X[400:], y[400:])
    return answers(model.merge(other), X[:6], y)


@case("saved")
def _() -> Answers:
    X, y = data(70)
    found: Answers = {}
    fits = {"auto": M().fit(X, y), "heuristic": M(selection="heuristic").fit(X, y)}
    with TemporaryDirectory() as folder:
        for name, model in fits.items():
            model.save(f"{folder}/{name}.kcdo")
            loaded = answers(kcdo.load(f"{folder}/{name}.kcdo"), X[:6], y)
            found |= {f"{name}-{key}": value for key, value in loaded.items()}
    return found


@case("mean-operator")
def _() -> Answers:
    X, y = data()
    model = kcdo.ConditionalMeanOperator().fit(X, y)
    return {"mean": model.predict(X[:6]), "square": model.expect(lambda v: v**2, X[:6])}


@case("density-reconstruction")
def _() -> Answers:
    X, _ = data(d=2)
    model = kcdo.DensityReconstruction().fit(X)
    ratio = kcdo.DensityReconstruction(reference=kcdo.Sample(X[60:]), alpha_prime=0.1).fit(X[:60])
    return {"log": model.score_samples(X[:9]), "ratio": ratio.density_.pdf(X[:9])}


def run(name: str) -> Answers:
    """Return the answers of one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {key: np.asarray(value, float) for key, value in CASES[name]().items()}


def deviation(found: Answers, frozen: Answers) -> float:
    """Return the largest difference, relative to the largest number of its array."""
    if set(found) != set(frozen) or any(found[k].shape != frozen[k].shape for k in found):
        return np.inf
    return max(_difference(found[key], frozen[key]) for key in found)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    top = np.max(np.abs(b[np.isfinite(b)]), initial=1e-300)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    far = np.where(same, 0.0, np.abs(a - b) / top)
    return float(np.max(np.where(np.isnan(far), np.inf, far), initial=0.0))


def read(path: Path) -> dict[str, Answers]:
    """Return the frozen answers of each case."""
    found: dict[str, Answers] = {}
    with np.load(path) as archive:
        for key in archive.files:
            name, _, part = key.partition("/")
            found.setdefault(name, {})[part] = archive[key]
    return found


def write(path: Path, names: list[str]) -> None:
    """Write the answers of some cases."""
    flat = {}
    for name in names:
        started = time.perf_counter()
        flat |= {f"{name}/{part}": value for part, value in run(name).items()}
        print(f"{name:32s} {time.perf_counter() - started:6.1f} s", flush=True)
    np.savez_compressed(path, **flat)


def check(path: Path, names: list[str], tolerance: float = 1e-10) -> bool:
    """Print how far each case is from its frozen answers; return whether all are as they were."""
    frozen, good = read(path), True
    for name in names:
        far = deviation(run(name), frozen[name])
        good = good and far <= tolerance
        print(f"{'ok  ' if far <= tolerance else 'FAR '} {name:32s} {far:.1e}", flush=True)
    return good


if __name__ == "__main__":
    action, file, *chosen = sys.argv[1:]
    every = [name for name in CASES if name in chosen or not chosen]
    if action == "write":
        write(Path(file), every)
    elif not check(Path(file), every):
        sys.exit(1)
