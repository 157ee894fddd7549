"""The register of classes that model files may hold, and how values of each kind are written."""

import json
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

import kcdo
from kcdo.persistence import forms
from kcdo.persistence.archive import dtype_of, kind_of
from kcdo.persistence.forms import matches, register
from kcdo.persistence.tree import decode, encode


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.kcdo"


# --- the register


@dataclass(frozen=True, eq=False)
class Point:
    """A dataclass of a test."""

    where: NDArray[np.floating]
    name: str = "origin"


@dataclass(frozen=True, eq=False)
class Pair:
    """Two of them."""

    first: Point
    second: Point


class Plain:
    """A class that knows what a file keeps of it."""

    def __init__(self, point):
        self._point, self._doubled = point, 2 * point.where

    def to_state(self):
        return {"kept": self._point}

    @classmethod
    def from_state(cls, state):
        return cls(state["kept"])


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(forms, "_BY_NAME", dict(forms._BY_NAME))
    monkeypatch.setattr(forms, "_BY_CLASS", dict(forms._BY_CLASS))
    monkeypatch.setattr(forms, "_LATER", dict(forms._LATER))


def test_one_line_adds_a_class(registered):
    register("Point", Point)
    register("Plain", Plain, fields={"kept": Point})
    written, arrays = encode(Plain(Point(np.array([1.0, 2.0]))))
    made = decode(json.loads(json.dumps(written)), arrays)
    np.testing.assert_array_equal(made._doubled, [2.0, 4.0])
    assert made._point.name == "origin"


def test_classes_are_registered_when_first_met(registered):
    forms.register_later(Point.__module__.partition(".")[0], lambda: register("tests.Point", Point))
    forms.register_later("later", lambda: register("later.Point", Plain, fields={}))
    assert "tests.Point" not in forms._BY_NAME
    assert forms.form_of(Point(np.zeros(1))).name == "tests.Point"
    assert forms.form_called("tests.Point") is forms.form_of(Point(np.zeros(1)))
    assert "later.Point" not in forms._BY_NAME
    assert forms.form_called("later.Point").name == "later.Point"


def test_a_renamed_class_reads_its_old_name(registered):
    forms.register_former("OldPoint", {"x": float}, lambda x: Point(np.array([x])))
    register("Point", Point, former={"called": "name", "colour": None})
    old = [{"class": "OldPoint", "fields": {"x": 1.5}}]
    assert decode(old, {}).where == [1.5]
    assert encode(Point(np.ones(1)))[0][0]["class"] == "Point"
    fields = {"where": {"$array": "a"}, "called": "Rome", "colour": "red"}
    renamed = decode([{"class": "Point", "fields": fields}], {"a": np.ones(1)})
    assert renamed.name == "Rome"


def test_infinite_fields_are_declared(registered):
    register("Point", Point, infinite=("where",))
    written, arrays = encode(Point(np.array([-np.inf])))
    assert np.isinf(decode(written, arrays).where)


def test_names_are_given_once(registered):
    register("Point", Point)
    with pytest.raises(ValueError, match="two classes of model files are called 'Point'"):
        register("Point", Plain, fields={})
    with pytest.raises(TypeError, match="Plain is no dataclass: give its fields"):
        register("Plain", Plain)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -(2**70),
        0.1,
        5e-324,
        -0.0,
        float("inf"),
        "text \ud800 \u2028",
        (1, (2.0, "a")),
        [1, [None]],
        {"a": 1, 2: {(1, 2): None}},
        np.float32(0.1),
        np.float64(1e-300),
        np.int64(-5),
        np.bool_(True),
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        np.array(["a", "bc"], dtype=object),
        np.zeros((0, 3)),
        np.array(2.5),
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value, registered, path):
    @dataclass(frozen=True, eq=False)
    class Box:
        content: Any

    register("Box", Box, infinite=("content",))
    written, arrays = encode(Box(value))
    found = decode(json.loads(json.dumps(written, allow_nan=False)), arrays).content
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)
    assert getattr(found, "dtype", None) == getattr(value, "dtype", None)


def test_numbers_of_other_machines_are_written_alike():
    assert kind_of(np.dtype(">f8")) == "<f8"
    assert kind_of(np.dtype("m8[s]")) is None
    assert dtype_of("<i8") == np.int64


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True),
        (True, float, False),
        (True, int, False),
        (True, bool, True),
        (np.int64(1), int, True),
        (1.5, int, False),
        (None, float | None, True),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (True, Literal[1], False),
        ((1, 2), tuple[int, int], True),
        ((1, 2, 3), tuple[int, int], False),
        ([1], list[int], True),
        (["a"], list[int], False),
        ({1: "a"}, dict[int, str], True),
        ({"a": 1}, dict[int, str], False),
        (np.ones(2), NDArray[np.floating], True),
        (np.ones(2, int), NDArray[np.floating], False),
        (np.ones(2, int), NDArray, True),
        ([1.0], NDArray[np.floating], False),
        (kcdo.Gaussian(), kcdo.Kernel, True),
        ("Gaussian", kcdo.Kernel, False),
    ],
)
def test_types_of_fields(value, hint, expected):
    assert matches(value, hint) is expected


class Swimmer(Protocol):
    """Anything that swims."""

    @property
    def speed(self):
        """How fast."""

    def swim(self):
        """Do so."""


class Fish:
    """Swims; its speed is never asked."""

    @property
    def speed(self):
        raise AssertionError

    def swim(self):
        """Do so."""


def test_a_protocol_asks_for_its_members():
    assert matches(Fish(), Swimmer)
    assert not matches("stone", Swimmer)


def test_equal_arrays_are_written_once(registered):
    register("Point", Point)
    register("Pair", Pair)
    places = np.random.default_rng(0).random((9, 2))
    _, arrays = encode(Pair(Point(places), Point(places.copy())))
    assert len(arrays) == 1
    zeros = np.zeros(3)
    _, arrays = encode(Pair(Point(zeros), Point(-zeros)))
    assert len(arrays) == 2
    assert np.signbit(arrays["a1"]).all()


def test_short_numbers_are_written_in_single_precision_without_loss(registered):
    register("Point", Point)
    for whole in (np.arange(100.0), np.asfortranarray(np.arange(100.0).reshape(10, 10))):
        written, arrays = encode(Point(whole))
        assert arrays["a0"].dtype == np.float32
        found = decode(written, arrays).where
        assert found.dtype == np.float64
        assert found.flags.f_contiguous == whole.flags.f_contiguous
        np.testing.assert_array_equal(found, whole)
    for whole in (np.arange(100.0) + 0.1, np.full(100, 1e300), np.full(100, np.float32(0.1))):
        assert encode(Point(whole))[1]["a0"].dtype == whole.dtype
