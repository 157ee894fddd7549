"""The two sums over the data that a Nyström fit is made of.

    G = Σ_n ω_n k(c, x_n) k(x_n, c)  (m, m),   H = Σ_n ω_n k(c, x_n) b_n  (m, T)

They stream, merge, and may come from several machines.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.consistency import need, shape
from kcdo.errors import InvalidInputError
from kcdo.linalg.routines import syrk
from kcdo.memory import require_memory
from kcdo.systems.groups import are_counts


@dataclass
class NystromSums:
    """What a Nyström fit keeps of the data; add chunks of rows, merge workers.

    Targets b may be a dense (rows, T) array or a SciPy sparse matrix of that shape.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> section, targets = rng.random((6, 2)), rng.random((6, 3))
    >>> whole = NystromSums.empty(2, 3)
    >>> whole.add(section, targets, np.ones(6))
    >>> first, second = NystromSums.empty(2, 3), NystromSums.empty(2, 3)
    >>> first.add(section[:4], targets[:4], np.ones(4))
    >>> second.add(section[4:], targets[4:], np.ones(2))
    >>> np.allclose(first.merged(second).targets, whole.targets)
    True
    """

    cross: Array  # G, lower triangle of a Fortran array
    targets: Array  # Hᵀ, (T, m)
    ones: Array  # Σ ω k(c, x), (m,)
    target_totals: Array  # Σ ω b, (T,)
    weight: float = 0.0
    squared_weight: float = 0.0
    n_rows: int = 0
    counts: bool = True  # whether every weight was a whole number

    def __post_init__(self) -> None:
        shape(self.targets, None, None)
        n_targets, m = self.targets.shape
        shape(self.cross, m, m)
        shape(self.ones, m)
        shape(self.target_totals, n_targets)
        need(min(self.weight, self.squared_weight, self.n_rows) >= 0, "negative sums")
        need(np.isfinite(self.weight + self.squared_weight), "sums without an end")

    @classmethod
    def empty(cls, m: int, n_targets: int) -> "NystromSums":
        """Return sums over no rows."""
        cross = np.zeros((m, m), order="F")
        return cls(cross, np.zeros((n_targets, m)), np.zeros(m), np.zeros(n_targets))

    def add(self, section: Array, targets: Any, weights: Array) -> None:
        """Add rows: their sections k(x_n, c) (b, m), targets (b, T) and weights (b,).

        The section is overwritten: it is scaled by the weights in place.
        """
        unit = bool(np.all(weights == 1.0))
        if not unit:
            section *= np.sqrt(weights)[:, None]
        if not self.cross.flags.writeable or not self.cross.flags.f_contiguous:  # as it was loaded
            self.cross = self.cross.copy(order="F")
        # the transpose of a C-ordered section is a Fortran array: no copy, half the work of gemm
        syrk(1.0, np.asarray(section.T, dtype=float, order="F"), self.cross, lower=True)
        if not unit:
            section *= np.sqrt(weights)[:, None]
        self.targets += targets.T @ section
        self.ones += section.sum(axis=0)
        self.target_totals += np.asarray(targets.T @ weights).ravel()
        self.weight += float(weights.sum())
        self.squared_weight += float(weights @ weights)
        self.n_rows += int(np.count_nonzero(weights))
        self.counts = self.counts and are_counts(weights)

    def merged(self, other: "NystromSums") -> "NystromSums":
        """Return the sums over the rows of both."""
        if self.targets.shape != other.targets.shape:
            raise InvalidInputError(
                f"cannot merge sums of {self.targets.shape} with {other.targets.shape}: the "
                "workers must use the same centres and output grid."
            )
        return NystromSums(
            self.cross + other.cross,
            self.targets + other.targets,
            self.ones + other.ones,
            self.target_totals + other.target_totals,
            self.weight + other.weight,
            self.squared_weight + other.squared_weight,
            self.n_rows + other.n_rows,
            self.counts and other.counts,
        )

    def to_state(self) -> dict[str, Any]:
        """Return what a file keeps: all but targets that no row has met, which may be most."""
        met = (self.targets != 0.0).any(axis=1) | (self.target_totals != 0.0)
        rows = np.flatnonzero(met)
        return vars(self) | {
            "rows": rows,
            "n_targets": len(met),
            "targets": self.targets[rows],
            "target_totals": self.target_totals[rows],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "NystromSums":
        """Return the sums of a file, with arrays of their own: rows are added in place."""
        state = dict(state)
        rows, n_targets = state.pop("rows"), state.pop("n_targets")
        met, totals = state["targets"], state["target_totals"]
        shape(rows, None)
        shape(met, len(rows), None)
        shape(totals, len(rows))
        inside = np.all((rows >= 0) & (rows < n_targets)) and np.all(rows[1:] > rows[:-1])
        need(inside, "rows of sums")
        m = met.shape[1]
        require_memory(8.0 * n_targets * (m + 1), "the sums of this model", "load it elsewhere.")
        state |= {"targets": np.zeros((n_targets, m)), "target_totals": np.zeros(n_targets)}
        state["targets"][rows], state["target_totals"][rows] = met, totals
        return cls(**state | {name: state[name].copy(order="K") for name in ("cross", "ones")})

    @property
    def n_effective(self) -> float:
        """Σω for counts, (Σω)²/Σω² for other weights."""
        return self.weight if self.counts else self.weight**2 / self.squared_weight
