"""Changed model files at random, a few of those of tests/fuzz/model_files.py."""

import pytest

from tests.fuzz.model_files import campaign


@pytest.mark.slow
def test_changed_files_are_refused_or_answer():
    summary = campaign(200)
    assert summary.crashes == []
    assert summary.files == summary.refused + summary.equal + summary.other == 200
    assert summary.refused > 130
    assert summary.equal > 12  # some changes do no harm: swapped arrays that are equal, more names
    assert summary.slowest < 4.0  # processor seconds; about 1 where nothing else runs
    assert summary.memory < 500.0
