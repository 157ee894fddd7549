"""What several outputs cost beside as many single ones: ratios of processor time in one run.

    python -m benchmarks.joint_speed [--outputs 3 8] [--rows 1000] [--quick] [--page PAGE]

A default fit of d outputs stands beside default fits of each of them alone, log densities and draws
beside those of each of them alone, both divided by the orders that the chain kept; draws also
beside as many distributions of one output, a draw of each, as each draw of a chain needs one for
every link; a sample input beside as many point queries; scores and reports beside those of each
output alone, scores as a function and as ``kcdo evaluate``, the whole command.
Processor time, as other work on the machine hardly changes it: set OMP_NUM_THREADS=1, or idle
threads of BLAS count too.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import kcdo
from benchmarks.speed import Row, table
from experiments.pages import replace_table
from kcdo.arrays import Array
from kcdo.commands.models import Model
from kcdo.commands.scores import scores

P = 8


@dataclass(frozen=True)
class Sizes:
    """How much is asked of a fit."""

    densities: int = 10_000
    queries: int = 100
    draws: int = 1_000
    points: int = 20_000
    scored: int = 100  # rows of evaluate and report
    table: int = 5_000  # rows of a long table that is evaluated

    @classmethod
    def quick(cls) -> "Sizes":
        """Return sizes that only try the script."""
        return cls(200, 5, 50, 200, 5, 20)


def outputs(n: int, d: int, seed: int = 0) -> tuple[Array, Array]:
    """Return inputs, and outputs each of which depends on an input and on the output before it."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, P)), np.zeros((n, d))
    for j in range(d):
        before = 0.5 * Y[:, j - 1] ** 2 if j else 0.0
        Y[:, j] = np.sin(X[:, j % P]) + before + 0.3 * rng.standard_normal(n)
    return X, (Y - Y.mean(axis=0)) / Y.std(axis=0)


def seconds(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return the processor time of one call, and its result."""
    started = processor_time()
    result = work(*given)
    return processor_time() - started, result


def processor_time() -> float:
    """Return the seconds of processors that this process and commands it ran have taken."""
    commands = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + commands.ru_utime + commands.ru_stime


def measured(d: int, n: int, sizes: Sizes) -> Iterator[Row]:
    """Yield the lines of the table for d outputs and n training rows, as they are measured."""
    X, Y = outputs(n, d)
    alone, singles = seconds(lambda: [default().fit(X, y) for y in Y.T])
    took, joint = seconds(lambda: default().fit(X, Y))
    orders = max(1, sum(name.startswith("chain") for name in joint.report_.weights))
    kind = f"d = {d}, {orders} order{'s' if orders > 1 else ''}"
    yield line(f"default fit, N = {n:,}, {kind}", took / orders, alone, "d fits of one", "≤ 1.5")
    for name, ask, target in questions(X, Y, sizes):
        took = seconds(ask, joint, Y)[0]
        each = sum(seconds(ask, *pair)[0] for pair in zip(singles, Y.T, strict=True))
        share = orders if target == "≤ 2" else 1
        yield line(f"{name}, {kind}", took / share, each, "each output alone", target)
    took = seconds(drawn, joint, X, sizes)[0] / orders
    each = sum(seconds(drawn_each, single, sizes)[0] for single in singles)
    name = f"{sizes.queries} × {sizes.draws:,} draws, {kind}"
    yield line(name, took, each, "as many distributions of each output, a draw of each", "≤ 2")
    took = seconds(sampled, joint, Y[:1], sizes)[0]
    each = seconds(pointwise, joint, Y[:1], sizes)[0]
    name = f"sample input of {sizes.points:,} points, {kind}"
    yield line(name, took, each, "as many point queries", "≤ 3")


def drawn(model: Any, X: Array, sizes: Sizes) -> Array:
    """Return many draws of a few distributions."""
    return model.conditional(X[: sizes.queries]).sample(sizes.draws, random_state=0)


def drawn_each(model: Any, sizes: Sizes) -> Array:
    """Return a draw of each of as many distributions."""
    many = replace(sizes, points=sizes.queries * sizes.draws)
    return model.conditional(new_inputs(many)).sample(1, random_state=0)


def sampled(model: Any, y: Array, sizes: Sizes) -> Array:
    """Return the log density of one output at an input that is many points."""
    return model.conditional(kcdo.SampleInput(new_inputs(sizes)[None])).logpdf_pairs(y)


def pointwise(model: Any, y: Array, sizes: Sizes) -> Array:
    """Return the log densities of one output at each of these points."""
    return model.conditional(new_inputs(sizes)).logpdf_pairs(np.repeat(y, sizes.points, axis=0))


def new_inputs(sizes: Sizes) -> Array:
    """Return inputs that no model was fitted to."""
    return outputs(sizes.points, 1, seed=2)[0]


def default() -> kcdo.ConditionalDensityOperator:
    """Return the default estimator."""
    return kcdo.ConditionalDensityOperator()


def questions(
    X: Array, Y: Array, sizes: Sizes
) -> list[tuple[str, Callable[[Any, Array], Any], str]]:
    """Return what a model and its outputs are asked, by name, with the ratio to reach."""
    rows = np.resize(np.arange(len(X)), sizes.densities)
    few = slice(0, sizes.scored)

    def densities(model: Any, y: Array) -> Array:
        return model.conditional(X[rows] + 1e-6).logpdf_pairs(y[rows])

    def draws(model: Any, _: Array) -> Array:
        return drawn(model, X, sizes)

    def evaluate(model: Any, y: Array) -> dict[str, Any]:
        return scores(Model.of(model), X[few], y[few])

    def report(model: Any, y: Array) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model.report(Path(folder) / "report.html", X[few], y[few])

    def command(model: Any, y: Array, asked: slice | Array = few) -> None:
        with tempfile.TemporaryDirectory() as folder:
            evaluate_command(model, X[asked], y[asked], Path(folder))

    def long_command(model: Any, y: Array) -> None:
        command(model, y, np.resize(np.arange(len(X)), sizes.table))

    return [
        (f"{sizes.densities:,} log densities", densities, "≤ 2"),
        (f"{sizes.queries} × {sizes.draws:,} draws", draws, "≤ 2"),
        (f"scores, {sizes.scored} rows", evaluate, "about 1"),
        (f"kcdo evaluate, {sizes.scored} rows", command, "about 1"),
        (f"kcdo evaluate, {sizes.table:,} rows", long_command, "about 1"),
        (f"report, {sizes.scored} rows", report, "about 1"),
    ]


def evaluate_command(model: Any, X: Array, y: Array, folder: Path) -> None:
    """Run ``kcdo evaluate``, the whole command, on a model file and a table of rows."""
    names = Model.of(model)
    model.save(folder / "model.kcdo")
    table = np.column_stack([X, y])
    header = ",".join([*names.given, *names.targets])
    np.savetxt(folder / "test.csv", table, delimiter=",", header=header, comments="")
    command = [sys.executable, "-m", "kcdo", "evaluate", "model.kcdo", "test.csv", "--json"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def line(case: str, ours: float, theirs: float, beside: str, target: str) -> Row:
    """Return a line of the table; ours is per order kept where that is asked."""
    return Row(case, beside, f"{ours:.3g} s", f"{theirs:.3g} s", f"{ours / theirs:.2f} ×", target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outputs", type=int, nargs="+", default=[3, 8])
    parser.add_argument("--rows", type=int, default=1000, help="training rows")
    parser.add_argument("--quick", action="store_true", help="few queries, to try the script")
    parser.add_argument("--page", type=Path, help="a page with the marks of this table")
    options = parser.parse_args()
    sizes = Sizes.quick() if options.quick else Sizes()
    rows: list[Row] = []
    for d in options.outputs:
        for row in measured(d, options.rows, sizes):
            rows.append(row)
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if options.page:
        replace_table(options.page, table(rows), "joint speed")


if __name__ == "__main__":
    main()
