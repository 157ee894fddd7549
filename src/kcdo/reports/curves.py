"""The densities behind the sliders, computed beforehand and packed into few bytes."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.reports.columns import Column, FittedModel
from kcdo.reports.inputs import Control
from kcdo.tables import table_like

STATISTICS = ("mean", "q05", "q25", "q50", "q75", "q95")

_FEWEST_NODES, _MOST_NODES = 96, 320
_NODES_PER_HALF = 6  # over the middle half of a narrow density: enough to draw it
_JOINT_SIDE = 36
_MOST_CURVES = 24_000
_WORK = 1e8  # kernel evaluations; a few seconds
_HELD_MASSES = 1 << 22  # a prediction keeps this many node masses between questions
_EXAMPLES = 256


@dataclass(frozen=True)
class Axis:
    """The values of one output at which its densities are known."""

    low: float
    high: float
    size: int

    @property
    def points(self) -> Array:
        """The values themselves."""
        return np.linspace(self.low, self.high, self.size)


def output_axes(
    model: FittedModel, X: Any, columns: Sequence[Column], outputs: Sequence[Column]
) -> list[Axis]:
    """Return an axis for each output that shows the data and nearly all of what is predicted."""
    rows = np.linspace(0, len(columns[0].values) - 1, _EXAMPLES).astype(int)
    dist = model.conditional(table_like(X, [column.values[rows] for column in columns]))
    levels = dist.summary(["q01", "q25", "q75", "q99"])
    q01, q25, q75, q99 = (levels[name].reshape(len(rows), -1) for name in levels)
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


def most_curves(model: FittedModel, axes: Sequence[Axis], most_bytes: int) -> int:
    """Return how many combinations of inputs the time and the size of the file allow."""
    each = sum(2 * axis.size + 2 * len(STATISTICS) + 4 for axis in axes)
    if len(axes) == 2:
        each += _JOINT_SIDE**2
    by_size = int(most_bytes * 3 / 4) // each
    by_time = int(_WORK / (model.report_.n_centres * len(axes)))
    return min(by_size, max(by_time, 500), _MOST_CURVES)


def compute_curves(
    model: FittedModel, X: Any, controls: Sequence[Control], axes: Sequence[Axis], flat: bool
) -> dict[str, Any]:
    """Return the packed densities of every output, and the joint ones of two outputs.

    Combinations run as the digits of a number do: the last control fastest.
    """
    shape = [len(control.values) for control in controls]
    n_curves = int(np.prod(shape))
    step = max(64, _HELD_MASSES // int(model.report_.n_nodes))
    outputs = [_Marginal(axis) for axis in axes]
    joint = _Joint(axes) if len(axes) == 2 else None
    for start in range(0, n_curves, step):
        digits = np.unravel_index(np.arange(start, min(start + step, n_curves)), shape)
        values: list[NDArray] = [np.empty(0)] * len(controls)
        for control, digit in zip(controls, digits, strict=True):
            values[control.column] = control.values[digit]
        dist = model.conditional(table_like(X, values))
        for k, output in enumerate(outputs):
            output.add(dist if flat else dist.marginal(k))
        if joint is not None:
            joint.add(dist)
    return {
        "outputs": [output.packed() for output in outputs],
        "joint": None if joint is None else joint.packed(),
    }


class _Marginal:
    """Densities and summaries of one output."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._curves: list[NDArray] = []
        self._peaks: list[Array] = []
        self._statistics: list[Array] = []

    def add(self, dist: ConditionalDistribution) -> None:
        curves, peaks = _scaled(dist.pdf(self._axis.points), 65535)
        self._curves.append(curves.astype("<u2"))
        self._peaks.append(peaks)
        answers = dist.summary(STATISTICS)
        self._statistics.append(np.stack([answers[name] for name in STATISTICS], axis=1))

    def packed(self) -> dict[str, Any]:
        peaks = np.concatenate(self._peaks)
        statistics = np.concatenate(self._statistics)
        low, high = float(statistics.min()), float(statistics.max())
        shares = (statistics - low) / ((high - low) or 1.0)
        return {
            "axis": [self._axis.low, self._axis.high, self._axis.size],
            "curves": _base64(np.concatenate(self._curves)),
            "peaks": _base64(peaks.astype("<f4")),
            "statistics": _base64(np.round(65535 * shares).astype("<u2")),
            "range": [low, high],
            "scale": [float(np.median(peaks)), float(peaks.max())],
        }


class _Joint:
    """Densities of two outputs on a coarse grid."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        sides = [np.linspace(axis.low, axis.high, _JOINT_SIDE) for axis in axes]
        self._points = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
        self._images: list[NDArray] = []

    def add(self, dist: ConditionalDistribution) -> None:
        images, _ = _scaled(dist.pdf(self._points), 255)
        self._images.append(images.astype(np.uint8))

    def packed(self) -> dict[str, Any]:
        return {"side": _JOINT_SIDE, "images": _base64(np.concatenate(self._images))}


def _scaled(densities: Array, top: int) -> tuple[Array, Array]:
    """Return densities as whole numbers up to ``top``, and what ``top`` stands for."""
    peaks = densities.max(axis=1)
    safe = np.where(peaks > 0, peaks, 1.0)
    return np.round(top * np.maximum(densities, 0.0) / safe[:, None]), peaks


def _base64(values: NDArray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
