"""What an installed kcdo must do, with its core dependencies alone: run by release.py."""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import kcdo

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (120, 2))
y = np.where(rng.random(120) < 0.5, 1, -1) * X[:, 0] + 0.1 * rng.standard_normal(120)

model = kcdo.ConditionalDensityOperator().fit(X, y)  # the whole of an automatic fit
dist = model.conditional(X[:5])
assert np.isfinite(dist.logpdf_pairs(y[:5])).all()
assert np.allclose(np.diagonal(dist.cdf(dist.quantile(0.3))), 0.3, atol=1e-6)
assert dist.sample(10, random_state=0).shape == (5, 10)
assert kcdo.metrics.cde_loss(dist, y[:5]) < 1.0
assert kcdo.conformalize(model, X[60:], y[60:]).conditional(X[:5]).interval(0.8).shape == (5, 2)

joint = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, np.column_stack([y, X[:, 1]]))
assert joint.predict(X[:3]).shape == (3, 2)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.kcdo"
    model.save(path)
    assert np.array_equal(kcdo.load(path).conditional(X[:5]).mean(), dist.mean())

for name in kcdo.__all__:
    getattr(kcdo, name)  # every public name is there, without any extra
command = subprocess.run(
    [sys.executable, "-m", "kcdo"], capture_output=True, text=True, check=False
)
assert 'pip install "kcdo[cli]"' in command.stderr, command

places = Path(kcdo.__file__).parent
assert (places / "py.typed").exists()
names = ("numpy", "scipy", "scikit-learn")
print(
    "smoke test passed:", f"kcdo {kcdo.__version__},", ", ".join(f"{n} {version(n)}" for n in names)
)
