"""One fixed order in which results of chunks are added, whoever computes them and when."""

from collections.abc import Callable
from typing import Any

Add = Callable[[Any, Any], Any]


def combined(add: Add, first: Any, second: Any) -> Any:
    """Return the sum of two results; None is that of a chunk without rows."""
    if first is None or second is None:
        return second if first is None else first
    return add(first, second)


class TreeSum:
    """Adds results pairwise, neighbours first, as they come in the order of their chunks.

    Sums in floating point depend on the order of their terms. Here the order is that of a binary
    tree over the numbers of the chunks, so that a cluster, which adds what is ready, and one
    process, which adds as it reads, round alike. At most log₂ n + 1 results wait.

    Examples
    --------
    >>> tree = TreeSum(lambda first, second: f"({first}{second})")
    >>> for letter in "abcde":
    ...     tree.push(letter)
    >>> tree.total()
    '(((ab)(cd))e)'
    """

    def __init__(self, add: Add) -> None:
        self._add = add
        self._waiting: list[tuple[int, Any]] = []  # levels, falling, and the sums of whole subtrees

    def push(self, value: Any) -> None:
        """Add the result of the next chunk."""
        level = 0
        while self._waiting and self._waiting[-1][0] == level:
            value = combined(self._add, self._waiting.pop()[1], value)
            level += 1
        self._waiting.append((level, value))

    def total(self) -> Any:
        """Return the sum of all results; None of none."""
        total = None
        while self._waiting:
            total = combined(self._add, self._waiting.pop()[1], total)
        return total
