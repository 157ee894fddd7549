"""Bad input gets a clear error before any work; frames and categories are kept and checked."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

import kcdo

X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
Y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(40)


def spoiled(values, place, value):
    copy = np.array(values, dtype=float)
    copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (spoiled(X, (3, 1), np.nan), Y, "X contains NaN in column 1, 1 of 40 rows"),
        (spoiled(X, (3, 0), np.inf), Y, "X contains infinity .* column 0"),
        (X, spoiled(Y, 5, np.nan), "Y contains NaN in 1 of 40 rows"),
        (X, spoiled(Y, 5, -np.inf), "Y contains infinity"),
        (X, Y[:-1], "inconsistent numbers of samples: 40 and 39"),
        (X[:1], Y[:1], "1 sample"),
        (X[:0], Y[:0], "0 sample"),
        (X, None, "y to be passed"),
        (X, np.zeros((40, 2, 2)), r"Y must be \(N,\) or \(N, d\)"),
        (X[:, 0], Y, "2D array"),
        ([["a", 1.0]] * 40, Y, "column 0 of X is not numeric"),
        (X, ["low"] * 40, "column 0 of Y is not numeric"),
    ],
)
def test_unusable_data(inputs, outputs, message):
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    with pytest.raises(ValueError, match=message):
        model.fit(inputs, outputs)
    with pytest.raises(NotFittedError):
        model.predict(X)  # nothing is half-fitted


def test_nan_in_a_frame_names_the_column():
    frame = pd.DataFrame({"flow": X[:, 0], "hour": spoiled(X[:, 1], 2, np.nan)})
    with pytest.raises(ValueError, match="NaN in column 'hour'"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(frame, Y)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_outputs_in_a_series_are_called_by_its_name(kind):
    for value, message in ((np.inf, "infinity .* column 'speed', 1 of 40"), (np.nan, "NaN in .*")):
        target = frames(kind, speed=spoiled(Y, 5, value))["speed"]
        with pytest.raises(ValueError, match=message):
            kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, target)
    towns = frames(kind, town=["here", "there"] * 20)["town"]
    with pytest.raises(ValueError, match=r"'town' of Y is not numeric .*'here'.* 0 and 1"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, towns)


def moments():
    days = pd.date_range("2024-01-01", periods=40)
    yield days
    yield days.tz_localize("UTC")
    yield days.to_period("D")
    yield days - days[0]
    yield pd.Series([day.date() for day in days], dtype=object)


@pytest.mark.parametrize("when", list(moments()), ids=lambda when: str(when.dtype))
def test_dates_are_refused_by_name(when):
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    with pytest.raises(ValueError, match=r"'when' of X holds dates or times.* make numbers"):
        model.fit(pd.DataFrame({"x": X[:, 0], "when": when}), Y)
    with pytest.raises(ValueError, match="'when' of Y holds dates or times"):
        model.fit(X, pd.Series(when, name="when"))


def test_dates_in_arrays_and_polars_frames_are_refused():
    days = np.arange("2024-01-01", "2024-02-10", dtype="datetime64[D]")
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    with pytest.raises(ValueError, match="column 0 of X holds dates or times, such as 2024-01-01"):
        model.fit(days[:, None], Y)
    with pytest.raises(ValueError, match="'when' of X holds dates"):
        model.fit(pl.DataFrame({"x": X[:, 0], "when": days}), Y)


def test_misplaced_columns_are_not_blamed_for_their_values():
    frame = pd.DataFrame({"x": X[:, 0], "town": pd.Categorical(["here", "there"] * 20)})
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(frame, Y)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(frame[["town", "x"]])
    with pytest.raises(ValueError, match="now missing:\n- town"):
        model.predict(frame[["x"]])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(40, -1.0), "negative"),
        (np.zeros(40), "zero"),
        (np.ones(39), r"shape \(40,\)"),
        (spoiled(np.ones(40), 0, np.nan), "sample_weight contains NaN"),
    ],
)
def test_unusable_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, "alpha must be positive"),
        ({"alpha": -1.0}, ValueError, "alpha must be positive"),
        ({"alpha": "big"}, TypeError, "alpha must be a positive number"),
        ({"alpha": True}, TypeError, "alpha must be a positive number"),
        ({"alpha_prime": np.inf}, ValueError, "alpha_prime must be positive"),
        ({"alpha_prime": 0}, ValueError, "alpha_prime must be positive"),
        ({"selection": "magic"}, ValueError, "selection must be one of"),
        ({"positivity": "maybe"}, ValueError, "positivity must be one of"),
        ({"kernel_x": 3.0}, TypeError, "a kernel must be"),
        ({"kernel_x": kcdo.Gaussian}, TypeError, "a kernel must be"),
        ({"kernel_y": "gaussian"}, TypeError, "kernel_y must be a kcdo kernel"),
        ({"kernel_y": kcdo.Periodic(1.0, 1.0)}, TypeError, "not a probability density"),
        ({"reference": [0, 1]}, TypeError, "reference must be"),
        ({"filter": "tikhonov"}, TypeError, "filter must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"random_state": np.random.RandomState(0)}, TypeError, "random_state must be"),
        ({"solver": "fast"}, TypeError, "solver must be"),
        ({"kernel_x": kcdo.Gaussian((1.0, 1.0, 1.0))}, ValueError, "3 scales but .* 2 columns"),
        ({"kernel_x": kcdo.Gaussian(1.0).on(5)}, ValueError, "column 5"),
        ({"kernel_x": kcdo.Gaussian(1.0).on("hour")}, ValueError, "names work with data frames"),
    ],
)
def test_unusable_options(options, error, message):
    model = kcdo.ConditionalDensityOperator(**options)
    with pytest.raises(error, match=message):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_options_refuse_nonsense_when_made():
    with pytest.raises(ValueError, match="positive"):
        kcdo.Gaussian(0.0)
    with pytest.raises(ValueError, match="positive"):
        kcdo.Laplace((1.0, -2.0))
    with pytest.raises(ValueError, match="no width"):
        kcdo.UniformBox(1.0, 1.0)


def test_wrong_queries():
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    with pytest.raises(ValueError, match=r"3 features, but .* 2 features"):
        model.conditional(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="0 sample"):
        model.conditional(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="NaN in column 1"):
        model.conditional([[0.0, np.nan]])


def test_a_box_that_excludes_outputs_warns():
    with pytest.warns(kcdo.SupportWarning, match="of 40 outputs lie outside"):
        kcdo.ConditionalDensityOperator(
            reference=kcdo.UniformBox(0.0, 2.0), selection="heuristic"
        ).fit(X, Y)


def test_a_grid_too_coarse_for_the_kernel_warns():
    model = kcdo.ConditionalDensityOperator(
        kernel_y=kcdo.Gaussian(0.001),
        reference=kcdo.UniformBox(-3.0, 3.0, nodes=20),
        selection="heuristic",
    )
    with pytest.warns(kcdo.AccuracyWarning, match="nodes"):
        model.fit(X, Y)


def frames(kind, **columns):
    return pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_keep_and_check_their_names(kind):
    frame = frames(kind, flow=X[:, 0], hour=X[:, 1])
    target = frames(kind, speed=Y)["speed"]
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(frame, target)
    assert list(model.feature_names_in_) == ["flow", "hour"]
    plain = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    np.testing.assert_allclose(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frames(kind, hour=X[:, 1], flow=X[:, 0]))
    two = model.fit(frame, frames(kind, a=Y, b=-Y)).predict(frame)
    np.testing.assert_allclose(two[:, 0], -two[:, 1], atol=1e-8)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_kernels_on_named_columns(kind):
    frame = frames(kind, flow=X[:, 0], hour=12 + 12 * X[:, 1])
    kernel = kcdo.Gaussian(1.0).on("flow") * kcdo.Periodic(24.0, 4.0).on("hour")
    model = kcdo.ConditionalDensityOperator(kernel_x=kernel, selection="heuristic").fit(frame, Y)
    early, late = (frames(kind, flow=[0.0], hour=[h]) for h in (0.5, 24.5))
    np.testing.assert_allclose(model.predict(early), model.predict(late))
    with pytest.raises(ValueError, match="column 'speed'"):
        kcdo.ConditionalDensityOperator(
            kernel_x=kcdo.Gaussian(1.0).on("speed"), selection="heuristic"
        ).fit(frame, Y)


def colours(kind, values):
    if kind == "pandas":
        return pd.DataFrame({"c": pd.Categorical(values), "x": np.linspace(0, 1, len(values))})
    return pl.DataFrame(
        {"c": pl.Series(values).cast(pl.Categorical), "x": np.linspace(0, 1, len(values))}
    )


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categorical_columns(kind):
    values = ["red", "blue", "green"] * 20
    target = np.array([0.0, 5.0, -5.0] * 20) + 0.1 * np.random.default_rng(0).standard_normal(60)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        colours(kind, values), target
    )
    means = model.predict(colours(kind, ["green", "blue", "red"]))
    assert means[0] < means[2] < means[1]
    with pytest.raises(ValueError, match="category 'pink', which was not seen"):
        model.predict(colours(kind, ["pink", "red"]))
    uncertain = kcdo.SampleInput([np.array([["red", 0.5], ["blue", 0.5]], dtype=object)])
    assert means[0] < model.conditional(uncertain).mean()[0] < means[1]


def test_categories_in_arrays_need_a_categorical_kernel():
    table = np.array([["a", 0.1], ["b", 0.2]] * 10, dtype=object)
    target = np.array([0.0, 1.0] * 10)
    with pytest.raises(
        ValueError, match=r"column 0 of X is not numeric .*In data frames.*Categorical"
    ):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(table, target)
    kernel = kcdo.Categorical(0.1).on(0) * kcdo.Gaussian(1.0).on(1)
    model = kcdo.ConditionalDensityOperator(kernel_x=kernel, selection="heuristic").fit(
        table, target
    )
    low, high = model.predict(table[:2])
    assert low < high
    with pytest.raises(ValueError, match="NaN in categorical column 0"):
        model.predict(np.array([[None, 0.1]], dtype=object))


def test_a_failed_fit_leaves_no_columns_behind():
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(spoiled(X, (0, 0), np.nan), Y)
    assert not hasattr(model, "n_features_in_")


def test_text_that_comes_late_is_found():
    table = [[0.0, 1.0]] * 39 + [[0.0, "x"]]
    with pytest.raises(ValueError, match=r"column 1 of X is not numeric .*'x'"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(table, Y)


def test_a_missing_category_of_pandas():
    frame = pd.DataFrame({"c": pd.array(["a", pd.NA] * 20, dtype="string").astype("category")})
    with pytest.raises(ValueError, match="NaN in categorical column 'c'"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(frame, Y)


def test_categories_of_later_chunks_are_learnt():
    chunks = [
        (pd.DataFrame({"c": pd.Categorical([letter] * 30)}), np.full(30, value) + 0.1 * Y[:30])
        for letter, value in (("a", 0.0), ("b", 5.0))
    ]
    model = kcdo.ConditionalDensityOperator(
        solver=kcdo.Nystrom(5, "uniform"), selection="heuristic"
    ).fit(chunks)
    low, high = model.predict(pd.DataFrame({"c": pd.Categorical(["a", "b"])}))
    assert low < high


@pytest.mark.parametrize("selection", ["heuristic", "auto"])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_texts_in_a_frame_are_categories(kind, selection, short_searches):
    towns = np.where(X[:, 1] > 0, "here", "there").tolist()
    target = Y + 5 * (X[:, 1] > 0)
    texts = frames(kind, x=X[:, 0], town=towns)
    if kind == "pandas":
        typed = texts.astype({"town": "category"})
    else:
        typed = texts.cast({"town": pl.Categorical})
    fits = [
        kcdo.ConditionalDensityOperator(selection=selection).fit(frame, target)
        for frame in (texts, typed)
    ]
    assert fits[0].categories[1] in (("here", "there"), ("there", "here"))
    np.testing.assert_array_equal(fits[0].predict(texts), fits[1].predict(typed))
    np.testing.assert_array_equal(fits[0].predict(texts), fits[0].predict(typed))
    with pytest.raises(ValueError, match="category 'nowhere', which was not seen"):
        fits[0].predict(frames(kind, x=X[:1, 0], town=["nowhere"]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "b"] * 20, r"'k' of X is not numeric .*'b'.* none in their column is a number"),
        ([f"t{i}" for i in range(40)] * 2, None),
        ([f"t{i}" for i in range(80)], "'k' of X is not numeric .*categorical column type"),
        (["2024-01-31", "2024-02-01"] * 20, "'k' of X holds dates or times, such as '2024-01-31'"),
        (["a", None] * 20, "NaN in categorical column 'k'"),
        (["1.5", "2"] * 20, None),  # numbers, if as texts
    ],
)
def test_texts_that_are_no_categories_are_named(values, message):
    frame = pd.DataFrame({"k": pd.Series(values, dtype=object)})
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    target = np.arange(len(values)) % 13 + 0.1 * np.sin(np.arange(len(values)))
    if message is None:
        model.fit(frame, target)
    else:
        with pytest.raises(ValueError, match=message):
            model.fit(frame, target)


@pytest.mark.parametrize("selection", ["heuristic", "auto"])
def test_outputs_of_few_values_are_named(selection, short_searches):
    model = kcdo.ConditionalDensityOperator(selection=selection)
    for target, message in (
        (pd.DataFrame({"speed": Y, "late": Y > 0}), "output 'late' has only 2 distinct values"),
        (pd.DataFrame({"speed": Y, "late": 3}), "output 'late' is 3 in every row"),
        (np.full(40, 3.0), "output 0 is 3 in every row"),
    ):
        with pytest.warns(kcdo.DiscreteOutputWarning, match=message):
            model.fit(X, target)


def test_a_category_has_no_variance():
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Categorical(1.0), selection="heuristic"
    ).fit([[0], [1]] * 10, [0.0, 1.0] * 10)
    with pytest.raises(ValueError, match="variance 0"):
        model.conditional(kcdo.GaussianInput([[0.0]], 1.0)).mean()


def shared_letters(A, B):
    return np.array([[len(set(a) & set(b)) / len(set(a) | set(b)) for b in B] for a in A])


def test_inputs_need_not_be_vectors():
    words = ["abc", "abd", "xyz", "xyw"] * 5
    target = np.array([0.0, 0.0, 1.0, 1.0] * 5)
    model = kcdo.ConditionalDensityOperator(kernel_x=shared_letters, selection="heuristic").fit(
        words, target
    )
    near, far = model.predict(["abe", "xyv"])
    assert near < 0.5 < far
    with pytest.raises(ValueError, match="needs inputs that are vectors"):
        model.conditional(kcdo.GaussianInput([[0.0]], 1.0))
    with pytest.raises(ValueError, match="0 sample"):
        model.predict([])


def test_a_scikit_learn_kernel():
    ours = kcdo.ConditionalDensityOperator(kernel_x=kcdo.Gaussian(0.7), selection="heuristic").fit(
        X, Y
    )
    theirs = kcdo.ConditionalDensityOperator(kernel_x=RBF(0.7), selection="heuristic").fit(X, Y)
    np.testing.assert_allclose(theirs.predict(X), ours.predict(X), atol=1e-8)


def test_conditional_mean_operator():
    x = np.linspace(-1, 1, 300)[:, None]
    y = np.column_stack([x[:, 0], x[:, 0] ** 2])
    cmo = kcdo.ConditionalMeanOperator(kcdo.Gaussian(0.4), alpha=1e-8).fit(x, y)
    np.testing.assert_allclose(cmo.predict([[0.5]]), [[0.5, 0.25]], atol=1e-3)
    np.testing.assert_allclose(cmo.expect(lambda v: v.sum(axis=1), [[0.5]]), 0.75, atol=1e-3)
    embedding = cmo.embedding([[0.5]])[0]
    np.testing.assert_allclose(embedding.weights @ y, [0.5, 0.25], atol=1e-3)
    with pytest.raises(ValueError, match="one value or row per output"):
        cmo.expect(lambda v: 1.0, [[0.5]])


def test_kernel_sum_rule_is_the_average_of_the_conditionals():
    x = np.linspace(-1, 1, 200)[:, None]
    cmo = kcdo.ConditionalMeanOperator(kcdo.Gaussian(0.4), alpha=1e-6).fit(x, np.sin(x[:, 0]))
    prior = kcdo.GaussianEmbedding([0.1], [0.04], kernel=kcdo.Gaussian(0.4))
    posterior = cmo.sum_rule(prior)
    exact = np.exp(-0.02) * np.sin(0.1)  # E sin(x) for x ~ N(0.1, 0.04)
    assert posterior.weights @ posterior.points[:, 0] == pytest.approx(exact, abs=1e-3)
    uncertain = cmo.embedding(kcdo.GaussianInput([[0.1]], 0.04))[0]
    np.testing.assert_allclose(uncertain.weights, posterior.weights, atol=1e-8)
    with pytest.raises(ValueError, match="embedded with the input kernel"):
        cmo.sum_rule(kcdo.GaussianEmbedding([0.1], [0.04], kernel=kcdo.Gaussian(1.0)))
