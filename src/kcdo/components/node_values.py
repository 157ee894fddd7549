"""From sections to node values: by one matrix, or by weights of the rows, query by query."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array, in_bits
from kcdo.consistency import need, shape
from kcdo.errors import InvalidInputError
from kcdo.linalg import narrow_factors
from kcdo.memory import require_memory
from kcdo.parallel import shared_property
from kcdo.reconstruction import Reconstruction
from kcdo.systems import Centres, Condensed, Embed, System

_BLOCK_ELEMENTS = 1 << 22
_AT_ONCE = 1 << 23  # numbers of a matrix that is solved for in one piece
_LARGEST_STORED = 1 << 25  # bytes of a matrix that files hold; larger ones are solved for again


@dataclass(frozen=True, eq=False)
class MatrixValues:
    """Node values as one matrix product, or as two narrow ones where the matrix allows it.

    The last column of the first factor gives the sum of the weights.
    """

    first: Array  # (centres, M + 1), or (centres, r + 1)
    second: Array | None  # (r, M)

    def __post_init__(self) -> None:
        shape(self.first, None, None)
        if self.second is not None:
            shape(self.second, self.first.shape[1] - 1, None)

    @classmethod
    def solved(cls, system: System, output: Reconstruction, condensed: Condensed) -> "MatrixValues":
        """Solve for condensed targets, and filter what comes out."""
        targets, basis = narrow_factors(condensed.targets)
        if basis is None and targets.size > _AT_ONCE:
            return cls(_solved_in_place(system, output, condensed), None)
        # all right-hand sides at once
        solved = system.solve(np.hstack([targets, condensed.ones[:, None]]))
        if basis is not None:  # only its rows are filtered
            return cls(np.ascontiguousarray(solved), output.reconstruct(basis))
        values = output.reconstruct(np.ascontiguousarray(solved[:, :-1]))
        return cls(np.hstack([values, solved[:, -1:]]), None)

    @property
    def nbytes(self) -> int:
        """Memory of the matrices."""
        return self.first.nbytes + (0 if self.second is None else self.second.nbytes)

    def at(self, system: Centres, section: Array) -> tuple[Array, Array]:
        """Return node values (Q, M) and sums of weights (Q,) of sections (Q, n)."""
        product = section @ self.first
        values = product[:, :-1]
        values = values.copy() if self.second is None else values @ self.second
        return values, product[:, -1]

    def check(self, system: Centres, output: Reconstruction) -> None:
        """Need matrices of the centres of a system and of the nodes of an output side."""
        n_nodes = output.measure.n_nodes
        if self.second is None:
            shape(self.first, system.n_centres, n_nodes + 1)
        else:
            shape(self.first, system.n_centres, None)
            shape(self.second, None, n_nodes)

    def rounded(self, bits: int) -> "MatrixValues":
        """Return the matrices with so many significant bits in each number."""
        second = None if self.second is None else in_bits(self.second, bits)
        return MatrixValues(in_bits(self.first, bits), second)


@dataclass(frozen=True, eq=False)
class SolvedValues:
    """A matrix that is too large for a file, with all that it is solved from.

    A fit has just solved for it; a model from a file does so when the first query comes.
    """

    system: System  # without its factor
    output: Reconstruction
    Y: Array

    def __post_init__(self) -> None:
        shape(self.Y, len(self.system.row_weights), self.output.measure.dim)

    @classmethod
    def of(
        cls, matrix: MatrixValues, system: System, output: Reconstruction, Y: Array
    ) -> "MatrixValues | SolvedValues":
        """Return a matrix with what it was solved from, if it is large; else the matrix alone."""
        unfactored = system.unfactored() if matrix.nbytes > _LARGEST_STORED else None
        if unfactored is None:
            return matrix
        new = cls(unfactored, output, Y.copy())
        vars(new)["matrix"] = matrix
        return new

    @shared_property
    def matrix(self) -> MatrixValues:
        """The matrix."""
        output, system = self.output, self.system.unfactored()
        assert system is not None
        condensed = system.condensed(embedding(output), self.Y, embedded_rows(output))
        return MatrixValues.solved(system, output, condensed)

    @property
    def nbytes(self) -> int:
        """Memory of the matrix."""
        return self.matrix.nbytes

    def at(self, system: Centres, section: Array) -> tuple[Array, Array]:
        """Return node values (Q, M) and sums of weights (Q,) of sections (Q, n)."""
        return self.matrix.at(system, section)

    def check(self, system: Centres, output: Reconstruction) -> None:
        """Need the same centres and output side."""
        need(self.output is output, "two output sides")
        need(self.system.centres is system.centres, "centres of two kinds")


@dataclass(frozen=True, eq=False)
class RowValues:
    """Node values from the embedding weights of rows, whose outputs are kept.

    For models too large for one matrix, and for weights of a few rows for each query.
    """

    output: Reconstruction
    Y: Array

    @property
    def nbytes(self) -> int:
        """Memory of the outputs."""
        return self.Y.nbytes

    def at(self, system: Any, section: Any) -> tuple[Array, Array]:
        """Return node values (Q, M) and sums of weights (Q,) of sections of a system."""
        return node_values(self.output, system.weights_of(section), self.Y)

    def check(self, system: Centres, output: Reconstruction) -> None:
        """Need a system that has weights, one for each output."""
        if not isinstance(system, System):
            raise InvalidInputError("parts do not fit: weights of rows without their system.")
        need(self.output is output, "two output sides")
        shape(self.Y, len(system.row_weights), output.measure.dim)


Values = MatrixValues | SolvedValues | RowValues


def _solved_in_place(system: System, output: Reconstruction, condensed: Condensed) -> Array:
    """Return the one matrix of :class:`MatrixValues`, made in no more memory than it has itself."""
    n, n_nodes = condensed.targets.shape
    made = np.empty((n, n_nodes + 1))
    made[:, -1:] = system.solve(condensed.ones[:, None])
    step = max(1, _BLOCK_ELEMENTS // n)
    for start in range(0, n_nodes, step):
        nodes = slice(start, min(start + step, n_nodes))
        made[:, nodes] = system.solve(condensed.targets[:, nodes])
    step = max(1, _BLOCK_ELEMENTS // n_nodes)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        made[rows, :-1] = output.reconstruct(np.ascontiguousarray(made[rows, :-1]))
    return made


def require_memory_of(n_centres: int, n_nodes: int) -> None:
    """Refuse a matrix that does not fit, with the numbers: its targets and itself are held."""
    require_memory(
        8.0 * 3 * n_centres * (n_nodes + 1),
        f"a model of {n_centres} centres on {n_nodes} output nodes",
        "use fewer nodes, as reference=kcdo.UniformBox(nodes=50) has, fewer centres, as "
        'solver=kcdo.Nystrom(500) has, or joint="chain" for several outputs.',
    )


def node_values(output: Reconstruction, weights: Any, Y: Array) -> tuple[Array, Array]:
    """Return signed node values (Q, M) of embedding weights (Q, N), and their sums (Q,)."""
    return output.reconstruct(output.combine(weights, Y)), weights.sum(axis=1)


def embedding(output: Reconstruction) -> Embed:
    """Return the cheaper way to embed outputs on the nodes."""
    return output.embed if output.near_width is None else output.near_embeddings


def embedded_rows(output: Reconstruction) -> int:
    """Return how many outputs are embedded at a time."""
    return max(1, _BLOCK_ELEMENTS // (output.near_width or output.measure.n_nodes))
