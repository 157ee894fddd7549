"""Answers of a few fits are what they were: a change of structure changes no number."""

from pathlib import Path

import numpy as np
import pytest

from tests.frozen import CASES, QUICK, deviation, read, run

FROZEN = read(Path(__file__).parent / "data" / "frozen.npz")
# searches amplify what other processors round otherwise
SEARCHED = {"groups", "time", "rows-at", "saved"} | {each for each in QUICK if "auto" in each}
TOLERANCE = {name: 1e-3 if name in SEARCHED else 1e-6 for name in QUICK}


@pytest.mark.parametrize("name", QUICK)
def test_answers_are_what_they_were(name):
    assert deviation(run(name), FROZEN[name]) <= TOLERANCE[name]


def test_every_quick_case_is_frozen():
    assert set(FROZEN) == set(QUICK) <= set(CASES)


def test_a_difference_is_noticed():
    frozen = {"pdf": np.array([0.0, 2.0, np.nan]), "mean": np.array([1.0])}
    assert deviation(frozen, frozen) == 0.0
    moved = frozen | {"pdf": np.array([0.0, 2.002, np.nan])}
    assert deviation(moved, frozen) == pytest.approx(1e-3)
    assert deviation({"pdf": frozen["pdf"]}, frozen) == np.inf
    assert deviation(frozen | {"mean": np.ones(2)}, frozen) == np.inf
    assert deviation(frozen | {"mean": np.array([np.nan])}, frozen) == np.inf
