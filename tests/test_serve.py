"""``kcdo serve``: asked by a real HTTP client."""

import io
import json
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.serve import Limits, make_app
from kcdo.training import TrainingTable
from tests.command_line import fail_together, start, succeed
from tests.serving import JSON, Client, served

pytest.importorskip("uvicorn", reason='the server is an extra: pip install "kcdo[serve]"')
pytest.importorskip("starlette", reason='the server is an extra: pip install "kcdo[serve]"')

CSV = {"Content-Type": "text/csv"}
AT = {"flow": 1000.0, "road": "lane"}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 200
    flow, road = rng.uniform(0, 2000, n), rng.choice(["lane", "ramp"], n)
    speed = np.where(rng.random(n) < 0.5, 100, 40) - flow / 100 + rng.normal(size=n)
    return pd.DataFrame({"flow": flow, "road": pd.Categorical(road), "speed": speed}).round(3)


@pytest.fixture(scope="module")
def model(frame):
    plain = kcdo.ConditionalDensityOperator(selection="heuristic")
    plain.fit(frame[["flow", "road"]][:150], frame["speed"][:150])
    codes = np.column_stack([frame["flow"], frame["road"].cat.codes])[:150]
    plain.training_ = TrainingTable.of(["data.csv"], codes, categorical=[1])
    return kcdo.conformalize(plain, frame[["flow", "road"]][150:], frame["speed"][150:])


@pytest.fixture(scope="module")
def joint():
    X, Y = kcdo.make_donut(n_per_mean=3, random_state=0)
    box = kcdo.UniformBox(nodes=(25, 25))
    return kcdo.ConditionalDensityOperator(selection="heuristic", reference=box).fit(X, Y)


@pytest.fixture(scope="module")
def client(model):
    with served(model, limits=Limits(rows=500, bytes=50_000), local=True) as client:
        yield client


def test_a_model_is_asked_before_requests_are(model, monkeypatch):
    """What a loaded model solves for when it is first asked takes no request's time."""
    asked = []
    conditional = kcdo.ConditionalDensityOperator.conditional
    monkeypatch.setattr(
        kcdo.ConditionalDensityOperator,
        "conditional",
        lambda self, X: asked.append(len(X)) or conditional(self, X),
    )
    make_app(model)
    assert asked == [1]


def test_it_says_what_it_is(client):
    assert client.get("/health") == (200, {"status": "ok", "kcdo": kcdo.__version__})
    _, facts = client.get("/model")
    flow, road = facts["inputs"]
    assert flow["name"] == "flow"
    assert flow["lower"] < flow["usual"] < flow["upper"]
    assert road["labels"] == ["lane", "ramp"]
    assert (facts["targets"], facts["calibrated"]) == (["speed"], True)
    _, api = client.get("/openapi.json")
    assert api["openapi"].startswith("3.")
    for path, methods in api["paths"].items():
        assert all({"summary", "responses"} <= set(said) for said in methods.values())
        assert client.send("GET", path)[0] in (200, 405)
    at = api["paths"]["/density"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert at["properties"]["at"]["properties"]["road"] == {"enum": ["lane", "ramp"]}


def test_rows_are_predicted_as_the_library_does(client, model, frame):
    rows = frame[:5].astype({"road": str}).to_dict("records")
    rows.append({"flow": None, "road": "lane", "speed": 1.0})
    asked = {"rows": rows, "stats": ["mean", "q95", "logpdf", "novelty"], "conformal": [0.9]}
    answer = client.ask("/predict", asked)
    assert list(answer) == ["mean", "q95", "logpdf", "novelty", "lower90", "upper90"]
    X = frame[["flow", "road"]][:5]
    expected = model.model.conditional(X).summary(["mean", "q95", "logpdf"], frame["speed"][:5])
    for name, values in expected.items():
        np.testing.assert_allclose(answer[name][:5], values)
        assert answer[name][5] is None
    ends = np.column_stack([answer["lower90"][:5], answer["upper90"][:5]])
    np.testing.assert_allclose(ends, model.interval(X, 0.9))
    assert list(client.ask("/predict", {"rows": rows[:1]})) == ["mean", "sd", "q05", "q50", "q95"]


def test_tables_come_back_with_columns(client, model, frame):
    pa = pytest.importorskip("pyarrow")
    kept = frame[:40].assign(name='a "quoted", name')
    mean = model.model.predict(frame[["flow", "road"]][:40])
    text = kept.to_csv(index=False).encode()
    status, headers, body = client.send("POST", "/predict?stats=mean,sd", text, CSV)
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/csv")
    back = pd.read_csv(io.BytesIO(body))
    assert list(back) == [*kept, "mean", "sd"]
    np.testing.assert_allclose(back["mean"], mean, rtol=1e-6)
    table = pa.Table.from_pandas(kept)
    for kind, write, read in (
        ("stream", pa.ipc.new_stream, pa.ipc.open_stream),
        ("file", pa.ipc.new_file, pa.ipc.open_file),
    ):
        out = io.BytesIO()
        with write(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=15)
        arrow = {"Content-Type": f"application/vnd.apache.arrow.{kind}"}
        status, headers, body = client.send("POST", "/predict?stats=mean", out.getvalue(), arrow)
        assert (status, headers["content-type"]) == (200, arrow["Content-Type"]), body
        found = read(pa.py_buffer(body)).read_all()
        np.testing.assert_allclose(found["mean"], mean)
        assert found.schema.field("name") == table.schema.field("name")


def test_densities_are_those_of_the_model(client, model):
    answer = client.ask("/density", {"at": AT, "grid": 400})
    values, heights = np.array(answer["values"]["speed"]), np.array(answer["density"])
    assert np.trapezoid(heights, values) == pytest.approx(1, abs=0.01)
    dist = model.model.conditional(pd.DataFrame({k: [v] for k, v in AT.items()}))
    np.testing.assert_allclose(heights, dist.pdf(values)[0])
    summary = answer["summary"]["speed"]
    assert summary["mean"] == pytest.approx(dist.mean()[0])
    assert sorted(np.round(summary["modes"], -1)) == [30, 90]  # as the data have them
    assert answer["notes"] == []
    uncertain = {"flow": {"value": 1000, "sd": 400}, "road": "lane"}
    wider = client.ask("/density", {"at": uncertain})
    assert wider["summary"]["speed"]["sd"] > summary["sd"]
    (note,) = client.ask("/density", {"at": AT | {"flow": 9000}})["notes"]
    assert "above the largest" in note


def test_draws_are_repeatable(client):
    first, again, other = (
        client.ask("/sample", {"at": AT, "n": 50, "seed": seed})["speed"] for seed in (1, 1, 2)
    )
    assert len(first) == 50
    assert first == again != other


def test_joint_outputs(joint):
    with served(joint) as client:
        _, facts = client.get("/model")
        assert facts["targets"] == ["y0", "y1"]
        answer = client.ask("/density", {"at": {"x0": 0.2}})
        axes = [np.array(answer["values"][name]) for name in ("y0", "y1")]
        heights = np.array(answer["density"])
        assert heights.shape == tuple(map(len, axes))
        mass = np.trapezoid(np.trapezoid(heights, axes[1], axis=1), axes[0])
        assert mass == pytest.approx(1, abs=0.03)
        points = np.array([[axes[0][7], axes[1][30]]])
        assert heights[7, 30] == pytest.approx(joint.conditional([[0.2]]).pdf(points)[0, 0])
        single = client.ask("/density", {"at": {"x0": 0.2}, "target": "y1"})
        assert single["targets"] == ["y1"]
        turned = client.ask("/density", {"at": {"x0": 0.2}, "target": ["y1", "y0"]})
        np.testing.assert_allclose(np.array(turned["density"]).T, heights, rtol=1e-6, atol=1e-9)
        for target, part in (
            (["y0", "y0"], "twice"),
            ([], "one target, or a list of two"),
            ("y9", "did you mean"),
        ):
            status, said = client.post("/density", {"at": {"x0": 0.2}, "target": target})
            assert status == 400
            assert part in said["error"]


ROW = {"flow": 1.0, "road": "lane"}
REFUSED = [
    ("/predict", b'{"rows": [', 400, "not valid JSON"),
    ("/predict", b"\xff\xfe", 400, "not valid JSON"),
    ("/predict", "[" * 40_000, 400, "JSON"),
    ("/predict", '{"rows": [{"flow": NaN}]}', 400, "NaN is no number of JSON"),
    ("/predict", "[]", 400, "must be a JSON object"),
    ("/predict", {}, 400, '"rows" must be a list of objects'),
    ("/predict", {"rows": []}, 400, '"rows" is empty'),
    ("/predict", {"rows": [1]}, 400, "list of objects"),
    ("/predict", {"rows": [ROW | {"flw": 1}]}, 400, "no column 'flw'; did you mean flow"),
    ("/predict", {"rows": [{"flow": 1.0}]}, 400, "the request has no column 'road'"),
    ("/predict", {"rows": [ROW | {"road": "air"}]}, 400, "air"),
    ("/predict", {"rows": [ROW | {"flow": "fast"}]}, 400, "'fast'"),
    ("/predict", {"rows": [ROW | {"flow": [1]}]}, 400, "must have a number or a text"),
    ("/predict", {"rows": [ROW], "stats": ["best"]}, 400, "stats does not know 'best'"),
    ("/predict", {"rows": [ROW], "stats": "mean"}, 400, '"stats" must be a list'),
    ("/predict", {"rows": [ROW], "stats": ["logpdf"]}, 400, "has no column 'speed'"),
    ("/predict", {"rows": [ROW], "conformal": 1.5}, 400, "between 0 and 1"),
    ("/predict", {"rows": [ROW], "stats": ["mean"] * 101}, 413, "at most 100 stats"),
    ("/predict", {"rows": [ROW] * 501}, 413, "501 rows are too many"),
    ("/predict", {"rows": [ROW] * 3000}, 413, "longer than 50000 bytes"),
    ("/density", {}, 400, '"at" must be an object'),
    ("/density", {"at": {"flow": 1}}, 400, "also needs a value of road"),
    ("/density", {"at": AT | {"flow": True}}, 400, "'flow' must be a number"),
    ("/density", {"at": AT | {"flow": 10**400}}, 400, "'flow' must be a number"),
    ("/density", {"at": AT | {"flow": {"value": 1, "sd": -1}}}, 400, "'flow' must be a number"),
    ("/density", {"at": AT | {"flow": {"mean": 1}}}, 400, '"sd": 50'),
    ("/density", {"at": AT | {"road": "air"}}, 400, "must be one of lane, ramp"),
    ("/density", {"at": AT | {"road": {"value": "lane", "sd": 1}}}, 400, "one of lane, ramp"),
    ("/density", {"at": AT, "grid": 10**9}, 400, "from 2 to 5000"),
    ("/sample", {"at": AT, "n": 501}, 413, "501 draws are too many"),
    ("/sample", {"at": AT, "n": 0}, 400, '"n" must be a whole number of 1 or more'),
    ("/nowhere", {}, 404, "there is nothing here"),
    ("/health", {}, 405, "another method"),
]


@pytest.mark.parametrize(("path", "body", "status", "part"), REFUSED)
def test_a_bad_request_is_told_what_is_wrong(client, path, body, status, part):
    found, answer = client.post(path, body)
    assert (found, list(answer)) == (status, ["error"]), answer
    assert part in answer["error"]


def test_a_bad_table_is_told_what_is_wrong(client):
    arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
    for body, headers, status, part in (
        ("flow\n1\n", CSV, 400, "no column 'road'"),
        ("flow,road\n", CSV, 400, "a header but no rows"),
        ("", CSV, 400, "empty"),
        ("flow,road\n" + "1,lane\n" * 501, CSV, 413, "rows are too many"),
        ("flow,road,mean\n1,lane,2\n", CSV, 400, "'mean' would be there twice"),
        (b"\x1f\x8b\x08", CSV, 400, ""),
        (b"no arrow", arrow, 400, "no Arrow table"),
        (
            '{"rows": [{"flow": 1}], "stat": []}',
            JSON,
            400,
            '"stat" is not asked here; there is rows',
        ),
        ("flow: 1", {"Content-Type": "text/yaml"}, 415, "calls the body text/yaml: send it as"),
    ):
        found, answer = client.post("/predict", body, headers)
        assert found == status, (body, answer)
        assert part in answer["error"]


def test_a_body_of_unknown_length_is_not_read_to_its_end(client):
    def endless():
        for _ in range(10_000):
            yield b" " * 10_000

    try:
        status, _, body = client.send("POST", "/predict", endless(), JSON)
    except (BrokenPipeError, ConnectionResetError):
        return  # the server has hung up while we were still sending
    assert status == 413, body


def test_other_names_of_this_machine_are_not_answered(client):
    assert client.get("/health", Host="evil.example:80")[0] == 403
    assert client.get("/health", Host="localhost")[0] == 200


def test_time_and_token(model):
    with served(model, token="s3cret", limits=Limits(seconds=1e-6)) as client:
        for path, headers, status in (
            ("/model", {}, 401),
            ("/model", {"Authorization": "Bearer wrong"}, 401),
            ("/model", {"Authorization": "Bearer s3cret"}, 200),
            ("/model?token=s3cret", {}, 200),
            ("/health", {}, 200),
        ):
            assert client.get(path, **headers)[0] == status
        assert client.post("/sample", {"at": AT})[0] == 401
        assert "security" in client.get("/openapi.json?token=s3cret")[1]
        status, said = client.post("/predict?token=s3cret", {"rows": [ROW]})
        assert status == 503
        assert "takes longer than 1e-06 s" in said["error"]


def _memory():
    """Resident bytes of this process."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_fifty_clients_at_once(client):
    """The long form is benchmarks/serving.py."""
    asked = {"at": AT, "grid": 50}
    expected = client.ask("/density", asked)

    def work(seed):
        assert client.ask("/density", asked) == expected
        assert len(client.ask("/sample", {"at": AT, "n": 10, "seed": seed})["speed"]) == 10

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(work, range(50)))
        before = _memory()
        list(pool.map(work, range(100)))
    assert _memory() - before < 20e6


def test_an_application_for_other_servers(model):
    assert callable(make_app(model, name="traffic"))
    with pytest.raises(kcdo.errors.InvalidInputError, match="commands work with"):
        make_app(kcdo.ConditionalMeanOperator().fit([[0.0], [1.0]], [0.0, 1.0]))


def test_the_command_serves_until_it_is_interrupted(model, tmp_path):
    path = tmp_path / "m.kcdo"
    model.save(path)
    process = start("serve", path, "--port", 0, "--json")
    try:
        said = json.loads(process.stdout.readline())
        assert said["token"] is None
        port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", said["url"])[1])
        client = Client(port)
        assert client.get("/health")[0] == 200
        assert client.send("GET", "/")[1]["content-type"].startswith("text/html")
        taken = ("serve", path, "--port", port)
        fail_together([(taken, 1, [f"cannot listen on 127.0.0.1 port {port}", "--port 0"])])
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "Stopped.\n")


def test_a_token_is_made_up_for_other_machines(model, tmp_path):
    path = tmp_path / "m.kcdo"
    model.save(path)
    process = start("serve", path, "--host", "0.0.0.0", "--port", 0, "--json")
    try:
        said = json.loads(process.stdout.readline())
        assert len(said["token"]) > 30
        assert said["url"].endswith(f"/?token={said['token']}")
        client = Client(int(re.search(r":(\d+)/", said["url"])[1]))
        assert client.get("/model")[0] == 401
        assert client.get("/model", Authorization=f"Bearer {said['token']}")[0] == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    fail_together(
        [
            (("serve", path, "--token", "naïve"), 2, ["--token must be printable ASCII"]),
            (("serve", path, "--host", "no.such.host.invalid"), 1, ["cannot listen on"]),
        ]
    )
    assert "serve" in succeed("--help")
