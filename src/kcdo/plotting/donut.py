"""The figure of the demonstration, drawn from plain arrays.

Needs matplotlib when imported, so that the demonstration says so before it starts to work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import MissingExtraError

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError('Figures need an extra: pip install "kcdo[plots]"') from error

__all__ = ["donut_figure"]


_DENSITY_COLOURS = "BuPu"
_SAMPLE_COLOURS = "viridis"


def donut_figure(
    X: Array,
    Y: Array,
    queries: Sequence[float],
    truth: Array,
    estimate: Array,
    half_width: float = 2.0,
) -> Figure:
    """Draw the donut's sample beside its true and estimated densities of (y, z) given x.

    Figure 1 of Schuster et al. (2020): one row per query, truth left, estimate right, on one
    colour scale per row.

    Parameters
    ----------
    X : array of shape (N, 1)
        Sampled x.
    Y : array of shape (N, 2)
        Sampled (y, z).
    queries : sequence of Q floats
        The values of x that are conditioned on.
    truth, estimate : arrays of shape (Q, n_y, n_z)
        Densities on a regular grid over the square; the first grid axis is y.
    half_width : float
        The square is [-half_width, half_width]².

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(path)`` writes it.
    """
    n_rows = len(queries)
    figure = Figure(figsize=(12.0, 2.8 * n_rows), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.0, 1.15])
    left, right = halves
    _draw_sample(left.add_subplot(projection="3d"), X, Y, queries)
    panels = right.subplots(n_rows, 2, sharex=True, sharey=True, squeeze=False)
    for row, x, true_values, values in zip(panels, queries, truth, estimate, strict=True):
        _draw_row(row, x, true_values, values, half_width)
    for panel in panels[-1]:
        panel.set_xlabel("$y$")
    return figure


def _draw_row(
    panels: NDArray[Any],
    x: float,
    truth: Array,
    estimate: Array,
    half_width: float,
) -> None:
    """Truth and estimate at one x, on the colour scale of the larger of the two."""
    top = max(truth.max(), estimate.max())
    for panel, title, values in zip(panels, ("truth", "estimate"), (truth, estimate), strict=True):
        image = panel.imshow(
            values.T,  # imshow puts the first axis upwards, and that is z here
            origin="lower",
            extent=(-half_width, half_width, -half_width, half_width),
            vmin=0.0,
            vmax=top,
            cmap=_DENSITY_COLOURS,
            interpolation="bilinear",
        )
        panel.set_title(f"{title},  $x = {x:g}$")
        panel.set_aspect("equal")
        panel.locator_params(nbins=5)
    panels[0].set_ylabel("$z$")
    panels[0].figure.colorbar(image, ax=list(panels), label=f"$p(y, z\\,|\\,x = {x:g})$")


def _draw_sample(axes: Any, X: Array, Y: Array, queries: Sequence[float]) -> None:
    """The sample in 3-D, with the planes on which the densities are drawn."""
    axes.scatter(X[:, 0], Y[:, 0], Y[:, 1], c=X[:, 0], cmap=_SAMPLE_COLOURS, s=7, alpha=0.8, lw=0)
    limit = 1.3
    corners = np.array([[-limit, limit]])
    for x in queries:
        y, z = np.broadcast_arrays(corners, corners.T)
        axes.plot_surface(np.full(y.shape, x), y, z, color="tab:red", alpha=0.1, lw=0, shade=False)
        axes.text(x, limit, limit, f"$x = {x:g}$", color="tab:red", ha="center", va="bottom")
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit))
    axes.set(xlabel="$x$", ylabel="$y$", zlabel="$z$", title=f"{len(X)} samples")
    axes.set_box_aspect((1, 1, 1), zoom=1.05)
    axes.view_init(elev=22, azim=-62)
