"""The recipes of docs/clusters.md: joblib in earnest, Ray and Spark by executors in their stead."""

import pickle
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

cloudpickle = pytest.importorskip("cloudpickle")
pd = pytest.importorskip("pandas")

PAGE = (Path(__file__).parents[1] / "docs/clusters.md").read_text(encoding="utf-8")


def blocks(heading, language):
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def namespace():
    """What the recipe of joblib leaves behind."""
    pytest.importorskip("dask")
    pytest.importorskip("joblib")
    found = {}
    exec(blocks("Dask", "python")[0], found)
    exec(blocks("joblib", "python")[0], found)
    return found


def test_joblib_merges_to_one_fit(namespace):
    merged, first = namespace["merged"], namespace["first"]
    assert merged.report_.n_samples == 6000
    whole = first.worker().partial_fit(namespace["X"], namespace["y"])
    np.testing.assert_allclose(merged.sums_.cross, whole.sums_.cross, rtol=1e-10)
    queries = namespace["X"][:20]
    np.testing.assert_allclose(merged.predict(queries), whole.predict(queries), atol=1e-8)


def sent(value):
    """Return a value as another process would get it."""
    return pickle.loads(cloudpickle.dumps(value))


class Remote:
    """A function of Ray that is called at once, on copies."""

    def __init__(self, function):
        self.function = function

    def remote(self, *arguments):
        return sent(self.function)(*map(sent, arguments))


def test_ray(namespace, monkeypatch):
    ray = ModuleType("ray")
    ray.put, ray.get, ray.remote = sent, lambda values: values, Remote
    monkeypatch.setitem(sys.modules, "ray", ray)
    own = dict(namespace)
    exec(blocks("Ray", "py")[0], own)
    np.testing.assert_array_equal(own["merged"].sums_.cross, namespace["merged"].sums_.cross)


class Table:
    """Partitions of a Spark data frame, each in two batches; one has no rows at all."""

    def __init__(self, frame):
        self.partitions = [*(frame[i : i + 1000] for i in range(0, len(frame), 1000)), frame[:0]]

    def mapInPandas(self, function, schema):  # noqa: N802  (Spark's name)
        assert schema == "sums binary"
        answers = []
        for partition in self.partitions:
            batches = (batch for batch in (partition[:600], partition[600:]) if len(batch))
            answers += [row for part in sent(function)(batches) for row in part.to_dict("records")]
        self.answers = answers
        return self

    def collect(self):
        return self.answers


def test_spark(namespace):
    X = namespace["X"]
    frame = pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "y": namespace["y"]})
    own = namespace | {"table": Table(frame)}
    exec(blocks("Spark", "py")[0], own)
    assert own["merged"].report_.n_samples == 6000
    expected = namespace["merged"].sums_.cross
    np.testing.assert_allclose(own["merged"].sums_.cross, expected, rtol=1e-10)
