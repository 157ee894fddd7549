"""Model files in tests: whether two models are the same, and copies of files that were forged."""

import hashlib
import io
import json
import zipfile

import numpy as np
from hypothesis import strategies as st

import kcdo

# --- models


def data(n=60, p=2):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (n, p))
    return X, X[:, 0] + 0.2 * rng.standard_normal(n)


def cdo(**options):
    options = {"reference": kcdo.UniformBox(nodes=24), "selection": "heuristic"} | options
    return kcdo.ConditionalDensityOperator(**options)


def nystrom():
    """A small model that has sums too, and inputs."""
    X, Y = data()
    return cdo(solver=kcdo.Nystrom(15), alpha=kcdo.CorrectedScheme()).fit(X, Y), X


# --- whether two are the same


def assert_same_distributions(first, second):
    np.testing.assert_array_equal(first.summary(["mean"])["mean"], second.summary(["mean"])["mean"])
    np.testing.assert_array_equal(first.std(), second.std())
    np.testing.assert_array_equal(first.quantile([0.1, 0.6]), second.quantile([0.1, 0.6]))
    np.testing.assert_array_equal(first.sample(3, 0), second.sample(3, 0))


def assert_same_fit(model, loaded):
    """Every attribute of the fit came back: nothing was left out of the file."""
    assert vars(loaded).keys() == vars(model).keys()
    assert str(loaded.get_params()) == str(model.get_params())
    assert str(getattr(loaded, "report_", None)) == str(getattr(model, "report_", None))


# --- forged files: a good seal, and contents made to harm


def seal(path):
    """Give a zip the comment that makes its checksum right."""
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"sha256:" + b"0" * 64
    reseal(path)


def reseal(path):
    content = path.read_bytes()[:-64]
    digest = hashlib.sha256(content[: -len(b"sha256:")]).hexdigest()
    path.write_bytes(content + digest.encode())


def forge(source, target, edit=None, members=None, compression=zipfile.ZIP_STORED):
    """Copy a model file with changed metadata, or with other members in place of some."""
    with zipfile.ZipFile(source) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    if edit is not None:
        metadata = json.loads(parts["metadata.json"])
        edit(metadata)
        parts["metadata.json"] = json.dumps(metadata).encode()
    parts |= members or {}
    with zipfile.ZipFile(target, "w", compression) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    seal(target)


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=(1, 0), **options)
    return stream.getvalue()


def records(metadata, name):
    return [r["fields"] for r in metadata["objects"] if r["class"] == name]


def with_field(name, field, value):
    def edit(metadata):
        records(metadata, name)[0][field] = value

    return edit


def part_of_fit(field, value):
    def edit(metadata):
        for pair in records(metadata, "ConditionalDensityOperator")[0]["fit"]["$dict"]:
            if pair[0] == field:
                pair[1] = value

    return edit


def forge_somewhere(source, target, data):
    """Copy a model file with one value, anywhere in its objects, replaced by junk."""

    def edit(metadata):
        *way, last = data.draw(st.sampled_from([p for p in places(metadata["objects"]) if p]))
        parent = metadata["objects"]
        for key in way:
            parent = parent[key]
        parent[last] = data.draw(JUNK)

    forge(source, target, edit)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from([2**64, 1e300, -0.0, {"$float": "inf"}, {"$float": "nan"}])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.builds(lambda i: {"$ref": i}, st.integers(-1, 30))
    | st.builds(lambda i: {"$array": f"a{i}"}, st.integers(0, 12))
    | st.builds(lambda kind: {"$scalar": [kind, 7]}, st.sampled_from(["<f8", "<i8", "|b1"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(lambda v: {"$tuple": v}, st.lists(inner, max_size=3))
        | st.builds(lambda v: {"$dict": v}, st.lists(st.tuples(inner, inner), max_size=3))
    ),
    max_leaves=4,
)


def places(tree, path=()):
    """Return the paths of all values in a JSON tree."""
    yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*path, key))


def loads_or_refuses(path):
    try:
        model = kcdo.load(path)
    except (kcdo.ModelFileError, kcdo.NotEnoughMemoryError):
        return
    assert isinstance(model, kcdo.ConditionalDensityOperator)
