"""Designs whose truth is known: how near the default comes to it, and whether it is too sure.

``python -m tests.fuzz.designs --seeds 5`` prints a table: mean log score of new rows under the
truth, under the default fit, a kernel estimate that ignores the inputs, and ridge regression with
normal noise, and the share of new outputs in central intervals of 50, 80, 90 and 95 %. A design is
marked where coverage is off by more than chance and a few per cent, and the exit code says whether
one is. ``--only sine`` runs one.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    judged: int = 0  # the first level that is judged: in an atom a narrow interval may end
    outlier: float = 0.0  # how far off the first output is


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


class OrZero:
    """Zero with some probability, else positive: the density of a zero is its probability."""

    def __init__(self, share: float, positive) -> None:
        self.share, self.positive = share, positive

    def rvs(self, random_state):
        """Draw one output for each input."""
        draws = self.positive.rvs(random_state=random_state)
        return np.where(random_state.random(len(draws)) < self.share, 0.0, draws)

    def logpdf(self, y):
        """Return the log density of each output."""
        others = np.log1p(-self.share) + self.positive.logpdf(y)
        return np.where(y == 0.0, np.log(self.share), others)


def _normal(mean, sd=0.5) -> "stats.rv_continuous":
    return stats.norm(mean, np.broadcast_to(sd, np.shape(mean)))


def _about(mean: Callable[[np.ndarray], np.ndarray], sd: float = 0.5) -> Any:
    """Return normal outputs about a function of the inputs."""
    return lambda X: _normal(mean(X), sd)


def _spread(sd: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Return normal outputs whose spread is a function of the first input."""
    return lambda X: _normal(np.sin(X[:, 0]), sd(X[:, 0]))


def _branches(distance: Callable[[np.ndarray], np.ndarray], share: float = 0.4) -> Any:
    """Return outputs on either side of 0."""

    def given(X: np.ndarray) -> Mixture:
        away = distance(X[:, 0])
        return Mixture(np.full(len(X), share), _normal(away, 0.3), _normal(-away, 0.3))

    return given


def _contaminated(X: np.ndarray) -> Mixture:
    return Mixture(np.full(len(X), 0.95), _normal(X[:, 0]), _normal(X[:, 0], 10.0))


def _nothing(X: np.ndarray) -> np.ndarray:
    return np.zeros(len(X))


def _first(X: np.ndarray) -> np.ndarray:
    return X[:, 0]


def _friedman(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0] * X[:, 1]) + (X[:, 2] - 0.5) ** 2 / 2 + X[:, 3] - X[:, 4] / 2


_POSITIVE, _SHARE = (0.0, None), (0.0, 1.0)
DESIGNS = {
    # what the inputs say nothing of, and straight lines, with few rows and many
    **{f"noise, {n} rows": Design(n, 1, _about(_nothing)) for n in (5, 10, 20, 50, 100, 1000)},
    **{f"linear, {n} rows": Design(n, 1, _about(_first)) for n in (5, 10, 20, 50, 100, 1000)},
    "noise, 20 rows of 3": Design(20, 3, _about(_nothing)),
    "noise, 30 rows of 10": Design(30, 10, _about(_nothing)),
    "noise, 100 rows of 50": Design(100, 50, _about(_nothing)),
    "linear, 50 rows of 2": Design(50, 2, _about(_first)),
    "linear, 30 rows of 10": Design(30, 10, _about(_first)),
    "linear, 300 rows of 10": Design(300, 10, _about(lambda X: X @ np.linspace(1, 0, 10))),
    "sparse, 100 rows of 50": Design(100, 50, _about(lambda X: X[:, 0] + X[:, 1] / 2)),
    "dense, 100 rows of 50": Design(100, 50, _about(lambda X: X.sum(axis=1) / 7)),
    # other means
    "quadratic": Design(200, 1, _about(lambda X: X[:, 0] ** 2 / 2)),
    "sine": Design(200, 1, _about(lambda X: np.sin(2 * X[:, 0]), 0.3)),
    "fast sine": Design(300, 1, _about(lambda X: np.sin(6 * X[:, 0]), 0.3)),
    "jump": Design(300, 1, _about(lambda X: 2.0 * (X[:, 0] > 0), 0.3)),
    "kink": Design(200, 1, _about(lambda X: np.abs(X[:, 0]), 0.3)),
    "product": Design(400, 2, _about(lambda X: X[:, 0] * X[:, 1], 0.3)),
    "ring": Design(400, 2, _about(lambda X: np.hypot(X[:, 0], X[:, 1]), 0.2)),
    "five columns": Design(400, 5, _about(_friedman)),
    "five of ten columns": Design(300, 10, _about(_friedman)),
    "additive": Design(300, 4, _about(lambda X: np.sin(2 * X).sum(axis=1), 0.3)),
    "hardly any noise": Design(200, 1, _about(lambda X: np.sin(X[:, 0]), 0.01)),
    # noise that varies
    "noise that grows": Design(300, 1, lambda X: _normal(X[:, 0], np.exp(X[:, 0] / 2) / 2)),
    "noise that jumps": Design(300, 1, _spread(lambda x: np.where(x > 0, 1.0, 0.2))),
    "noise that swings": Design(400, 1, _spread(lambda x: 0.2 + 0.6 * np.sin(x) ** 2)),
    "noise of another column": Design(
        400, 2, lambda X: _normal(X[:, 0], np.exp(0.7 * X[:, 1]) / 2)
    ),
    # other shapes
    "laplace": Design(300, 1, lambda X: stats.laplace(X[:, 0], 0.5)),
    "logistic": Design(300, 1, lambda X: stats.logistic(X[:, 0], 0.3)),
    "student, 5": Design(300, 1, lambda X: stats.t(5, X[:, 0])),
    "student, 3": Design(300, 1, lambda X: stats.t(3, X[:, 0])),
    "cauchy": Design(300, 1, lambda X: stats.cauchy(X[:, 0])),
    "contaminated": Design(300, 1, _contaminated),
    "gumbel": Design(300, 1, lambda X: stats.gumbel_r(X[:, 0], 0.5)),
    "skew normal": Design(300, 1, lambda X: stats.skewnorm(5.0, X[:, 0])),
    "gamma": Design(300, 1, lambda X: stats.gamma(2.0, scale=np.exp(0.3 * X[:, 0]))),
    "log-normal": Design(300, 1, lambda X: stats.lognorm(1.0, scale=np.exp(X[:, 0]))),
    "six decades": Design(300, 1, lambda X: stats.lognorm(2.0, scale=np.exp(2 * X[:, 0]))),
    "uniform": Design(300, 1, lambda X: stats.uniform(X[:, 0], 1.0)),
    "triangle": Design(300, 1, lambda X: stats.triang(0.2, X[:, 0], 2.0)),
    # bounds that are declared
    "gamma, bounded": Design(
        300, 1, lambda X: stats.gamma(3.0, scale=np.exp(0.3 * X[:, 0])), _POSITIVE
    ),
    "exponential, bounded": Design(
        300, 1, lambda X: stats.expon(scale=np.exp(0.3 * X[:, 0])), _POSITIVE
    ),
    "weibull, bounded": Design(
        300, 1, lambda X: stats.weibull_min(1.5, scale=np.exp(0.3 * X[:, 0])), _POSITIVE
    ),
    "half normal, bounded": Design(
        300, 1, lambda X: stats.halfnorm(scale=np.exp(0.3 * X[:, 0])), _POSITIVE
    ),
    "log-normal, bounded": Design(
        300, 1, lambda X: stats.lognorm(1.0, scale=np.exp(X[:, 0])), _POSITIVE
    ),
    "beta, bounded": Design(300, 1, lambda X: stats.beta(3.0, 3.0 + X[:, 0] ** 2), _SHARE),
    "beta with two modes, bounded": Design(
        300, 1, lambda X: stats.beta(0.7, 0.7 + 0.2 * X[:, 0] ** 2), _SHARE
    ),
    **{
        f"zeros, bounded, {n} rows": Design(
            n, 1, lambda X: OrZero(0.3, stats.gamma(2.0, scale=np.exp(0.3 * X[:, 0]))), _POSITIVE, 2
        )
        for n in (100, 300)
    },
    "one outlier of 10^6 sd": Design(100, 1, _about(_first), outlier=1e6),
    # several modes
    "two branches": Design(300, 1, _branches(lambda x: 1 + x)),
    "two branches that cross": Design(300, 1, _branches(lambda x: np.sin(2 * x), 0.5)),
    "two branches far apart": Design(200, 1, _branches(lambda x: 10 + x)),
    "a rare branch": Design(400, 1, _branches(lambda x: 3 + 0 * x, 0.05)),
    "two modes of two columns": Design(
        400,
        2,
        lambda X: Mixture(
            1 / (1 + np.exp(-2 * X[:, 1])), _normal(X[:, 0], 0.3), _normal(X[:, 0] + 3, 0.3)
        ),
    ),
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
    y[0] += design.outlier
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


def line(name: str, outcomes: list[Outcome], off: bool) -> str:
    """Return a row of the table."""
    scores = np.mean([[o.truth, o.model, o.marginal, o.ridge] for o in outcomes], axis=0)
    coverage = np.array([o.coverage for o in outcomes])
    numbers = [f"{score:.2f}" for score in scores]
    numbers += [f"{100 * share:.0f}" for share in coverage.mean(axis=0)]
    return f"| {name} | " + " | ".join(numbers) + f" | {'off' if off else ''} |"


HEAD = """| design | truth | kcdo | marginal KDE | ridge | 50 % | 80 % | 90 % | 95 % | |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(DESIGNS))
    options = parser.parse_args()
    print(HEAD)
    n_off = 0
    for name in options.only:
        design = DESIGNS[name]
        outcomes = [outcome(design, seed) for seed in range(options.seeds)]
        off = bool(is_off(np.array([o.coverage for o in outcomes]))[design.judged :].any())
        print(line(name, outcomes, off), flush=True)
        n_off += off
    print(f"\n{len(options.only)} designs, {n_off} off")
    return 1 if n_off else 0


if __name__ == "__main__":
    sys.exit(main())
