"""Changed model files at random, a few of those of tests/fuzz/model_files.py."""

import pytest

from tests.fuzz.model_files import Summary, campaign


@pytest.mark.slow
def test_changed_files_are_refused_or_answer():
    summary = campaign(100)
    assert summary.crashes == []
    assert summary.files == summary.refused + summary.equal + summary.other == 100
    assert summary.refused > 65
    assert summary.equal > 5  # some changes do no harm: swapped arrays that are equal, more names
    assert summary.memory < 500.0


def test_a_file_that_takes_long_or_much_memory_fails_the_campaign():
    assert Summary(slowest=1.9, memory=499.0).within_bounds
    for summary in (Summary(slowest=2.1), Summary(memory=501.0), Summary(crashes=["one"])):
        assert not summary.within_bounds
