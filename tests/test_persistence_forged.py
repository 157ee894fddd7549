"""Model files that must not load: other files, damaged ones, and forgeries."""

import pickle
import stat
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kcdo
from kcdo.persistence import archive
from kcdo.persistence.metadata import model_info
from tests.model_files import (
    forge,
    forge_somewhere,
    loads_or_refuses,
    npy,
    nystrom,
    part_of_fit,
    records,
    reseal,
    seal,
    with_field,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.kcdo"


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    """A small model file."""
    file = tmp_path_factory.mktemp("files") / "whole.kcdo"
    nystrom()[0].save(file)
    return file


# --- files that are not model files


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"x,y\n1,2\n", pickle.dumps({"a": 1}), b"\x93NUMPY\x01\x00" + b" " * 100],
    ids=["empty", "two bytes", "csv", "pickle", "npy"],
)
def test_foreign_files(content, path):
    path.write_bytes(content)
    with pytest.raises(kcdo.ModelFileError, match=r"cannot load '.*model.kcdo': it is not a kcdo"):
        kcdo.load(path)


def test_foreign_zip_files(path):
    with open(path, "wb") as file:
        np.savez(file, a=np.ones(3))
    with pytest.raises(kcdo.ModelFileError, match="not a kcdo model file, or it is cut short"):
        kcdo.load(path)
    seal(path)
    with pytest.raises(kcdo.ModelFileError, match="its metadata are missing"):
        kcdo.load(path)


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        kcdo.load(path)


def test_every_error_is_a_value_error_of_ours():
    assert issubclass(kcdo.ModelFileError, ValueError)
    assert issubclass(kcdo.ModelFileError, kcdo.KcdoError)


@given(st.data())
def test_a_truncated_file_is_refused(whole_file, data):
    content = whole_file.read_bytes()
    kept = data.draw(st.integers(0, len(content) - 1))
    changed = whole_file.with_name("cut.kcdo")
    changed.write_bytes(content[:kept])
    with pytest.raises(kcdo.ModelFileError, match=r"cut short|not a kcdo model file"):
        kcdo.load(changed)


@given(st.data())
def test_any_changed_byte_is_noticed(whole_file, data):
    content = bytearray(whole_file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    changed = whole_file.with_name("flipped.kcdo")
    changed.write_bytes(content)
    with pytest.raises(kcdo.ModelFileError):
        kcdo.load(changed)


# --- forged files: a good seal, and contents made to harm


class Bomb:
    """Writes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def test_a_forged_copy_without_changes_loads(whole_file, path):
    forge(whole_file, path)
    np.testing.assert_array_equal(
        kcdo.load(path).predict([[0.0, 0.1]]), kcdo.load(whole_file).predict([[0.0, 0.1]])
    )


def test_a_link_in_a_file_is_refused(whole_file, path):
    with zipfile.ZipFile(whole_file) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
        link = zipfile.ZipInfo("arrays/link.npy")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    seal(path)
    with pytest.raises(kcdo.ModelFileError, match=r"'arrays/link.npy' is a link to another file"):
        kcdo.load(path)


def test_a_pickle_in_an_array_is_not_run(whole_file, path, tmp_path):
    mark = tmp_path / "ran"
    evil = np.array([Bomb(mark)], dtype=object)
    forge(whole_file, path, members={"arrays/a0.npy": npy(evil, allow_pickle=True)})
    with pytest.raises(kcdo.ModelFileError, match=r"unknown kind '\|O'"):
        kcdo.load(path)
    forge(whole_file, path, members={"arrays/a0.npy": pickle.dumps(Bomb(mark))})
    with pytest.raises(kcdo.ModelFileError, match="not an array of plain numbers"):
        kcdo.load(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "kcdo.kernels.Gaussian", "gaussian", "", None, 3, []]
)
def test_only_registered_names_are_made(name, whole_file, path):
    before = set(sys.modules)

    def edit(metadata):
        metadata["objects"][0]["class"] = name

    forge(whole_file, path, edit)
    with pytest.raises(kcdo.ModelFileError, match="which no model file may hold"):
        kcdo.load(path)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy(np.ones(3)[:, None])[:-8], "does not have the size"),
        (npy(np.ones(3)) + b"more", "does not have the size"),
        (npy(np.ones((0, 1 << 40))), "does not have the size"),  # takes no bytes, and any memory
        (npy(np.ones(3)).replace(b"(3,)", b"(-3,)"), "not an array of plain"),
        (npy(np.ones(3)).replace(b"'<f8'", b"__imp"), "not an array of plain"),
        (npy(np.ones(3, np.float16)), "unknown kind '<f2'"),
        (npy(np.array(["text"])), "unknown kind"),
        (npy(np.array([np.nan])), "contains NaN or infinity"),
        (npy(np.ones(3, bool))[:-1] + b"\x02", "truth values"),
        (npy(np.ones(3)), r"do not fit: an array of shape \(3,\) where \(None, None\) is needed"),
        (npy(np.ones((15, 3))), "2 scales but the data have 3 columns"),
        (npy(np.ones((15, 2), np.int64)), "damaged"),
        (npy(np.ones((15, 2), np.complex128)), "centres must not be of the kind complex128"),
        (npy(np.ones((4, 2))), "do not fit"),
        (b"", "not an array of plain"),
    ],
)
def test_forged_arrays(member, message, whole_file, path):
    forge(whole_file, path, members={"arrays/a0.npy": member})
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


def billion_laughs(metadata):
    """A few records, each the sum of the one before with itself."""
    first = len(metadata["objects"])
    metadata["objects"].append({"class": "Gaussian", "fields": {"scale": 1.0}})
    for i in range(60):
        twice = {"$tuple": [{"$ref": first + i}] * 2}
        metadata["objects"].append({"class": "Sum", "fields": {"kernels": twice}})


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.update(format="other"), "not a kcdo model file"),
        (lambda m: m.update(version="new"), "does not say which version"),
        (lambda m: m.pop("objects"), "no list of objects"),
        (lambda m: m.update(objects=[]), "no list of objects"),
        (lambda m: m["objects"].append(m["objects"][0]), "is no model"),
        (lambda m: m["objects"].append([]), "no class and fields"),
        (lambda m: m["objects"].append({"class": "Grid", "fields": []}), "fields of Grid are not"),
        (with_field("Grid", "lower", None), r"Grid\.lower must not be of the kind NoneType"),
        (with_field("Grid", "lower", {"$array": "zz"}), r"value of unknown kind, '\$array'"),
        (with_field("Grid", "lower", {"$eval": "1"}), r"value of unknown kind, '\$eval'"),
        (with_field("Grid", "shape", {"$tuple": [1 << 33, 1 << 33]}), "do not fit"),
        (with_field("Grid", "shape", {"$tuple": [1 << 62]}), "too many nodes"),
        (with_field("Grid", "shape", {"$tuple": [25]}), "do not fit"),
        (with_field("Grid", "colour", 3), "Grid has an unknown field 'colour'"),
        (lambda m: records(m, "Grid")[0].pop("shape"), "Grid lacks its field 'shape'"),
        (with_field("Gaussian", "scale", -1.0), "positive and finite"),
        (with_field("Gaussian", "scale", {"$float": "nan"}), "positive and finite"),
        (with_field("Gaussian", "scale", {"$scalar": ["<f8", "x"]}), "damaged"),
        (with_field("Gaussian", "scale", {"$scalar": ["|O", 1]}), r"unknown kind '\|O'"),
        (with_field("Gaussian", "scale", nested(3)), r"Gaussian\.scale must not be"),
        (with_field("DensityKernel", "dim", 10**12), "dimension of an output kernel"),
        (with_field("Reconstruction", "ridge", 0.0), "alpha_prime must be positive"),
        (with_field("Reconstruction", "kernel", {"$ref": 0}), "Reconstruction.kernel must not be"),
        (with_field("Reconstruction", "kernel", {"$ref": 10**6}), "value of unknown kind"),
        (with_field("Centres", "n_jobs", 0), "n_jobs must not be 0"),
        (with_field("DensityOperator", "positivity", "none"), "positivity must not be"),
        (with_field("NystromSums", "n_targets", 3), "rows of sums"),
        (with_field("NystromSums", "n_targets", 10**6), "do not fit"),
        (with_field("StreamPlan", "chunk_rows", 0), "chunks without rows"),
        (with_field("InputEncoder", "objects", True), "inputs that are not numbers"),
        (part_of_fit("n_features_in_", 3), "number of input columns"),
        (part_of_fit("_n_outputs", 2), "number of outputs"),
        (part_of_fit("target_names_", {"$tuple": ["a", "b"]}), "names of outputs"),
        (part_of_fit("report_", None), "no such part 'report_'"),
        (with_field("ConditionalDensityOperator", "fit", {"$dict": []}), "NotFittedError"),
        (billion_laughs, "cannot hold so many parts; one more: Sum"),
    ],
)
def test_forged_metadata(edit, message, whole_file, path):
    forge(whole_file, path, edit)
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"not json", "damaged"),
        (b"[]", "not a table"),
        (b'{"a": NaN}', "contain NaN"),
        (b"\xff\xfe", "damaged"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_forged_text(text, message, whole_file, path):
    forge(whole_file, path, members={"metadata.json": text})
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


def test_forged_length_of_the_text(whole_file, path, monkeypatch):
    monkeypatch.setattr(archive, "_LARGEST_METADATA", 1000)
    with pytest.raises(kcdo.ModelFileError, match="its metadata are too large"):
        kcdo.load(whole_file)


def test_forged_parts_of_the_zip(whole_file, path):
    forge(whole_file, path, compression=zipfile.ZIP_DEFLATED)
    assert kcdo.load(path).n_outputs == 1  # as we might have written it
    forge(whole_file, path, compression=zipfile.ZIP_BZIP2)
    with pytest.raises(kcdo.ModelFileError, match=r"'metadata\.json' is packed in an unknown way"):
        kcdo.load(path)
    forge(whole_file, path, members={"arrays/../../evil.npy": npy(np.ones(1))})
    with pytest.raises(kcdo.ModelFileError, match="part of unknown kind"):
        kcdo.load(path)


def test_overlapping_parts_are_refused(whole_file, path):
    forge(whole_file, path)
    content = bytearray(path.read_bytes())
    place = content.rfind(b"PK\x01\x02")  # the last entry of the directory
    for field in (20, 24):  # its sizes, with and without compression
        content[place + field : place + field + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(content)
    reseal(path)
    with pytest.raises(kcdo.ModelFileError, match="overlap"):
        kcdo.load(path)


def test_a_wrong_checksum_of_a_part_is_noticed(whole_file, path):
    content = bytearray(whole_file.read_bytes())
    place = content.find(b"\x93NUMPY") + 130
    content[place] ^= 1
    path.write_bytes(content)
    reseal(path)
    with pytest.raises(kcdo.ModelFileError, match="Bad CRC"):
        kcdo.load(path)


def test_a_model_larger_than_memory_is_refused(whole_file, monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 1000)
    with pytest.raises(kcdo.NotEnoughMemoryError, match="this model needs"):
        kcdo.load(whole_file)
    assert model_info(whole_file)["model"] == "ConditionalDensityOperator"


@given(st.data())
def test_forged_bytes_never_surprise(whole_file, data):
    content = bytearray(whole_file.read_bytes())
    spans = [(0, 60), (len(content) - 1500, len(content) - 72)]  # where the zip describes itself
    place = data.draw(st.one_of(*(st.integers(*span) for span in spans)))
    content[place] = data.draw(st.integers(0, 255))
    forged = whole_file.with_name("bytes.kcdo")
    forged.write_bytes(content)
    reseal(forged)
    loads_or_refuses(forged)


@settings(max_examples=120)
@given(st.data())
def test_forged_values_never_surprise(whole_file, data):
    forged = whole_file.with_name("values.kcdo")
    forge_somewhere(whole_file, forged, data)
    loads_or_refuses(forged)
