"""What a streamed fit knows of the data before it reads them: a sample, a range and a size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import StreamEffort
from kcdo.errors import InvalidInputError
from kcdo.kernels import Kernel
from kcdo.rows import Rows
from kcdo.systems import Nystrom

Chunk = tuple[NDArray, Array, Array]  # inputs, outputs (N, d), weights

MOST_REPEAT = 0.5  # share of rows beyond which inputs come back as a rule


@dataclass(frozen=True, eq=False)
class Pilot:
    """What is known of the data before the pass: a subsample, the range of Y and the size."""

    X: NDArray
    Y: Array
    weights: Array
    lower: Array
    upper: Array
    n_rows: int

    @classmethod
    def of_chunks(cls, chunks: Iterator[Chunk], n_pilot: int, seed: int) -> "Pilot":
        """Collect a uniform subsample, the range and the number of rows in one pass."""
        rng = np.random.default_rng(seed)
        kept: list[NDArray] | None = None
        lower, upper, n_rows = np.array(np.inf), np.array(-np.inf), 0
        for X, Y, weights in chunks:
            if not len(X):  # every weight was 0
                continue
            n_rows += len(X)
            lower, upper = np.minimum(lower, Y.min(axis=0)), np.maximum(upper, Y.max(axis=0))
            new = [X, Y, weights, rng.random(len(X))]
            # the rows of the smallest random keys are a uniform subsample
            kept = new if kept is None else [np.concatenate(p) for p in zip(kept, new, strict=True)]
            if len(kept[3]) > n_pilot:
                smallest = np.argpartition(kept[3], n_pilot)[:n_pilot]
                kept = [part[smallest] for part in kept]
        if kept is None or n_rows < 2:
            raise InvalidInputError(f"Found {n_rows} sample(s) in the chunks; 2 are required.")
        order = np.argsort(kept[3])
        X, Y, weights = (part[order] for part in kept[:3])
        return cls(X, Y, weights, lower, upper, n_rows)

    def seen_through(self, to_line: Callable[[Array], Array]) -> "Pilot":
        """Return the sample with outputs that are mapped, as the fit sees them."""
        ends = to_line(np.vstack([self.lower, self.upper]))
        return replace(self, Y=to_line(self.Y), lower=ends[0], upper=ends[1])

    @classmethod
    def of_arrays(cls, data: Chunk, n_pilot: int, seed: int) -> "Pilot":
        """Take a uniform subsample of data that are at hand."""
        n = len(data[0])
        # in random order: its head is a sample too
        rows = np.random.default_rng(seed).choice(n, min(n, n_pilot), replace=False)
        X, Y, weights = (part[rows] for part in data)
        return cls(X, Y, weights, data[1].min(axis=0), data[1].max(axis=0), n)

    def repeats(self, most: int) -> bool:
        """Whether inputs come back as a rule, among so many rows, or have no order at all."""
        return self.X.dtype == object or self.rows(most).share_repeated > MOST_REPEAT

    def centres(self, kernel: Kernel, options: Nystrom, seed: int) -> NDArray:
        """Return centres for a kernel, as many as all rows ask for, among those of the sample."""
        rng = np.random.default_rng(seed)
        return options.choose(kernel, self.X, options.n_centres(self.n_rows), rng)

    def rows(self, most: int) -> Rows:
        """Return the first rows of the sample, which are a sample too."""
        return Rows(self.X[:most], self.Y[:most], self.weights[:most])


def pilot_size(options: Nystrom, n_rows: int, effort: StreamEffort) -> int:
    """Return how many rows to choose centres and parameters from."""
    return max(effort.pilot_rows, effort.pilot_per_centre * options.n_centres(n_rows))
