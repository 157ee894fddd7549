"""The lines of skpro on the page "coming from" run."""

import pytest

from tests.coming_from import run


def test_their_lines_run():
    pytest.importorskip("skpro", reason="needs the extra skpro; make ecosystem runs it")
    run("skpro")
