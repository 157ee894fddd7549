"""Draw docs/images/joint-chain.png: a joint density that is no ellipse, by a chain of outputs.

    python docs/joint_picture.py

The points lie about a circle of radius 1 + x; the model sees 400 rows.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import kcdo

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
fig.savefig(Path(__file__).parent / "images" / "joint-chain.png", dpi=110)
