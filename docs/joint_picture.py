"""Draw joint densities that are no ellipses, by chains of outputs, for docs/joint-outputs.md.

    python docs/joint_picture.py

images/joint-chain.png: points about a circle of radius 1 + x, 400 rows. images/joint-pairs.png: the
pairs of three outputs, of which two bend with the first, 400 rows.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kcdo

IMAGES = Path(__file__).parent / "images"


def ring() -> None:
    """Draw a circle that grows with x, and one output given the other."""
    rng = np.random.default_rng(0)
    x, angle = rng.uniform(0, 1, 400), rng.uniform(0, 2 * np.pi, 400)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    Y = (1 + x)[:, None] * circle + 0.1 * rng.standard_normal((400, 2))
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(x[:, None], Y)
    fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    for ax, at in zip(axes[:2], [0.2, 0.8], strict=True):
        dist = model.conditional([[at]])
        title = f"x = {at:g}"
        kcdo.JointDensityDisplay.from_distribution(dist, title=title, ax=ax, colorbar=False)
        ax.set(xlim=(-2.3, 2.3), ylim=(-2.3, 2.3))
    line = np.linspace(-2.3, 2.3, 400)
    for value in (0.0, 1.0, 1.7):
        density = dist.given({0: value}).pdf(line)[0]
        axes[2].plot(line, density, label=f"given y0 = {value:g}")
    axes[2].set(title="y1 at x = 0.8", xlabel="y1", ylabel="density", ylim=(0, None))
    axes[2].legend(frameon=False)
    fig.savefig(IMAGES / "joint-chain.png", dpi=110)


def bananas() -> None:
    """Draw the three pairs of y0 ~ N(x, 1), y1 = y0²/2 and y2 = sin 2 y0 with noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    first = x + rng.standard_normal(400)
    noise = 0.3 * rng.standard_normal((2, 400))
    Y = np.stack([first, first**2 / 2 + noise[0], np.sin(2 * first) + noise[1]], axis=1)
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(x[:, None], Y)
    dist = model.conditional([[0.0]]).with_draws(1024)
    fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    reach = [(-3, 3), (-1, 4), (-2, 2)]
    for ax, pair in zip(axes, [(0, 1), (0, 2), (1, 2)], strict=True):
        across, up = (np.linspace(*reach[k], 90) for k in pair)
        ax.contourf(across, up, dist.pair_picture(pair, across, up)[0].T, levels=12, cmap="Blues")
        ax.set(title="x = 0", xlabel=f"y{pair[0]}", ylabel=f"y{pair[1]}")
    fig.savefig(IMAGES / "joint-pairs.png", dpi=110)


if __name__ == "__main__":
    ring()
    bananas()
