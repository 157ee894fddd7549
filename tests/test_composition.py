"""kcdo inside scikit-learn's pipelines and searches, and with arrays of other libraries."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kcdo
from kcdo.frames import as_known
from kcdo.namespaces import as_numpy, in_kind

RULE = kcdo.ConditionalDensityOperator(selection="heuristic")


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (60, 2))
    return X, X[:, 0] + 0.3 * rng.standard_normal(60)


# --- kcdo.conditional


def test_a_pipeline_gives_the_distributions_of_its_last_step(line):
    X, y = line
    pipeline = make_pipeline(StandardScaler(), RULE).fit(X, y)
    direct = pipeline[-1].conditional(pipeline[0].transform(X[:4]))
    np.testing.assert_array_equal(kcdo.conditional(pipeline, X[:4]).mean(), direct.mean())
    np.testing.assert_array_equal(kcdo.conditional(pipeline, X[:4]).mean(), pipeline.predict(X[:4]))


def test_searches_and_pipelines_inside_each_other(line):
    X, y = line
    pipeline = make_pipeline(StandardScaler(), RULE)
    grid = {"conditionaldensityoperator__alpha": [1e-3, 1e-1]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    np.testing.assert_array_equal(kcdo.conditional(search, X).mean(), search.predict(X))
    around = make_pipeline(StandardScaler(), GridSearchCV(RULE, {"alpha": [1e-2]}, cv=2)).fit(X, y)
    np.testing.assert_array_equal(kcdo.conditional(around, X).mean(), around.predict(X))
    alone = make_pipeline(RULE).fit(X, y)
    np.testing.assert_array_equal(kcdo.conditional(alone, X).mean(), alone.predict(X))
    model = alone[-1]
    np.testing.assert_array_equal(kcdo.conditional(model, X).mean(), model.predict(X))


def test_what_has_no_distributions_is_refused(line):
    X, y = line
    with pytest.raises(kcdo.InvalidTypeError, match=r"method conditional.*LinearRegression"):
        kcdo.conditional(make_pipeline(StandardScaler(), LinearRegression()).fit(X, y), X)
    for search in (GridSearchCV(RULE, {}), RandomizedSearchCV(RULE, {})):
        with pytest.raises(kcdo.InvalidTypeError, match="must be fitted, with refit=True"):
            kcdo.conditional(search, X)
    target = TransformedTargetRegressor(RULE, func=np.log1p, inverse_func=np.expm1)
    with pytest.raises(kcdo.InvalidTypeError, match="maps predictions back, not distributions"):
        kcdo.conditional(target, X)


# --- manners of scikit-learn


def test_targets_may_be_transformed(line):
    X, y = line
    y = np.exp(y / 5)
    model = TransformedTargetRegressor(RULE, func=np.log, inverse_func=np.exp).fit(X, y)
    inner = model.regressor_.predict(X)
    np.testing.assert_allclose(model.predict(X), np.exp(inner))


def test_frames_of_a_pipeline_keep_their_names(line):
    X, y = line
    frame = pd.DataFrame(X, columns=["a", "b"])
    scaled = make_column_transformer(
        (StandardScaler(), ["a", "b"]), verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scaled, RULE).set_output(transform="pandas").fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b"]
    table = kcdo.conditional(pipeline, frame[5:8]).to_frame(["mean"])
    assert table.index.tolist() == [5, 6, 7]


def test_weights_are_routed_to_the_fit_and_the_score(line):
    X, y = line
    weights = np.r_[np.ones(30), np.full(30, 3.0)]
    with config_context(enable_metadata_routing=True):
        model = kcdo.ConditionalDensityOperator(selection="heuristic")
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
        found = cross_validate(
            pipeline, X, y, cv=2, params={"sample_weight": weights}, return_estimator=True
        )
        search = GridSearchCV(pipeline, {"conditionaldensityoperator__alpha": [1e-2]}, cv=2)
        search.fit(X, y, sample_weight=weights)
    scaled = pipeline[0].transform(X)
    by_hand = kcdo.ConditionalDensityOperator(selection="heuristic").fit(scaled, y, weights)
    np.testing.assert_array_equal(pipeline[-1].predict(scaled), by_hand.predict(scaled))
    first = found["estimator"][0]  # scored on the first half, where weights are 1
    assert found["test_score"][0] == pytest.approx(first.score(X[:30], y[:30]))
    assert search.best_params_ == {"conditionaldensityoperator__alpha": 1e-2}


def test_a_pipeline_shows_itself_with_the_model(line):
    html = make_pipeline(StandardScaler(), RULE).fit(*line)._repr_html_()
    assert "ConditionalDensityOperator" in html
    assert "StandardScaler" in html


# --- arrays of other libraries


class Foreign:
    """The least of an array of the array API standard."""

    def __init__(self, values, dtype=None, device="here"):
        self.values = np.asarray(values, dtype=dtype)
        self.dtype, self.shape, self.device = self.values.dtype, self.values.shape, device

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __array_namespace__(self):
        return self

    float64 = np.float64
    asarray = staticmethod(lambda values, dtype, device: Foreign(values, dtype, device))
    isdtype = staticmethod(np.isdtype if hasattr(np, "isdtype") else lambda d, _: d.kind == "f")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_arrays_of_the_standard_are_answered_in_kind(line, dtype):
    X, y = line
    X = X.astype(dtype)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(Foreign(X), Foreign(y))
    answer = model.predict(Foreign(X, device="there"))
    assert isinstance(answer, Foreign)
    assert answer.device == "there"
    assert answer.dtype == (np.float64 if dtype is np.int64 else dtype)
    np.testing.assert_allclose(answer.values, model.predict(X), rtol=1e-6)
    mean = kcdo.ConditionalMeanOperator().fit(X, y)
    np.testing.assert_allclose(mean.predict(Foreign(X)).values, mean.predict(X), rtol=1e-5)
    assert model.score(Foreign(X), Foreign(y)) == model.score(X, y)


def test_other_data_stay_as_they_are():
    for data in ([[1.0]], np.zeros(3), None, pd.DataFrame({"a": [1.0]})):
        assert as_numpy(data) is data
    answer = np.zeros(2)
    assert in_kind(answer, [[1.0]]) is answer


def test_array_api_strict(line):
    xp = pytest.importorskip("array_api_strict")
    X, y = line
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(xp.asarray(X), xp.asarray(y))
    answer = model.predict(xp.asarray(X, dtype=xp.float32))
    assert answer.dtype == xp.float32
    np.testing.assert_allclose(np.asarray(answer), model.predict(X), rtol=1e-4)


def test_torch(line):
    torch = pytest.importorskip("torch")
    X, y = line
    tensor = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(tensor, torch.tensor(y))
    answer = model.predict(tensor)
    assert answer.dtype == torch.float32
    np.testing.assert_allclose(answer.numpy(), model.predict(X), rtol=1e-3)
    assert model.predict(torch.tensor([[1, 2]])).dtype == torch.float64


# --- frames of other libraries


@pytest.fixture
def frame(line):
    X, y = line
    colour = pd.Series(np.where(X[:, 1] > 5, "red", "blue"), dtype=object)
    return pd.DataFrame({"a": X[:, 0], "colour": colour, "y": y})


def check_like_pandas(inputs, outputs, frame):
    """Need the answers that the same rows in pandas give; return a table of answers."""
    known = kcdo.ConditionalDensityOperator(selection="heuristic")
    known.fit(frame[["a", "colour"]], frame["y"])
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(inputs, outputs)
    assert model.feature_names_in_.tolist() == ["a", "colour"]
    answer = model.conditional(inputs)
    np.testing.assert_array_equal(answer.mean().ravel(), known.predict(frame[["a", "colour"]]))
    assert model.score(inputs, outputs) == known.score(frame[["a", "colour"]], frame["y"])
    table = answer.to_frame(["mean"])
    np.testing.assert_array_equal(np.asarray(table["mean"]), answer.mean().ravel())
    return table


def test_tables_of_pyarrow(frame):
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(frame)
    made = check_like_pandas(table.select(["a", "colour"]), table["y"], frame)
    assert isinstance(made, pa.Table)


def test_relations_of_duckdb(frame):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.from_df(frame)
    made = check_like_pandas(relation.project("a, colour"), relation.project("y"), frame)
    assert isinstance(made, pd.DataFrame)


def test_frames_of_modin(frame, monkeypatch):
    monkeypatch.setenv("MODIN_ENGINE", "python")
    modin = pytest.importorskip("modin.pandas")
    frame.index = [f"row {i}" for i in range(len(frame))]
    table = modin.DataFrame(frame)
    made = check_like_pandas(table[["a", "colour"]], table["y"], frame)
    assert isinstance(made, modin.DataFrame)
    assert made.index.tolist() == frame.index.tolist()


def test_calibration_takes_relations_and_tables(frame):
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(frame)
    inputs, outputs = table.select(["a", "colour"]), table["y"]
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(inputs, outputs)
    known = kcdo.conformalize(model, frame[["a", "colour"]], frame["y"], groups="colour")
    ours = kcdo.conformalize(model, inputs, outputs, groups="colour")
    np.testing.assert_array_equal(
        ours.conditional(inputs).interval(0.5),
        known.conditional(frame[["a", "colour"]]).interval(0.5),
    )


def test_densities_of_tables():
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    table = pa.table({"u": rng.standard_normal(30), "v": rng.standard_normal(30)})
    model = kcdo.DensityReconstruction(reference=kcdo.UniformBox(nodes=12)).fit(table)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    np.testing.assert_array_equal(model.pdf(table), model.pdf(table.to_pandas()))


def test_data_that_only_look_like_frames_stay_as_they_are():
    class Odd:
        fetch_arrow_table = None

    odd = Odd()
    assert as_known(odd) is odd
