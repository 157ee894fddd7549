"""Two branches that cross: y = ±sin x + 0.1 noise, where a location and a scale cannot be right.

    python -m benchmarks.branches [--seeds 10] [--rows 150 600] [--page docs/accuracy.md]

Prints the L1 error of the density at x = 0, where the branches meet, and at x = 1.5, where they
are apart, and the log score of 1,000 new rows: of the default, of the plain density alone and of
location and scale with 2 % of a tail. Inputs are uniform on [-2, 2]; a cell is the mean over seeds
± its standard error.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import norm

import kcdo
from experiments.pages import replace_table
from kcdo.arrays import Array

NOISE, AT = 0.1, np.array([0.0, 1.5])
METHODS = {
    "default": kcdo.Combination(),
    "plain alone": kcdo.Combination(plain=1.0),
    "location and scale alone": kcdo.Combination(location_scale=0.98, residual_tail=0.02),
}


def truth(x: Array, y: Array) -> Array:
    """Return p(y | x), (Q, Y)."""
    up, down = (norm.pdf(y, sign * np.sin(x)[:, None], NOISE) for sign in (1.0, -1.0))
    return 0.5 * (up + down)


def draw(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return inputs (n, 1) and outputs (n,)."""
    x = rng.uniform(-2.0, 2.0, n)
    return x[:, None], rng.choice([-1.0, 1.0], n) * np.sin(x) + NOISE * rng.standard_normal(n)


def errors(method: str, n: int, seed: int) -> Array:
    """Return the L1 errors at both places, and the log score of new rows."""
    rng = np.random.default_rng(seed)
    X, y = draw(n, rng)
    model = kcdo.ConditionalDensityOperator(combination=METHODS[method]).fit(X, y)
    grid = np.linspace(-2.5, 2.5, 4001)
    gaps = np.abs(model.conditional(AT[:, None]).pdf(grid) - truth(AT, grid))
    new, outputs = draw(1000, np.random.default_rng(1000 + seed))
    score = np.mean(model.conditional(new).logpdf_pairs(outputs))
    return np.append(gaps.sum(axis=1) * (grid[1] - grid[0]), score)


def table(seeds: int, sizes: list[int]) -> list[str]:
    """Return the lines of the table; what is measured is told as it comes."""
    lines = [
        "| rows | method | L1 at x = 0 | L1 at x = 1.5 | log score |",
        "|---|---|---|---|---|",
    ]
    for n in sizes:
        for method in METHODS:
            found = np.array([errors(method, n, seed) for seed in range(seeds)])
            spread = found.std(axis=0, ddof=1) / np.sqrt(seeds)
            cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(found.mean(axis=0), spread, strict=True)]
            lines.append(f"| {n} | {method} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table, and put it between the marks of a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, nargs="+", default=[150, 600])
    parser.add_argument("--page", type=Path, help="a page with the marks of this table")
    given = parser.parse_args()
    lines = table(given.seeds, given.rows)
    if given.page:
        replace_table(given.page, "\n".join(lines), "branches")


if __name__ == "__main__":
    main()
