"""All scores of several outputs at once, as ``kcdo evaluate`` and reports tell them."""

import numpy as np
import pytest

from kcdo.commands.scores import _joint_lines
from kcdo.errors import MissingExtraError
from kcdo.metrics import joint_scores
from tests.gaussian_chain import distribution, gaussian_chain, truth

X = np.linspace(-1, 1, 60)[:, None]


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    Y = np.stack([truth(x).rvs(random_state=rng) for x in X])
    dist = distribution(gaussian_chain(X))
    return joint_scores(dist, Y), joint_scores(dist, Y[:, ::-1])


def test_the_truth_scores_better_than_a_wrong_order(found):
    right, wrong = found
    for name in ("energy_score", "variogram_score", "dawid_sebastiani_score"):
        assert right[name] < wrong[name]


def test_ranks_of_the_truth_are_even(found):
    shares = np.array(found[0]["rank_histogram"])
    assert shares.sum() == pytest.approx(1.0)
    assert np.all(np.abs(shares - 0.1) < 0.15)  # 60 rows: sd 0.04


def test_every_score_has_a_line(found):
    text = "\n".join(_joint_lines(found[0]))
    for word in ("energy", "variogram", "Dawid-Seb.", "in each tenth"):
        assert word in text


def test_ranks_need_no_package(monkeypatch):
    """Without scoringrules the other scores are left out."""

    def missing():
        raise MissingExtraError("scores need an extra")

    monkeypatch.setattr("kcdo.metrics.joint.scoringrules", missing)
    few = distribution(gaussian_chain(X[:5]))
    assert list(joint_scores(few, few.mean())) == ["rank_histogram"]
