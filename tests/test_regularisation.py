"""The finite-sample bound and the schemes, as functions of N and M."""

import dataclasses

import numpy as np
import pytest

from kcdo.errors import InvalidInputError
from kcdo.regularisation import (
    CorrectedScheme,
    PowerScheme,
    PrintedScheme,
    Scheme,
    finite_sample_bound,
)


def test_bound_is_the_corrected_formula():
    n, m, alpha, a, b, norm, c = 5000, 700, 0.3, 0.2, 0.35, 0.8, 1.7
    bound = finite_sample_bound(n, m, alpha, a=a, b=b, embedding_norm=norm, kernel_bound=c)
    error = m**-b / alpha**2 * (norm + n**-a) + n**-a / alpha
    data = 1 - 2 * np.exp(-(n ** (1 - 2 * a)) / (8 * c**2))
    nodes = 1 - 2 * np.exp(-(m ** (1 - 2 * b)) / (8 * c**4))
    assert bound.error == pytest.approx(error, rel=1e-13)
    assert bound.probability == pytest.approx(max(data, 0) * max(nodes, 0), abs=1e-13)


def test_probability_formula_where_it_says_something():
    n, m, a, b, c = 1600, 700, 0.25, 0.2, 1.2
    data = 1 - 2 * np.exp(-(n**0.5) / (8 * c**2))
    nodes = 1 - 2 * np.exp(-(m**0.6) / (8 * c**4))
    found = finite_sample_bound(n, m, 1.0, a=a, b=b, kernel_bound=c).probability
    assert found == pytest.approx(data * nodes, rel=1e-13)
    assert 0.8 < found < 0.9


def test_probability_is_never_negative():
    assert finite_sample_bound(1, 1, 1.0).probability == 0.0
    assert finite_sample_bound(10**9, 1, 1.0).probability == 0.0


def test_bound_tends_to_zero_under_the_corrected_scheme():
    scheme = CorrectedScheme(a=0.3, b=0.3, c=0.5)
    sizes = [10**4, 10**8, 10**12, 10**16]
    bounds = [finite_sample_bound(n, n, scheme(n, n), a=0.3, b=0.3) for n in sizes]
    assert np.all(np.diff([b.error for b in bounds]) < 0)
    assert bounds[-1].error < 0.1
    assert bounds[-1].probability > 0.999
    # with the printed exponents the same statement fails: M^{-b}/α² does not shrink
    printed = PrintedScheme(a=0.3, b=0.3, c=0.9)
    grown = [finite_sample_bound(n, n, printed(n, n), a=0.3, b=0.3).error for n in sizes]
    assert np.all(np.diff(grown) > 0)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("value", [0.0, 0.5, -0.1, 0.7, np.nan])
def test_bound_exponents(name, value):
    with pytest.raises(InvalidInputError, match=rf"{name} must lie between 0 and 0\.5; got"):
        finite_sample_bound(10, 10, 1.0, **{name: value})


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((0, 5, 1.0), {}),
        ((5, 0, 1.0), {}),
        ((5, 5, 0.0), {}),
        ((5, 5, -1.0), {}),
        ((5, 5, np.nan), {}),
        ((5, 5, 1.0), {"kernel_bound": 0.0}),
    ],
)
def test_bound_sizes(args, options):
    with pytest.raises(InvalidInputError, match="N and M must be at least 1; alpha and kernel_b"):
        finite_sample_bound(*args, **options)


def test_power_scheme():
    assert PowerScheme()(400, 3) == pytest.approx(0.1 / 20)
    assert PowerScheme(2.0, 1.0)(50, 9999) == pytest.approx(0.04)
    for factor in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidInputError, match="PowerScheme: factor must be positive; got"):
            PowerScheme(factor)


@pytest.mark.parametrize(("n", "m"), [(100, 400), (400, 100), (10, 10**6)])
def test_printed_and_corrected_schemes(n, m):
    a, b, c = 0.3, 0.45, 0.8
    assert PrintedScheme(a, b, c)(n, m) == pytest.approx(max(m**-b, n ** (-2 * a)) ** c, rel=1e-13)
    assert CorrectedScheme(a, b, c)(n, m) == pytest.approx(
        max(m ** (-b / 2), n**-a) ** c, rel=1e-13
    )


def test_the_paper_takes_the_limits():
    assert PrintedScheme()(3750, 3844) == pytest.approx(1 / 62)
    assert PrintedScheme() == PrintedScheme(0.5, 0.5, 1.0)


@pytest.mark.parametrize("scheme", [PrintedScheme, CorrectedScheme])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": 0.0}, r"a must lie between 0 and 0\.5; got 0\.0"),
        ({"a": 0.6}, r"a must lie between 0 and 0\.5; got 0\.6"),
        ({"b": -0.1}, r"b must lie between 0 and 0\.5; got -0\.1"),
        ({"c": 1.1}, r"c must lie between 0 and 1; got 1\.1"),
        ({"c": 0.0}, r"c must lie between 0 and 1; got 0\.0"),
    ],
)
def test_scheme_exponents(scheme, options, message):
    with pytest.raises(InvalidInputError, match=message):
        scheme(**options)


@pytest.mark.parametrize("scheme", [PowerScheme(), PrintedScheme(), CorrectedScheme()], ids=repr)
def test_schemes_are_values(scheme):
    assert isinstance(scheme, Scheme)
    assert hash(scheme) == hash(dataclasses.replace(scheme))
    assert scheme == dataclasses.replace(scheme)
    field = dataclasses.fields(scheme)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(scheme, field, 0.25)
