"""Scores of a model on rows with known targets, and how they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo import metrics
from kcdo.arrays import Array
from kcdo.commands.console import listed
from kcdo.commands.models import Model
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import MissingExtraError

_LEVELS = (0.5, 0.9, 0.95)
_DRAWS, _DRAWS_PER_OUTPUT = 128, 16  # of each row, for scores of several outputs
_TENTHS = 10


def scores(model: Model, dist: ConditionalDistribution, Y: Any) -> dict[str, Any]:
    """Return the scores; those of single outputs by the name of the target."""
    singles = {model.targets[0]: (dist, Y)}
    if not model.flat:
        columns = np.asarray(Y).reshape(len(Y), -1).T
        pairs = enumerate(zip(model.targets, columns, strict=True))
        singles = {t: (dist.marginal(i), column) for i, (t, column) in pairs}
    joint = {} if dist.n_outputs == 1 else joint_scores(dist, Y)
    return {
        "rows": len(Y),
        "log_score": metrics.log_score(dist, Y),
        **joint,
        "cde_loss": metrics.cde_loss(dist, Y),
        "crps": {name: metrics.crps(*pair) for name, pair in singles.items()},
        "coverage": {
            name: {f"{level:g}": metrics.interval_coverage(*pair, level) for level in _LEVELS}
            for name, pair in singles.items()
        },
    }


def joint_scores(dist: ConditionalDistribution, Y: Any) -> dict[str, Any]:
    """Return scores of several outputs at once, in units of the spread of each, and their ranks.

    All are of the same draws: those of a chain of outputs are most of the work.
    """
    outputs = np.asarray(Y, dtype=float)
    dist.mean()  # what it draws is kept, and serves every marginal
    spread = outputs.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    n = max(_DRAWS, _DRAWS_PER_OUTPUT * dist.n_outputs)
    drawn: Any = _Draws(dist.sample(n, random_state=0) / unit)
    outputs = outputs / unit
    ranks = metrics.multivariate_ranks(drawn, outputs, n_draws=n)
    found: dict[str, Any] = {
        "rank_histogram": (np.histogram(ranks, _TENTHS, (0, 1))[0] / len(ranks)).tolist()
    }
    try:
        found["energy_score"] = metrics.energy_score(drawn, outputs, n_draws=n)
        found["variogram_score"] = metrics.variogram_score(drawn, outputs, n_draws=n)
        found["dawid_sebastiani_score"] = metrics.dawid_sebastiani_score(drawn, outputs, n_draws=n)
    except MissingExtraError:  # they are by a package of an extra
        pass
    return found


@dataclass(frozen=True)
class _Draws:
    """Draws (Q, n, d) in place of the distributions they are of."""

    values: Array
    flat = False

    @property
    def n_outputs(self) -> int:
        """Number of outputs d."""
        return self.values.shape[2]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> _Draws:
        return _Draws(self.values[index])

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Return the first n of the draws."""
        return self.values[:, :n]


def _joint_lines(found: dict[str, Any]) -> list[str]:
    """Return lines that tell the joint scores, where there are any."""
    told = {
        "energy_score": ("energy", "distance of joint draws"),
        "variogram_score": ("variogram", "of differences between outputs: their dependence"),
        "dawid_sebastiani_score": ("Dawid-Seb.", "of mean and covariance"),
    }
    unit = "outputs in units of their spread; lower is better"
    lines = [
        f"{name:<10s} {found[key]:>9.4g}   {what}, {unit}"
        for key, (name, what) in told.items()
        if key in found
    ]
    if "rank_histogram" in found:
        shares = " ".join(f"{share:.0%}" for share in found["rank_histogram"])
        lines.append(f"ranks      {shares} of joint outputs in each tenth; 10% if calibrated")
    return lines


def score_lines(found: dict[str, Any]) -> list[str]:
    """Return lines that tell the scores, with their units."""
    unit = f"per unit of {listed(found['crps'])}"
    lines = [
        f"log score  {found['log_score']:>9.4g}   mean log density, {unit}; higher is better",
        f"CDE loss   {found['cde_loss']:>9.4g}   squared error of the density up to a constant, "
        f"{unit}; lower is better",
    ]
    lines += _joint_lines(found)
    for name, value in found["crps"].items():
        lines.append(f"CRPS       {value:>9.4g}   in units of {name}; lower is better")
    for name, shares in found["coverage"].items():
        inside = ", ".join(f"{share:.1%} (of {float(x):.0%})" for x, share in shares.items())
        lines.append(f"coverage   {inside} of {name} inside its intervals")
    return lines
