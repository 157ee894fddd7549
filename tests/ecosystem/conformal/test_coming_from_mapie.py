"""The lines of MAPIE on the page "coming from" run."""

import pytest

from tests.coming_from import run


def test_their_lines_run():
    pytest.importorskip("mapie", reason="needs the extra conformal; make ecosystem runs it")
    run("mapie")
