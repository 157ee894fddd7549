"""The examples of docs/coming-from.md: by package, what to run before, and their lines."""

import re
import warnings
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[1] / "docs/coming-from.md"
_THEIRS = re.compile(r"^```\{code-block\} python\n:name: (\w+)\n\n(.*?)^```", re.DOTALL | re.M)


def theirs():
    """Return the lines of other packages, by the name that is imported."""
    return dict(_THEIRS.findall(PAGE.read_text(encoding="utf-8")))


def run(package):
    """Run the lines of a package, and check that they answer what they say."""
    setup = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.M)
    space = {}
    exec(setup[1], space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        exec(theirs()[package], space)
    if "interval" in space:
        assert np.squeeze(space["interval"]).shape == (40, 2)
    if "log_density" in space:
        assert np.shape(space["log_density"]) == (40,)
        assert np.isfinite(space["log_density"]).mean() > 0.9
