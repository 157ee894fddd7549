"""
A stream of rows
================

Data larger than memory come in chunks. The model keeps some centres and sums over the rows, so its
memory does not grow with their number. The scales of the kernels were chosen by hand.
"""

import matplotlib.pyplot as plt
import numpy as np

import kcdo


class Sensors:
    """Chunks (X, y), as they would be read from files."""

    def __iter__(self):
        for seed in range(10):
            rng = np.random.default_rng(seed)
            x = rng.uniform(-1, 1, (10_000, 1))
            lobe = rng.choice([-1, 1], 10_000) * np.sqrt(1 - x[:, 0] ** 2)
            yield x, lobe + rng.normal(size=10_000) * (0.05 + 0.15 * (x[:, 0] > 0))


model = kcdo.ConditionalDensityOperator(
    kcdo.Gaussian(0.1),
    kernel_y=kcdo.Gaussian(0.08),
    solver=kcdo.Nystrom(120),
    selection="heuristic",
)
model.fit(Sensors())

report = model.report_
print(f"{report.n_samples:,} rows, {report.n_centres} centres, {report.memory / 2**20:.1f} MiB")

# %%
# Two arcs of a circle, with more noise to the right of zero. Both are as likely, so the median is
# undecided between them.

X, y = next(iter(Sensors()))
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
left.hexbin(X[:, 0], y, gridsize=60, cmap="Greys", bins="log")
left.set(xlabel="x", ylabel="y", title="one chunk of ten")
kcdo.DensityHeatmapDisplay.from_estimator(model, X, intervals=[], ax=right)
