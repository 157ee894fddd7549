"""Model files of automatic fits: every component of a mixture, what was chosen, and bounds."""

import io
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kcdo
from kcdo.components import Combination, LocationScale, Mixture, Univariate
from kcdo.kernels import Automatic
from kcdo.persistence.metadata import model_info
from kcdo.transforms import Columns
from tests import make_model_fixture
from tests.fuzz.campaign import brief_searches
from tests.model_files import (
    assert_same_distributions,
    assert_same_fit,
    forge,
    forge_somewhere,
    loads_or_refuses,
    npy,
    part_of_fit,
    records,
    with_field,
)

N = 60
OLD = Path(__file__).parent / "data" / "model-1.0-auto.kcdo"


def data(n=N):
    rng = np.random.default_rng(8)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, X[:, 0] + (0.1 + 0.1 * (X[:, 1] > 0)) * rng.standard_normal(n)


def one_output():
    X, Y = data()
    return kcdo.ConditionalDensityOperator().fit(X, Y), X, Y


def two_outputs_of_a_frame():
    table = make_model_fixture.traffic(25)
    X, Y = table[["flow", "hour", "road"]], table[["speed", "noise"]]
    return kcdo.ConditionalDensityOperator(joint="grid").fit(X, Y), X, Y


def bounded():
    X, Y = data(25)
    Y = np.c_[np.exp(Y), 1.0 / (1.0 + np.exp(-Y))]
    support = np.array([[0.0, np.inf], [0.0, 1.0]])
    combination = Combination(location_scale=0.0, residual_tail=0.0)
    model = kcdo.ConditionalDensityOperator(support=support, combination=combination)
    return model.fit(X, Y), X, Y


def on_centres():
    X, Y = data()
    return kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(20)).fit(X, Y), X, Y


@lru_cache(maxsize=1)
def nearest_rows():
    """More rows than are judged one by one, on centres: a form of near rows too."""
    rng = np.random.default_rng(3)
    X = np.c_[rng.uniform(0.0, 40.0, 2100), rng.uniform(0.0, 24.0, 2100)]
    Y = np.sin(9.0 * X[:, 0]) + 0.1 * rng.standard_normal(2100)
    kernel = kcdo.Matern(2.0).on([0]) * kcdo.Periodic(24.0, 9.0).on([1])
    solver = kcdo.Nystrom(20, choice="uniform")
    model = kcdo.ConditionalDensityOperator(
        kernel, solver=solver, combination=Combination(nearest=0.4)
    )
    with brief_searches():
        return model.fit(X, Y), X[:50], Y[:50]


def plain_alone():
    X, Y = data(30)
    kernel = Automatic().on([0]) * kcdo.Laplace(2.0).on([1])
    alone = Combination(1.0, 0.0, 0.0, 0.0)
    return kcdo.ConditionalDensityOperator(kernel, combination=alone).fit(X, Y), X, Y


def a_handful_of_rows():
    X, Y = data(10)
    return kcdo.ConditionalDensityOperator().fit(X, Y), X, Y


MODELS = [
    one_output,
    two_outputs_of_a_frame,
    bounded,
    on_centres,
    nearest_rows,
    plain_alone,
    a_handful_of_rows,
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def saved(request, tmp_path_factory):
    """A model, the same from its file, the file, and the data."""
    model, X, Y = request.param()
    file = tmp_path_factory.mktemp("auto") / "model.kcdo"
    model.save(file)
    return model, kcdo.load(file), file, X, Y


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    """A small file that has every part."""
    X, Y = data(25)
    file = tmp_path_factory.mktemp("auto") / "whole.kcdo"
    kcdo.ConditionalDensityOperator(support=(-9.0, None)).fit(X, Y).save(file)
    return file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.kcdo"


def test_a_round_trip_changes_no_bit(saved):
    model, loaded, file, X, _ = saved
    assert_same_fit(model, loaded)
    assert isinstance(loaded._operator, Mixture | Univariate)
    assert_same_distributions(model.conditional(X[:5]), loaded.conditional(X[:5]))
    again = file.with_name("again.kcdo")
    loaded.save(again)
    assert again.read_bytes() == file.read_bytes()


def test_a_loaded_model_is_refitted_alike(saved):
    model, loaded, file, X, Y = saved
    half = len(X) // 2
    first, second = model.refit(X[:half], Y[:half]), loaded.refit(X[:half], Y[:half])
    assert_same_distributions(first.conditional(X[:5]), second.conditional(X[:5]))
    assert second.report_.n_samples == half
    other = file.with_name("refitted.kcdo")
    second.save(other)
    assert_same_distributions(first.conditional(X[:5]), kcdo.load(other).conditional(X[:5]))


def test_a_loaded_model_is_fitted_anew_alike(path):
    X, Y = data(30)
    model = kcdo.ConditionalDensityOperator().fit(X, Y)
    model.save(path)
    assert_same_distributions(model.conditional(X), kcdo.load(path).fit(X, Y).conditional(X))


def test_what_was_shared_is_shared_again(saved):
    _, loaded, _, _, _ = saved
    parts, parameters = loaded._operator.components, loaded._parameters.components
    assert len(parts) == len(parameters)
    assert parts[0].operator.output is parameters[0].output
    assert parts[0].operator.system.kernel is parameters[0].kernel
    for part, chosen in zip(parts, parameters, strict=True):
        if isinstance(part, LocationScale):
            assert part.residual.output is chosen.residual.output
            assert part.map.location.centres.kernel is chosen.location.kernel


def test_a_heuristic_model_is_refitted_after_loading(path):
    X, Y = data()
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    model.save(path)
    again = kcdo.load(path).refit(X[:30], Y[:30])
    assert_same_distributions(model.refit(X[:30], Y[:30]).conditional(X), again.conditional(X))
    again.save(path)
    assert_same_distributions(again.conditional(X), kcdo.load(path).conditional(X))


def test_a_file_tells_weights_and_importances(whole_file):
    report = model_info(whole_file)["report"]
    assert set(report["weights"]) == {
        "plain",
        "location_scale",
        "residual_tail",
        "normal",
        "smoothed",
        "linear",
    }
    assert sum(report["weights"].values()) == pytest.approx(1.0)
    assert list(report["importances"]) == ["0", "1"]
    assert 0.0 <= report["importances"]["1"] <= 1.0
    assert isinstance(report["loss"], float)


def test_no_square_matrix_is_written(whole_file):
    spread = kcdo.load(whole_file)._operator.components[1].map.spread
    assert spread.whitener.shape == (25, 25)
    with zipfile.ZipFile(whole_file) as file:
        names = [name for name in file.namelist() if name.endswith(".npy")]
        arrays = [np.load(io.BytesIO(file.read(name))) for name in names]
    assert max(array.size for array in arrays) > 25
    assert not any(array.shape == (25, 25) or array.size == 25 * 26 // 2 for array in arrays)


def test_bounds_are_kept(saved):
    model, loaded, _, X, _ = saved
    if model.support is None:
        assert loaded._transform is None
        return
    assert isinstance(loaded._transform, Columns)
    assert loaded._transform == model._transform
    assert (loaded.conditional(X).sample(5, 0) > 0.0).all()


# --- forged files


def weights(**values):
    return {"$dict": [[name, value] for name, value in values.items()]}


def without(name, part):
    """Take the first component of some class out of a mixture, or out of its parameters."""

    def edit(metadata):
        entries = records(metadata, name)[0]["components"]["$tuple"]
        kinds = [metadata["objects"][entry["$ref"]]["class"] for entry in entries]
        del entries[kinds.index(part)]

    return edit


def with_plain_for_nearest(metadata):
    """Let the component of near rows be the operator of all rows."""
    (plain,), (nearest,) = records(metadata, "PlainDensity"), records(metadata, "NearestDensity")
    nearest["operator"] = plain["operator"]


def without_part(field):
    def edit(metadata):
        pairs = records(metadata, "ConditionalDensityOperator")[0]["fit"]["$dict"]
        pairs[:] = [pair for pair in pairs if pair[0] != field]

    return edit


def with_kernel(name, field):
    """Give an object a kernel that does not fit its inputs."""

    def edit(metadata):
        kernel = {"class": "Gaussian", "fields": {"scale": {"$tuple": [1.0, 1.0, 1.0]}}}
        place = next(i for i, r in enumerate(metadata["objects"]) if r["class"] == name)
        metadata["objects"].insert(place, kernel)
        for record in metadata["objects"][place + 1 :]:
            shift(record["fields"], place)
        metadata["objects"][place + 1]["fields"][field] = {"$ref": place}

    return edit


def with_parameter(name, value):
    def edit(metadata):
        for pair in records(metadata, "ConditionalDensityOperator")[0]["parameters"]["$dict"]:
            if pair[0] == name:
                pair[1] = value

    return edit


def shift(tree, place):
    """Raise by one the references to records from a place on."""
    if isinstance(tree, dict):
        if "$ref" in tree and tree["$ref"] >= place:
            tree["$ref"] += 1
        for value in tree.values():
            shift(value, place)
    elif isinstance(tree, list):
        for value in tree:
            shift(value, place)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (with_field("Mixture", "weights", weights(plain=1.5)), "do not sum to 1"),
        (with_field("Mixture", "weights", weights(plain=1.5, normal=-0.5)), "do not sum to 1"),
        (with_field("Mixture", "weights", weights(other=1.0)), "unknown components"),
        (with_field("Mixture", "weights", weights(plain="1")), "weights must not be"),
        (with_field("Mixture", "weights", weights(nearest=1.0)), "a component that is missing"),
        (with_field("Mixture", "components", {"$tuple": []}), "without its density operator"),
        (with_field("Mixture", "components", {"$tuple": [{"$ref": 0}]}), "must not be"),
        (without("Mixture", "PlainDensity"), "without its density operator"),
        (without("ModelParameters", "Side"), "parameters without those of the density"),
        (without("Mixture", "Located"), "a component that is missing"),
        (without("ModelParameters", "LocationScaleParameters"), "a component that is missing"),
        (with_field("ModelParameters", "weights", weights(plain=0.0)), "do not sum to 1"),
        (with_field("LocationScaleParameters", "residual", None), "residual must not be"),
        (with_field("LocationScaleParameters", "location", {"$ref": 0}), "location must not be"),
        (with_field("Side", "alpha", 0.0), "ridges that are not positive"),
        (with_field("LocationParameters", "noise", -1.0), "noise that is not positive"),
        (with_field("LocationParameters", "noise_of_noise", 0), "noise that is not positive"),
        (with_field("RidgeSpread", "noise", 0.0), "noise that is not positive"),
        (with_field("Columns", "parts", {"$tuple": []}), "a transform of no outputs"),
        (with_field("Above", "lower", {"$float": "inf"}), "a bound must be finite"),
        (with_field("Above", "scale", -1.0), "scale of a bound must be positive"),
        (part_of_fit("_transform", {"$ref": 0}), "no such part '_transform'"),
        (part_of_fit("_parameters", None), "no such part '_parameters'"),
        (without_part("_parameters"), "a mixture without its parameters"),
        (without_part("_transform"), "damaged"),
        (with_parameter("combination", 3), "combination must be a Combination; got 3"),
        (with_kernel("Side", "kernel"), "3 scales but the data have 4 columns"),
        (with_kernel("LocationParameters", "noise_kernel"), "3 scales but the data have 4"),
    ],
)
def test_forged_metadata(edit, message, whole_file, path):
    forge(whole_file, path, edit)
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (with_field("CombinedOperator", "weights", weights(plain=1.5)), "do not sum to 1"),
        (with_field("CombinedOperator", "weights", weights(nearest=1.0)), "that is missing"),
        (with_field("CombinedOperator", "located", None), "a component that is missing"),
        (with_field("CombinedOperator", "plain", None), "plain must not be"),
        (with_field("Chosen", "residual", None), "a component without its parameters"),
        (with_field("Chosen", "location", {"$ref": 0}), r"Chosen\.location must not be"),
        (with_field("Spread", "noise", 0.0), "noise that is not positive"),
    ],
)
def test_forged_files_of_the_first_version(edit, message, path):
    forge(OLD, path, edit)
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


@pytest.mark.parametrize(
    ("name", "field", "array"),
    [
        ("CombinedOperator", "centre", np.ones(2)),
        ("CombinedOperator", "spread", np.ones(2)),
        ("CombinedOperator", "spread", np.full(1, np.inf)),
        ("Chosen", "floor", np.ones(3)),
        ("Chosen", "floor", -np.ones(1)),
        ("Spread", "whitener", np.ones(7)),
        ("Spread", "whitener", np.ones(40 * 41 // 2)),
    ],
)
def test_forged_arrays_of_the_first_version(name, field, array, path):
    edit = with_field(name, field, {"$array": "forged"})
    forge(OLD, path, edit, members={"arrays/forged.npy": npy(array)})
    with pytest.raises(kcdo.ModelFileError, match=r"do not fit|contains NaN or infinity"):
        kcdo.load(path)


def with_another_output(metadata):
    """Let near rows have the output side of the plain component."""
    fields = records(metadata, "RowValues")[0]
    sides = [i for i, r in enumerate(metadata["objects"]) if r["class"] == "Reconstruction"]
    fields["output"] = {"$ref": next(i for i in sides if i != fields["output"]["$ref"])}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (with_field("NearestRows", "alpha", {"$float": "inf"}), "alpha must be positive"),
        (with_field("NearestRows", "neighbours", 0), "the number of neighbours"),
        (with_field("NearestRows", "neighbours", 2101), "the number of neighbours"),
        (without("Mixture", "NearestDensity"), "a component that is missing"),
        (without("ModelParameters", "NearestParameters"), "a component that is missing"),
        (with_plain_for_nearest, "near rows"),
        (with_another_output, "two output sides"),
    ],
)
def test_forged_near_rows(edit, message, path):
    model, *_ = nearest_rows()
    model.save(path)
    forge(path, path, edit)
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


@pytest.mark.parametrize(
    ("name", "field", "array"),
    [
        ("Regression", "coefficients", np.ones((25, 2))),
        ("Regression", "coefficients", np.ones((24, 1))),
        ("Regression", "offset", np.ones((1, 1))),
        ("RidgeSpread", "ridge", np.ones(7)),
        ("RidgeSpread", "ridge", -np.ones(25)),
        ("RidgeSpread", "signal", np.ones(2)),
        ("RidgeSpread", "signal", -np.ones(1)),
        ("LocationScale", "factor", np.ones(2)),
        ("LocationScale", "factor", -np.ones(1)),
        ("LocationScale", "floor", np.ones((1, 1))),
        ("LocationScaleParameters", "floor", np.ones(3)),
        ("LocationScaleParameters", "floor", -np.ones(1)),
        ("DensityOperator", "marginal", np.ones(3)),
        ("MatrixValues", "first", np.ones((25, 2))),
    ],
)
def test_forged_arrays(name, field, array, whole_file, path):
    edit = with_field(name, field, {"$array": "forged"})
    forge(whole_file, path, edit, members={"arrays/forged.npy": npy(array)})
    with pytest.raises(kcdo.ModelFileError, match=r"do not fit|contains NaN or infinity"):
        kcdo.load(path)


@settings(max_examples=60)
@given(st.data())
def test_forged_values_never_surprise(whole_file, data):
    forged = whole_file.with_name("values.kcdo")
    forge_somewhere(whole_file, forged, data)
    loads_or_refuses(forged)
