"""Adapters where their packages are missing: the error names the extra."""

import sys

import pytest

import kcdo


@pytest.fixture
def dist():
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit([[0], [1]], [0.0, 1.0])
    return model.conditional([[0.5]])


@pytest.fixture
def without(monkeypatch):
    """Hide a package and the adapters, which may have found it before."""

    def hide(package):
        for name in [n for n in sys.modules if n.startswith(("kcdo.adapters", package))]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)

    return hide


@pytest.mark.parametrize(
    ("method", "package", "message"),
    [
        ("to_qp", "qp", r'Ensembles of qp need an extra: pip install "kcdo\[rail\]"'),
        ("to_xarray", "xarray", r'Data sets of xarray need .* "kcdo\[arviz\]"'),
        ("to_arviz", "arviz", r'Data for ArviZ need .* "kcdo\[arviz\]"'),
    ],
)
def test_methods_of_distributions_name_their_extra(dist, without, method, package, message):
    without(package)
    with pytest.raises(kcdo.MissingExtraError, match=message):
        getattr(dist, method)()


@pytest.mark.parametrize(
    ("module", "package", "message"),
    [
        ("kcdo.adapters.skpro", "skpro", r'distribution of skpro need .* "kcdo\[skpro\]"'),
        ("kcdo.adapters.rail", "rail", r'Stages of RAIL need an extra: .* "kcdo\[rail\]"'),
    ],
)
def test_modules_name_their_extra(without, module, package, message):
    without(package)
    with pytest.raises(kcdo.MissingExtraError, match=message):
        __import__(module)
