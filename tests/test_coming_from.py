"""Lines of other packages on the page "coming from": run where the package is installed."""

import pytest

from tests.coming_from import run, theirs


def test_the_page_has_the_packages():
    wanted = {"mapie", "ngboost", "quantile_forest", "skpro", "sklearn", "statsmodels"}
    assert set(theirs()) == wanted


@pytest.mark.parametrize("package", sorted(theirs()))
def test_their_lines_run(package):
    pytest.importorskip(package)
    run(package)
