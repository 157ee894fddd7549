"""The extra serve, and nothing beside it, answers over HTTP from a saved model.

tests/test_serve.py says what must hold there; here it must hold without any other extra.
"""

import json
from importlib.util import find_spec

import numpy as np
import pytest

import kcdo

pytest.importorskip("uvicorn", reason="needs the extra serve; make ecosystem runs it")
pytest.importorskip("starlette", reason="needs the extra serve; make ecosystem runs it")
if find_spec("polars") is not None:
    pytest.skip("more than the extra is installed: make ecosystem runs it", allow_module_level=True)

import pandas as pd

from tests.command_line import succeed
from tests.serving import served


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    flow, road = rng.uniform(0, 2000, 80), rng.choice(["lane", "ramp"], 80)
    speed = 100 - flow / 100 + rng.normal(size=80)
    return pd.DataFrame({"flow": flow, "road": road, "speed": speed})


@pytest.fixture(scope="module")
def model(frame):
    rule = kcdo.ConditionalDensityOperator(selection="heuristic")
    return rule.fit(frame[["flow", "road"]], frame["speed"])


def test_a_server_answers(model):
    with served(model) as client:
        assert client.get("/health") == (200, {"status": "ok", "kcdo": kcdo.__version__})
        status, page, body = client.send("GET", "/")
        assert status == 200
        assert b"<html" in body
        assert "text/html" in page["Content-Type"]


def test_tables_without_pyarrow(model, frame):
    """CSV in and out; what needs pyarrow names its extra."""
    rows = frame[["flow", "road"]][:3].to_csv(index=False)
    with served(model) as client:
        status, _, body = client.send("POST", "/predict", rows, {"Content-Type": "text/csv"})
        assert status == 200, body
        if find_spec("pyarrow") is None:
            arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
            status, _, body = client.send("POST", "/predict", b"ARROW1", arrow)
            assert status >= 400
            assert "kcdo[files]" in json.dumps(json.loads(body)).replace("\\", "")


def test_the_command_of_the_extra_is_there():
    assert "/openapi.json describes them" in succeed("serve", "--help")
