"""How to solve the input side: the options."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Integers
from kcdo.errors import InvalidInputError
from kcdo.kernels import Kernel, cross_gram, weighted_mean_sd
from kcdo.linalg import randomly_pivoted_cholesky
from kcdo.memory import require_memory

CentreChoice = Literal["uniform", "kmeans++", "rpcholesky"]

_CENTRE_CHOICES = ("uniform", "kmeans++", "rpcholesky")
WORKING_SHARE = 1.3  # of the one N x N array


@dataclass(frozen=True)
class Exact:
    """One in-place Cholesky factorisation of the N×N system (N distinct inputs).

    Parameters
    ----------
    dtype : {"float64", "float32"}
        float32 halves memory and time; it is safe while α N is well above 1e-5.
    """

    dtype: Literal["float64", "float32"] = "float64"
    name: ClassVar[str] = "exact solver"
    every_input: ClassVar[Literal[True]] = True  # the system knows them all, not centres alone

    def __post_init__(self) -> None:
        if self.dtype not in ("float64", "float32"):
            raise InvalidInputError(f"Exact: dtype must be float64 or float32; got {self.dtype!r}.")

    def require_memory(self, n: int) -> None:
        """Refuse, with the numbers, a system that does not fit."""
        require_memory(
            WORKING_SHARE * n * n * np.dtype(self.dtype).itemsize,
            f"an exact fit of {n} distinct inputs",
            "use ConditionalDensityOperator(solver=kcdo.Nystrom()), or solver=kcdo.Iterative() for "
            "the exact answer without the matrix.",
        )


@dataclass(frozen=True)
class Iterative:
    """Preconditioned conjugate gradients on the exact system, which is never formed.

    Inputs on a (partly filled) regular grid use FFT products, others blocks of kernel values.

    Parameters
    ----------
    rank : int
        Rank of the pivoted-Cholesky preconditioner.
    tolerance : float
        Relative residual at which a right-hand side is solved.
    max_iterations : int
        Steps after which a warning reports the residual reached.
    """

    rank: int = 500
    tolerance: float = 1e-8
    max_iterations: int = 500
    name: ClassVar[str] = "conjugate gradients"
    every_input: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        if self.rank < 1 or self.max_iterations < 1 or not 0 < self.tolerance < 1:
            raise InvalidInputError(
                "Iterative: rank and max_iterations must be >= 1, tolerance between 0 and 1."
            )


@dataclass(frozen=True)
class Nystrom:
    """A system on m centres from one pass over the data, for large N.

    Parameters
    ----------
    centers : int or (m, p) array-like, optional
        Number of centres m, by default 1,000 to 2,000, fewer for the largest data; or the centres
        themselves.
    choice : {"rpcholesky", "uniform", "kmeans++"}
        How centres are chosen, from a subsample of about 20 m rows.
    chunk_rows : int
        Rows processed at a time.
    tolerance : float
        Share of k(x, x), on average, that the centres may miss: where fewer of them reach it,
        fewer are taken ("rpcholesky" only).
    """

    centers: int | tuple[tuple[float, ...], ...] | None = None
    choice: CentreChoice = "rpcholesky"
    chunk_rows: int = 8192
    tolerance: float = 0.0
    name: ClassVar[str] = "Nyström"
    every_input: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        if self.centers is not None and np.ndim(self.centers) == 2:
            rows = np.asarray(self.centers, dtype=float)
            object.__setattr__(self, "centers", tuple(map(tuple, rows.tolist())))
        elif self.centers is not None and not (
            isinstance(self.centers, int | np.integer) and self.centers >= 1
        ):
            raise InvalidInputError(
                f"Nystrom: centers must be a number >= 1 or an (m, p) array; got {self.centers!r}."
            )
        if self.choice not in _CENTRE_CHOICES:
            raise InvalidInputError(
                f"Nystrom: choice must be one of {list(_CENTRE_CHOICES)}; got {self.choice!r}."
            )
        if self.chunk_rows < 1:
            raise InvalidInputError(f"Nystrom: chunk_rows must be >= 1; got {self.chunk_rows}.")
        if not 0 <= self.tolerance < 1:
            raise InvalidInputError(
                f"Nystrom: tolerance must be at least 0 and less than 1; got {self.tolerance}."
            )

    def to_state(self) -> dict[str, Any]:
        """Return what a file keeps: centres that were given as an array."""
        given = isinstance(self.centers, tuple)
        return vars(self) | ({"centers": np.array(self.centers)} if given else {})

    def n_centres(self, n: int) -> int:
        """Return the number of centres for N rows."""
        if isinstance(self.centers, tuple):
            return len(self.centers)
        return min(n, self.centers or int(np.clip(2e9 / n**1.25, 1000, 2000)))

    def choose(self, kernel: Kernel, rows: NDArray, m: int, rng: np.random.Generator) -> NDArray:
        """Return at most m centres among the rows, sorted so that their order means nothing."""
        if isinstance(self.centers, tuple):
            return np.array(self.centers)
        rows = np.unique(rows, axis=0) if rows.dtype != object else rows
        m = min(m, len(rows))
        if self.choice == "uniform":
            chosen: Integers = rng.choice(len(rows), m, replace=False)
        elif self.choice == "kmeans++":
            from sklearn.cluster import kmeans_plusplus  # a long import, for this choice alone

            _, sd = weighted_mean_sd(rows)
            scaled = rows / np.where(sd > 0, sd, 1.0)
            _, chosen = kmeans_plusplus(scaled, m, random_state=int(rng.integers(2**31)))
        else:
            chosen = randomly_pivoted_cholesky(
                lambda i: cross_gram(kernel, rows, rows[i]),
                kernel.diag(rows),
                m,
                rng,
                tolerance=self.tolerance,
            ).pivots
        return rows[np.sort(chosen)]


Solver = Exact | Iterative | Nystrom
