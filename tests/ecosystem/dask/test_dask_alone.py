"""The extra dask, and nothing beside it, fits and predicts on a cluster.

tests/test_dask.py says what must hold there; here it must hold without pandas or any other extra.
"""

from importlib.util import find_spec

import numpy as np
import pytest

import kcdo

pytest.importorskip("distributed", reason="needs the extra dask; make ecosystem runs it")
if find_spec("polars") is not None:
    pytest.skip("more than the extra is installed: make ecosystem runs it", allow_module_level=True)

import dask.array as da
from distributed import Client

from tests.dask_chunks import cut, quick, same_bits, waves


@pytest.fixture(scope="module")
def client():
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with Client(n_workers=2, threads_per_worker=1, **options) as client:
        yield client


def test_a_cluster_fits_the_same_bits(client):
    X, y = waves()
    chunks = (200, 100, 300)
    data = da.from_array(X, chunks=(chunks, 2)), da.from_array(y, chunks=(chunks,))
    model = quick().fit(*data)
    same_bits(model, quick().fit(cut(X, y, at=(0, 200, 300, 600))))
    mean = model.predict(data[0])
    assert isinstance(mean, da.Array)
    np.testing.assert_allclose(mean.compute(), model.predict(X), rtol=1e-12)
    found = model.score_samples(*data).compute()
    np.testing.assert_allclose(found, model.score_samples(X, y), rtol=1e-9)


def test_what_needs_another_package_says_so():
    if find_spec("pandas") is not None:
        pytest.skip("this version of Dask brings pandas")
    X, y = waves(40)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    with pytest.raises(ImportError, match="Tables need pandas: pip install pandas"):
        model.conditional(X[:2]).to_frame(["mean"])
