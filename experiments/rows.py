"""The rows of the tables: methods by the names that a reader sees."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.rivals import METHODS


@dataclass(frozen=True)
class Row:
    """A method of a table: how it is made from a seed, and with how many seeds it is run."""

    name: str
    make: Callable[[int], Any]
    seeds: int


def rival(name: str, method: str, seeds: int, **settings: Any) -> Row:
    """A row from :data:`experiments.rivals.METHODS`."""
    return Row(name, lambda seed: METHODS[method](seed=seed, **settings), seeds)


PAPER, HEURISTIC, DEFAULT = "CDO, paper", "CDO, heuristic", "CDO, default"
PAPER_WEAK = "CDO, paper, but α = 1/N"
GP, REALNVP, MAF = "GP", "conditional RealNVP", "conditional MAF"
LSCDE, KCEF, KDE = "LSCDE", "KCEF", "conditional KDE"


def common_rows(seeds: int, slow_seeds: int, layers: int, epochs: int) -> list[Row]:
    """The rows that every study has: the library and its rivals, but for the paper's."""
    flows = {"layers": layers, "epochs": epochs}
    return [
        rival(HEURISTIC, "kcdo-heuristic", seeds),
        rival(DEFAULT, "kcdo", seeds),
        rival(GP, "gp", slow_seeds),
        rival(REALNVP, "realnvp", slow_seeds, **flows),
        rival(MAF, "maf", slow_seeds, **flows),
        rival(LSCDE, "lscde", seeds),
        rival(KCEF, "kcef", slow_seeds),
        rival(KDE, "ckde", seeds),
    ]
