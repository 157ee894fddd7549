"""Designs whose truth is known: how near the default comes to it, and whether it is too sure.

``python -m tests.fuzz.designs --seeds 5`` prints a table: mean log score of new rows under the
truth, under the default fit, a kernel estimate that ignores the inputs, and ridge regression with
normal noise, and the share of new outputs in central intervals of 50, 80, 90 and 95 %. A design is
marked where coverage is off by more than chance and a few per cent. ``--only linear`` runs one.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.linear_model import RidgeCV

import kcdo

LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
NEW_ROWS = 1000
ALLOWED = 0.06  # off the level, beyond chance


@dataclass(frozen=True)
class Design:
    """How inputs are drawn, and the distribution of the output given them."""

    rows: int
    columns: int
    given: Callable[[np.ndarray], "stats.rv_continuous | Mixture"]
    support: tuple[float | None, float | None] | None = None


class Mixture:
    """A mixture of two distributions, one output for each input."""

    def __init__(self, share: np.ndarray, first, second) -> None:
        self.share, self.first, self.second = share, first, second

    def rvs(self, random_state):
        """Draw one output for each input."""
        pick = random_state.random(len(self.share)) < self.share
        draws = (part.rvs(random_state=random_state) for part in (self.first, self.second))
        return np.where(pick, *draws)

    def logpdf(self, y):
        """Return the log density of each output."""
        first, second = self.first.logpdf(y), self.second.logpdf(y)
        return np.logaddexp(np.log(self.share) + first, np.log1p(-self.share) + second)


def _normal(mean, sd) -> "stats.rv_continuous":
    return stats.norm(mean, np.broadcast_to(sd, np.shape(mean)))


def _branches(X: np.ndarray) -> Mixture:
    spread = np.full(len(X), 0.3)
    return Mixture(
        np.full(len(X), 0.4), _normal(1 + X[:, 0], spread), _normal(-1 - X[:, 0], spread)
    )


DESIGNS = {
    "noise": Design(100, 1, lambda X: _normal(0.0 * X[:, 0], 1.0)),
    "linear": Design(100, 1, lambda X: _normal(X[:, 0], 0.5)),
    "linear, few rows": Design(50, 2, lambda X: _normal(X[:, 0], 0.5)),
    "linear, ten columns": Design(300, 10, lambda X: _normal(X @ np.linspace(1, 0, 10), 0.5)),
    "sine": Design(200, 1, lambda X: _normal(np.sin(2 * X[:, 0]), 0.3)),
    "product": Design(400, 2, lambda X: _normal(X[:, 0] * X[:, 1], 0.3)),
    "noise that grows": Design(300, 1, lambda X: _normal(X[:, 0], np.exp(X[:, 0] / 2) / 2)),
    "jump": Design(300, 1, lambda X: _normal(2.0 * (X[:, 0] > 0), 0.3)),
    "two branches": Design(300, 1, _branches),
    "student, 3": Design(300, 1, lambda X: stats.t(3, X[:, 0])),
    "cauchy": Design(300, 1, lambda X: stats.cauchy(X[:, 0])),
    "skewed": Design(300, 1, lambda X: stats.gamma(2.0, scale=np.exp(0.3 * X[:, 0]))),
    "positive": Design(
        300, 1, lambda X: stats.gamma(3.0, scale=np.exp(0.3 * X[:, 0])), (0.0, None)
    ),
    "share": Design(300, 1, lambda X: stats.beta(3.0, 3.0 + X[:, 0] ** 2), (0.0, 1.0)),
    "log-normal": Design(300, 1, lambda X: stats.lognorm(1.0, scale=np.exp(X[:, 0]))),
    "uniform": Design(300, 1, lambda X: stats.uniform(X[:, 0], 1.0)),
}


@dataclass(frozen=True)
class Outcome:
    """Log scores of new rows, and coverage at the levels."""

    truth: float
    model: float
    marginal: float
    ridge: float
    coverage: np.ndarray


def outcome(design: Design, seed: int) -> Outcome:
    """Return what one sample of a design gives."""
    rng = np.random.RandomState(seed)
    X, new = (rng.normal(size=(n, design.columns)) for n in (design.rows, NEW_ROWS))
    y, z = (np.asarray(design.given(inputs).rvs(random_state=rng)) for inputs in (X, new))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kcdo.KcdoWarning)
        model = kcdo.ConditionalDensityOperator(support=design.support).fit(X, y)
        dist = model.conditional(new)
        ends = dist.quantile(np.concatenate([0.5 - LEVELS / 2, 0.5 + LEVELS / 2]))
        score = float(np.mean(dist.logpdf_pairs(z)))
    low, high = ends[:, : len(LEVELS)], ends[:, len(LEVELS) :]
    covered = np.mean((low <= z[:, None]) & (z[:, None] <= high), axis=0)
    ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(X, y)
    noise = float(np.std(y - ridge.predict(X), ddof=design.columns + 1))
    return Outcome(
        float(np.mean(design.given(new).logpdf(z))),
        score,
        float(np.mean(np.maximum(stats.gaussian_kde(y).logpdf(z), -50.0))),
        float(np.mean(stats.norm(ridge.predict(new), noise).logpdf(z))),
        covered,
    )


def is_off(coverage: np.ndarray) -> np.ndarray:
    """Whether mean coverages (seeds, levels) miss their levels by more than chance and a little."""
    mean = coverage.mean(axis=0)
    chance = (
        3.0 * coverage.std(axis=0, ddof=1) / np.sqrt(len(coverage)) if len(coverage) > 1 else 0.1
    )
    return np.abs(mean - LEVELS) > ALLOWED + chance


def line(name: str, outcomes: list[Outcome]) -> str:
    """Return a row of the table."""
    scores = np.mean([[o.truth, o.model, o.marginal, o.ridge] for o in outcomes], axis=0)
    coverage = np.array([o.coverage for o in outcomes])
    numbers = [f"{score:.2f}" for score in scores]
    numbers += [f"{100 * share:.0f}" for share in coverage.mean(axis=0)]
    mark = "off" if is_off(coverage).any() else ""
    return f"| {name} | " + " | ".join(numbers) + f" | {mark} |"


HEAD = """| design | truth | kcdo | marginal KDE | ridge | 50 % | 80 % | 90 % | 95 % | |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(DESIGNS))
    options = parser.parse_args()
    print(HEAD)
    for name in options.only:
        outcomes = [outcome(DESIGNS[name], seed) for seed in range(options.seeds)]
        print(line(name, outcomes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
