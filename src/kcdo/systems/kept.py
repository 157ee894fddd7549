"""Rows of a fit that stay on disk, in memory maps of one folder, and an index that finds them.

Tasks write their rows where their numbers say: in any order, twice if a worker dies, with the same
result. The index is a tree over the mapped coordinates; it holds places of rows, not the rows.
"""

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from kcdo.arrays import Array, Integers
from kcdo.errors import DataNotFoundError, InvalidInputError
from kcdo.memory import require_memory
from kcdo.parallel import thread_count

INDEX_BYTES = 40  # a row, at most: 8 for its place, the rest for the nodes of the tree
_LEAF_ROWS = 32
_MARKED = 64  # rows at either end that tell one fit from another
_GIB = 1 << 30


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Inputs, outputs, weights and coordinates of the rows of one fit, in files of a folder.

    Parameters
    ----------
    folder : str
        Where the files are.
    n_rows, n_inputs, dim, n_coordinates : int
        Their sizes.
    mark : int
        A checksum of a few rows: those of another fit have another one.
    """

    folder: str
    n_rows: int
    n_inputs: int
    dim: int
    n_coordinates: int
    mark: int = 0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays, by the names of their files."""
        n = self.n_rows
        return {
            "inputs": (n, self.n_inputs),
            "outputs": (n, self.dim),
            "weights": (n,),
            "coordinates": (n, self.n_coordinates),
        }

    @property
    def nbytes(self) -> int:
        """Size of the files."""
        return 8 * self.n_rows * (self.n_inputs + self.dim + 1 + self.n_coordinates)

    @property
    def index_nbytes(self) -> int:
        """Memory of the index, at most."""
        return INDEX_BYTES * self.n_rows

    def create(self) -> None:
        """Make the files, with nothing in them yet; refuse a folder that is used or too small."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        used = [path.name for path in self._paths() if path.exists()]
        if used:
            raise InvalidInputError(
                f"rows_at={self.folder!r} holds {used[0]} of another fit, whose model needs it: "
                "name an empty folder."
            )
        free = shutil.disk_usage(folder).free
        if self.nbytes > free:
            raise InvalidInputError(
                f"the rows need {self.nbytes / _GIB:.1f} GiB of disk, but {free / _GIB:.1f} GiB "
                f"are left at {self.folder!r}: name another folder, or fit without rows_at."
            )
        require_memory(
            self.index_nbytes,
            f"the index of {self.n_rows} near rows",
            "fit without rows_at, or use a machine with more memory.",
        )
        for name, shape in self.shapes.items():
            path = str(folder / f"{name}.npy")
            np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)

    def write(self, first: int, **arrays: Array) -> None:
        """Put rows at their places."""
        for name, values in arrays.items():
            mapped = self._mapped(name, "r+")
            mapped[first : first + len(values)] = values
            mapped.flush()

    def written(self, firsts: dict[int, Array]) -> "KeptRows":
        """Check that rows written by tasks, some inputs of which are given, can be read here."""
        inputs = self._mapped("inputs", "r")
        for place, expected in firsts.items():
            if not np.array_equal(inputs[place], expected):
                raise InvalidInputError(
                    f"row {place} that a worker wrote to {self.folder!r} is not there for this "
                    "process: rows_at must be a folder that all workers and the client share."
                )
        return replace(self, mark=self._found_mark())

    def remove(self) -> None:
        """Delete the files."""
        for path in self._paths():
            path.unlink(missing_ok=True)

    def nearest(self, coordinates: Array, count: int, n_jobs: int | None = None) -> Integers:
        """Return the places of the rows nearest to queries, (Q, count), the nearest first."""
        count = min(count, self.n_rows)
        found = self._tree.query(coordinates, count, workers=thread_count(n_jobs))[1]
        return np.reshape(found, (len(coordinates), count))

    def take(self, places: Integers) -> tuple[Array, Array, Array]:
        """Return inputs, outputs and weights of some rows."""
        maps = self._maps
        return tuple(np.array(maps[name][places]) for name in ("inputs", "outputs", "weights"))  # type: ignore[return-value]

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self._maps["coordinates"], leafsize=_LEAF_ROWS)

    @cached_property
    def _maps(self) -> dict[str, Any]:
        missing = [path.name for path in self._paths() if not path.exists()]
        if missing:
            raise DataNotFoundError(
                f"the near rows of this model are not here: {missing[0]} is missing from "
                f"{self.folder!r}, where its fit left them. Put the folder back, or fit without "
                "rows_at."
            )
        if self._found_mark() != self.mark:
            raise DataNotFoundError(
                f"{self.folder!r} holds the rows of another fit than this model's: put those back."
            )
        return {name: self._mapped(name, "r") for name in self.shapes}

    def _found_mark(self) -> int:
        found = 0
        for name in ("inputs", "outputs"):
            mapped = self._mapped(name, "r")
            for part in (mapped[:_MARKED], mapped[-_MARKED:]):
                found = zlib.crc32(np.ascontiguousarray(part).tobytes(), found)
        return found

    def _mapped(self, name: str, mode: Any) -> Any:
        found = np.load(Path(self.folder, f"{name}.npy"), mmap_mode=mode, allow_pickle=False)
        if found.shape != self.shapes[name]:
            raise DataNotFoundError(
                f"{name}.npy in {self.folder!r} has the shape {found.shape}, where the fit of this "
                f"model left {self.shapes[name]}: put its rows back."
            )
        return found

    def _paths(self) -> Iterator[Path]:
        return (Path(self.folder, f"{name}.npy") for name in self.shapes)

    def __getstate__(self) -> dict[str, Any]:
        # maps and index are made again where they are needed
        found_again = ("_tree", "_maps")
        return {name: value for name, value in vars(self).items() if name not in found_again}
