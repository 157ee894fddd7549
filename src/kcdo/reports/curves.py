"""The densities that a reader can choose, computed beforehand and packed into few bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics.nearness import place_and_width
from kcdo.metrics.several import quantiles, rows_at_once
from kcdo.progress import Progress
from kcdo.reports.columns import Column, FittedModel
from kcdo.reports.packing import packed, packed_floats
from kcdo.tables import table_like

_ASKED = ("mean", "q05", "q25", "q50", "q75", "q95")
STATISTICS = (*_ASKED, "place", "width")

_FEWEST_NODES, _MOST_NODES = 96, 320
_NODES_PER_HALF = 6  # over the middle half of a narrow density: enough to draw it
_SIDES = {1: 36, 3: 26, 6: 22}  # of the pictures of pairs of outputs, by the number of pairs
_JOINT_OUTPUTS = 4
_HELD_MASSES = 1 << 22  # a prediction keeps this many node masses between questions


@dataclass(frozen=True)
class Axis:
    """The values of one output at which its densities are known."""

    low: float
    high: float
    size: int

    @property
    def edges(self) -> Array:
        """The ends of the cells around the values, one more than there are values."""
        half = 0.5 * (self.high - self.low) / (self.size - 1)
        return np.linspace(self.low - half, self.high + half, self.size + 1)


def output_axes(dist: ConditionalDistribution, outputs: Sequence[Column]) -> list[Axis]:
    """Return an axis for each output that shows the data and nearly all of what is predicted."""
    q01, q25, q75, q99 = quantiles(dist, [0.01, 0.25, 0.75, 0.99])
    axes = []
    for k, output in enumerate(outputs):
        low, high = np.quantile(q01[:, k], 0.01), np.quantile(q99[:, k], 0.99)
        if len(output.present):
            seen = np.quantile(output.present, [0.005, 0.995])
            low, high = min(low, seen[0]), max(high, seen[1])
        margin = 0.08 * (high - low) or 1.0
        low, high = low - margin, high + margin
        narrow = np.quantile(q75[:, k] - q25[:, k], 0.05)
        wanted = _NODES_PER_HALF * (high - low) / max(narrow, 1e-9 * (high - low))
        size = int(np.clip(wanted, _FEWEST_NODES, _MOST_NODES))
        axes.append(Axis(float(low), float(high), size))
    return axes


def output_pairs(d: int) -> list[tuple[int, int]]:
    """Return the pairs of outputs whose joint density is shown."""
    return list(combinations(range(min(d, _JOINT_OUTPUTS)), 2))


def bytes_per_curve(axes: Sequence[Axis]) -> int:
    """Return how many bytes one combination of inputs takes, before they become text."""
    pairs = len(output_pairs(len(axes)))
    images = pairs * _SIDES[pairs] ** 2 if pairs else 0
    return sum(2 * axis.size + 4 * len(STATISTICS) + 4 for axis in axes) + images


def compute_curves(
    model: FittedModel,
    X: Any,
    columns: Sequence[NDArray],
    axes: Sequence[Axis],
    flat: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Return the packed densities of every output, and of pairs of outputs, for columns of inputs.

    The columns have one value for each curve.
    """
    n_curves = len(columns[0])
    step = max(64, min(2048, _HELD_MASSES // int(model.report_.n_nodes)))
    if len(axes) > 1:
        step = rows_at_once(len(axes))
    outputs = [_Marginal(axis) for axis in axes]
    pairs = output_pairs(len(axes))
    joints = [_Joint(pair, axes, _SIDES[len(pairs)]) for pair in pairs]
    for start in range(0, n_curves, step):
        part = [column[start : start + step] for column in columns]
        dist = model.conditional(table_like(X, part))
        if not flat:
            dist.fixed_draws()  # first, so that marginals and pairs share what a chain draws
        for k, output in enumerate(outputs):
            output.add(dist if flat else dist.marginal(k))
        for joint in joints:
            joint.add(dist)
        progress.update(min(start + step, n_curves), n_curves)
    return {
        "outputs": [output.packed() for output in outputs],
        "pairs": [joint.packed() for joint in joints],
    }


class _Marginal:
    """Densities and summaries of one output."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._curves: list[NDArray] = []
        self._peaks: list[Array] = []
        self._statistics: list[Array] = []

    def add(self, dist: ConditionalDistribution) -> None:
        # Means over cells, not values at points: a spike between two points has its mass.
        densities = np.diff(dist.cdf(self._axis.edges), axis=1) / np.diff(self._axis.edges)
        curves, peaks = _scaled(densities, 65535)
        self._curves.append(curves.astype("<u2"))
        self._peaks.append(peaks)
        answers = dist.summary(_ASKED)
        self._statistics.append(np.column_stack([*answers.values(), *place_and_width(dist)]))

    def packed(self) -> dict[str, Any]:
        peaks = np.concatenate(self._peaks)
        return {
            "axis": [self._axis.low, self._axis.high, self._axis.size],
            "curves": packed(np.concatenate(self._curves)),
            "peaks": packed_floats(peaks),
            "statistics": packed_floats(np.concatenate(self._statistics)),
            "scale": [float(np.median(peaks)), float(peaks.max())],
        }


class _Joint:
    """Densities of two outputs on a coarse grid."""

    def __init__(self, pair: tuple[int, int], axes: Sequence[Axis], side: int) -> None:
        self._pair, self._side = pair, side
        self._across, self._up = (np.linspace(axes[k].low, axes[k].high, side) for k in pair)
        self._images: list[NDArray] = []

    def add(self, dist: ConditionalDistribution) -> None:
        densities = dist.pair_picture(self._pair, self._across, self._up)
        images, _ = _scaled(densities.reshape(len(dist), -1), 255)
        self._images.append(images.astype(np.uint8))

    def packed(self) -> dict[str, Any]:
        images = packed(np.concatenate(self._images))
        return {"outputs": list(self._pair), "side": self._side, "images": images}


def _scaled(densities: Array, top: int) -> tuple[Array, Array]:
    """Return densities as whole numbers up to ``top``, and what ``top`` stands for."""
    peaks = densities.max(axis=1)
    safe = np.where(peaks > 0, peaks, 1.0)
    return np.round(top * np.maximum(densities, 0.0) / safe[:, None]), peaks
