"""The rows of the tables: methods by the names that a reader sees."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.rivals import METHODS
from experiments.rivals import kcef as exponential
from kcdo.arrays import Array


@dataclass(frozen=True)
class Row:
    """A method of a table: how it is made from a seed, and with how many seeds it is run.

    ``settings`` are written down with every run.
    """

    name: str
    make: Callable[[int], Any]
    seeds: int
    settings: dict[str, Any] = field(default_factory=dict)


def rival(name: str, method: str, seeds: int, **settings: Any) -> Row:
    """A row from :data:`experiments.rivals.METHODS`."""
    return Row(name, lambda seed: METHODS[method](seed=seed, **settings), seeds, settings)


KCEF_ROWS = 2500


class SubsetKcef(exponential.KCEF):
    """KCEF on at most 2500 random rows: its system has a row for each datum and output."""

    def _fit(self, X: Array, Y: Array) -> None:
        chosen = np.random.default_rng(self.seed).permutation(len(X))[:KCEF_ROWS]
        super()._fit(X[chosen], Y[chosen])


PAPER, HEURISTIC, DEFAULT = "CDO, paper", "CDO, heuristic", "CDO, default"
PAPER_WEAK = "CDO, paper, but α = 1/N"
GP, REALNVP, MAF = "GP", "conditional RealNVP", "conditional MAF"
LSCDE, KCEF, KDE = "LSCDE", "KCEF", "conditional KDE"


def common_rows(
    seeds: int, slow_seeds: int, layers: int, epochs: int, **gp_settings: int
) -> list[Row]:
    """The rows that every study has: the library and its rivals, but for the paper's."""
    flows = {"layers": layers, "epochs": epochs}
    return [
        rival(HEURISTIC, "kcdo-heuristic", seeds),
        rival(DEFAULT, "kcdo", slow_seeds),
        rival(GP, "gp", slow_seeds, **gp_settings),
        rival(REALNVP, "realnvp", slow_seeds, **flows),
        rival(MAF, "maf", slow_seeds, **flows),
        rival(LSCDE, "lscde", seeds),
        Row(KCEF, lambda seed: SubsetKcef(seed=seed), slow_seeds, {"rows": KCEF_ROWS}),
        rival(KDE, "ckde", seeds),
    ]
