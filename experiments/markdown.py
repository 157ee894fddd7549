"""Markdown tables of results."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Header and rows as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: NDArray[np.floating], digits: int = 4) -> str:
    """The median, with the least and the greatest where there are several."""
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return "–"
    middle = f"{np.median(known):.{digits}f}"
    if len(known) == 1:
        return middle
    return f"{middle} ({known.min():.{digits}f}–{known.max():.{digits}f})"


def mean_sd(values: NDArray[np.floating], digits: int = 4) -> str:
    """The mean ± the standard deviation where there are several."""
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return "–"
    middle = f"{known.mean():.{digits}f}"
    return middle if len(known) == 1 else f"{middle} ± {known.std(ddof=1):.{digits}f}"


def leading(cells: Sequence[str], values: Sequence[float]) -> list[str]:
    """The cells with the least value in bold."""
    known = [v for v in values if np.isfinite(v)]
    return [
        f"**{cell}**" if known and value == min(known) else cell
        for cell, value in zip(cells, values, strict=True)
    ]
