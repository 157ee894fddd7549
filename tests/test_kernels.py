"""Every kernel passes one contract; each family equals its formula; bad arguments are refused."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, RationalQuadratic

from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.kernels import (
    Adapter,
    Average,
    Categorical,
    DensityKernel,
    Gaussian,
    Kernel,
    Laplace,
    Matern,
    Nugget,
    OnColumns,
    Periodic,
    Product,
    Sum,
    as_kernel,
    median_scales,
    weighted_mean_sd,
    with_median_scales,
)
from kcdo.kernels.scales import weighted_median

SCALES = (0.7, 1.3)


def scaled(x, y, scales=SCALES):
    return (np.asarray(x) - np.asarray(y)) / np.asarray(scales)


def chord(x, y):
    periods = np.array([2.0, 3.0])
    return periods / np.pi * np.sin(np.pi * (x - y) / periods)


def gaussian(x, y):
    return np.exp(-0.5 * np.sum(scaled(x, y) ** 2))


def matern(x, y, smoothness):
    r = np.sqrt(np.sum(scaled(x, y) ** 2))
    if smoothness == 0.5:
        return np.exp(-r)
    if smoothness == 1.5:
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


def periodic(x, y):
    return np.exp(-0.5 * np.sum((chord(x, y) / SCALES) ** 2))


def dot_plus_one(A, B):
    return A @ B.T + 1.0


# name: (kernel, the formula for one pair of points)
KERNELS = {
    "gaussian": (Gaussian(SCALES), gaussian),
    "gaussian, one scale": (
        Gaussian(0.9),
        lambda x, y: np.exp(-0.5 * np.sum(scaled(x, y, 0.9) ** 2)),
    ),
    "laplace": (Laplace(SCALES), lambda x, y: np.exp(-np.sum(np.abs(scaled(x, y))))),
    "matern 1/2": (Matern(SCALES, smoothness=0.5), lambda x, y: matern(x, y, 0.5)),
    "matern 3/2": (Matern(SCALES, smoothness=1.5), lambda x, y: matern(x, y, 1.5)),
    "matern 5/2": (Matern(SCALES, smoothness=2.5), lambda x, y: matern(x, y, 2.5)),
    "periodic": (Periodic((2.0, 3.0), SCALES), periodic),
    "categorical": (
        Categorical(SCALES),
        lambda x, y: np.exp(-np.sum((x != y) / np.asarray(SCALES))),
    ),
    "on a column": (
        Laplace(0.4).on(1),
        lambda x, y: np.exp(-abs(x[1] - y[1]) / 0.4),
    ),
    "on a column counted from the end": (
        Gaussian(0.4).on([-2]),
        lambda x, y: np.exp(-0.5 * ((x[0] - y[0]) / 0.4) ** 2),
    ),
    "product": (
        Gaussian(0.7).on([0]) * Matern(1.3, smoothness=0.5).on([1]),
        lambda x, y: np.exp(-0.5 * ((x[0] - y[0]) / 0.7) ** 2 - abs(x[1] - y[1]) / 1.3),
    ),
    "sum": (
        Gaussian(SCALES) + Matern(SCALES, smoothness=2.5) + Gaussian(SCALES),
        lambda x, y: 2 * gaussian(x, y) + matern(x, y, 2.5),
    ),
    "average": (
        Average((Gaussian(SCALES), Average((Laplace(SCALES), Matern(SCALES, smoothness=2.5))))),
        lambda x, y: (
            0.5 * gaussian(x, y)
            + 0.25 * np.exp(-np.sum(np.abs(scaled(x, y))))
            + 0.25 * matern(x, y, 2.5)
        ),
    ),
    "scikit-learn": (
        Adapter(RationalQuadratic(alpha=0.8)),
        lambda x, y: (1 + np.sum((x - y) ** 2) / 1.6) ** -0.8,
    ),
    "scikit-learn, not stationary": (Adapter(DotProduct(2.0)), lambda x, y: 4.0 + x @ y),
    "function": (Adapter(dot_plus_one), lambda x, y: 1.0 + x @ y),
    "product with a foreign one": (
        Gaussian(SCALES) * Adapter(RBF(1.5)),
        lambda x, y: gaussian(x, y) * np.exp(-0.5 * np.sum((x - y) ** 2) / 2.25),
    ),
    "density": (
        DensityKernel(Gaussian(SCALES), dim=2),
        lambda x, y: gaussian(x, y) / (2 * np.pi * np.prod(SCALES)),
    ),
}
EVERY = pytest.mark.parametrize(("kernel", "formula"), KERNELS.values(), ids=KERNELS)


@pytest.fixture
def points(rng):
    """Points with repeated rows, and repeated values in a column."""
    drawn = rng.normal(size=(23, 2))
    drawn[5] = drawn[11]
    drawn[3, 0] = drawn[17, 0]
    drawn.setflags(write=False)
    return drawn


class TestContract:
    @EVERY
    def test_equals_its_formula_pair_by_pair(self, kernel, formula, points):
        others = points[:9] + 0.3 * np.arange(2)
        naive = np.array([[formula(x, y) for y in others] for x in points])
        np.testing.assert_allclose(kernel(points, others), naive, rtol=1e-13)
        np.testing.assert_allclose(kernel.block(points, others), naive, rtol=1e-13)

    @EVERY
    def test_is_symmetric_and_positive_semidefinite(self, kernel, formula, points):
        matrix = kernel(points)
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_allclose(matrix, kernel(points, points), rtol=1e-14)
        assert np.linalg.eigvalsh(matrix).min() > -1e-12 * np.trace(matrix)

    @EVERY
    def test_diagonal_agrees_with_the_matrix(self, kernel, formula, points):
        np.testing.assert_allclose(kernel.diag(points), np.diag(kernel(points)), rtol=1e-14)

    @EVERY
    def test_is_immutable(self, kernel, formula):
        for field in dataclasses.fields(kernel):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(kernel, field.name, getattr(kernel, field.name))

    @EVERY
    def test_copies_are_equal_with_equal_hash(self, kernel, formula, points):
        for other in (
            pickle.loads(pickle.dumps(kernel)),
            copy.deepcopy(kernel),
            clone(kernel, safe=False),
        ):
            assert other == kernel
            assert hash(other) == hash(kernel)
            np.testing.assert_array_equal(other(points), kernel(points))

    @EVERY
    def test_says_stationary_only_when_it_is(self, kernel, formula, points):
        shift = 0 if isinstance(kernel, Categorical) else np.array([0.25, -0.5])
        moved = np.allclose(kernel(points + shift), kernel(points), rtol=1e-10)
        assert moved or not kernel.stationary

    @EVERY
    def test_is_fitted(self, kernel, formula, points):
        assert kernel.fitted
        assert with_median_scales(kernel, points) is kernel

    def test_different_kernels_are_different(self):
        every = [kernel for kernel, _ in KERNELS.values()]
        assert len(set(every)) == len(every)
        assert Product((Gaussian(1.0),)) != Sum((Gaussian(1.0),))
        assert Gaussian(1.0) != Laplace(1.0)


@given(
    scale=st.floats(0.05, 20.0),
    distance=st.floats(0.0, 50.0),
    offset=st.floats(-1e3, 1e3),
    unit=st.sampled_from([1e-12, 1.0, 1e12]),
)
@pytest.mark.parametrize(
    "family",
    [Gaussian, Laplace, Matern, lambda s: Periodic(400.0 * s, s)],
    ids=["gaussian", "laplace", "matern", "periodic"],
)
def test_the_unit_of_the_data_does_not_matter(family, scale, distance, offset, unit):
    plain = family(scale)([[offset]], [[offset + distance]])
    other = family(scale * unit)([[offset * unit]], [[(offset + distance) * unit]])
    np.testing.assert_allclose(other, plain, rtol=1e-9, atol=1e-13)


def test_periodic_kernels_of_huge_inputs_are_positive_definite():
    """A phase is that of the input, not that of a difference, which rounding has taken it from."""
    X = np.array([[-4.164710119077163e30], [3.968897533131105e28], [-6.256980571739469e30]])
    K = Periodic(3.0, 1.0)(np.vstack([X, X[::-1] * 1.37, X + 1.0]))
    assert np.linalg.eigvalsh(K).min() > -1e-12
    np.testing.assert_array_equal(K, K.T)


def test_periodic_repeats_and_is_local_in_the_units_of_the_column():
    kernel = Periodic(24.0, 2.0)
    hours = np.arange(24.0)[:, None]
    np.testing.assert_allclose(kernel(hours, hours + 48), kernel(hours), atol=1e-12)
    near = kernel([[0.0]], [[0.01]])
    np.testing.assert_allclose(near, Gaussian(2.0)([[0.0]], [[0.01]]), rtol=1e-9)
    two = Periodic((24.0, 7.0), (2.0, 1.0))
    np.testing.assert_allclose(
        two([[23.0, 6.5]], [[1.0 + 24, 0.5 - 7]]), two([[23, -0.5]], [[25, 0.5]])
    )


def test_categorical_compares_text():
    words = np.array([["red", "small"], ["red", "large"], ["blue", "large"]])
    values = Categorical((1.0, 0.5)).block(words, words)
    expected = np.exp(-np.array([[0.0, 2.0, 3.0], [2.0, 0.0, 1.0], [3.0, 1.0, 0.0]]))
    np.testing.assert_allclose(values, expected, rtol=1e-15)


@pytest.mark.parametrize("columns", [1, np.int64(1), [1], (1,), np.array([1])], ids=repr)
def test_columns_come_in_every_form(columns):
    assert Gaussian(1.0).on(columns) == OnColumns(Gaussian(1.0), (1,))


def test_columns_by_name_wait_for_a_data_frame(points):
    kernel = Gaussian(1.0).on("age")
    assert kernel.columns == ("age",)
    with pytest.raises(InvalidInputError, match=r"kernel on column 'age': names work with data fr"):
        kernel(points)


@pytest.mark.parametrize("column", [2, -3])
def test_a_column_that_is_not_there(points, column):
    with pytest.raises(InvalidInputError, match=f"kernel on column {column}, but the data have 2"):
        Gaussian(1.0).on(column)(points)


def test_no_column():
    with pytest.raises(InvalidInputError, match="needs at least one column; got none"):
        Gaussian(1.0).on([])


@pytest.mark.parametrize("column", [1.5, True, None])
def test_a_column_is_a_position_or_a_name(column):
    for columns in (column, [column]):
        with pytest.raises(InvalidTypeError, match="a column is a position or a name; got"):
            Gaussian(1.0).on(columns)


def test_a_mask_is_not_taken_for_positions():
    with pytest.raises(InvalidTypeError, match="position or a name"):
        Gaussian(1.0).on(np.array([True, False]))


def test_nested_sums_and_products_are_flat():
    a, b, c = Gaussian(1.0), Laplace(2.0), Matern(3.0)
    assert (a * b * c) == a * (b * c) == Product([a, b, c])
    assert (a + b + c) == a + (b + c) == Sum([a, b, c])
    assert (a + b) * c == Product((Sum((a, b)), c))


@pytest.mark.parametrize("composite", [Product, Sum])
def test_an_empty_composite(composite):
    with pytest.raises(InvalidInputError, match=f"{composite.__name__} needs at least one kernel"):
        composite(())


def test_only_kernels_compose():
    with pytest.raises(
        InvalidTypeError, match=r"Product needs kcdo kernels; got 3\. Wrap a scikit"
    ):
        Gaussian(1.0) * 3
    with pytest.raises(InvalidTypeError, match=r"Sum needs kcdo kernels; got RBF.*kcdo\.Adapter"):
        Gaussian(1.0) + RBF()
    with pytest.raises(InvalidTypeError, match=r"on\(columns\) needs kcdo kernels; got None"):
        OnColumns(None, [0])


def test_composites_do_not_change_their_parts(points):
    part = Gaussian(SCALES)
    before = part(points)
    (part * Laplace(1.0))(points)
    (part + Laplace(1.0))(points)
    np.testing.assert_array_equal(part(points), before)


def test_composites_are_as_thread_safe_as_their_parts():
    ours, foreign = Gaussian(1.0), Adapter(RBF())
    assert ours.thread_safe
    assert (ours * ours.on(0)).thread_safe
    for kernel in (foreign, foreign.on(0), ours * foreign, ours + foreign.on(0)):
        assert not kernel.thread_safe


@pytest.mark.parametrize("inner", [Gaussian(1.0), Gaussian(), Adapter(DotProduct())], ids=repr)
def test_a_kernel_around_another_shares_its_nature(inner):
    around = [inner.on(0), Nugget(inner, 0.3)]
    if isinstance(inner, Gaussian):  # foreign kernels have no integral
        around.append(DensityKernel(inner, 1))
    for kernel in around:
        for nature in ("thread_safe", "stationary", "fitted"):
            assert getattr(kernel, nature) == getattr(inner, nature), (kernel, nature)


class TestScales:
    @pytest.mark.parametrize("family", [Gaussian, Laplace, Matern, Categorical])
    @pytest.mark.parametrize(
        "scale", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0], [], [[1.0]], [None]], ids=repr
    )
    def test_must_be_positive_and_finite(self, family, scale):
        name = family.__name__
        with pytest.raises(InvalidInputError, match=f"{name}: scales must be positive and finite"):
            family(scale)

    def test_must_be_numbers(self):
        with pytest.raises(InvalidTypeError, match="Gaussian: scale must be numbers; got 'wide'"):
            Gaussian("wide")
        with pytest.raises(InvalidTypeError, match="Laplace: scale must be numbers"):
            Laplace([1.0, object()])

    @pytest.mark.parametrize("scale", [[1.0, 2.0], (1, 2), np.array([1.0, 2.0])], ids=repr)
    def test_sequences_become_tuples(self, scale):
        assert Gaussian(scale) == Gaussian((1.0, 2.0))
        assert type(Gaussian(np.float32(1.0)).scale) is float

    def test_one_per_column(self, points):
        with pytest.raises(
            InvalidInputError, match="Gaussian has 3 scales but the data have 2 col"
        ):
            Gaussian((1.0, 2.0, 3.0))(points)
        with pytest.raises(
            InvalidInputError, match="Periodic has 3 periods but the data have 2 col"
        ):
            Periodic((1.0, 2.0, 3.0), 1.0)(points)

    def test_missing(self, points):
        for kernel in (Gaussian(), Gaussian().on(0), Gaussian(1.0) * Laplace(), Periodic(24.0)):
            assert not kernel.fitted
            with pytest.raises(InvalidInputError, match=r"\(\) has no scale yet: give one, or fit"):
                kernel(points)

    @pytest.mark.parametrize("period", [0.0, -24.0, np.inf, np.nan, [], [[24.0]]], ids=repr)
    def test_periods_must_be_positive(self, period):
        with pytest.raises(
            InvalidInputError, match="Periodic: periods must be positive and finite"
        ):
            Periodic(period, 1.0)

    def test_periods_must_be_given_and_numbers(self):
        with pytest.raises(InvalidInputError, match=r"Periodic needs a period, such as 24\.0"):
            Periodic(None, 1.0)
        with pytest.raises(InvalidTypeError, match="Periodic: period must be numbers; got 'day'"):
            Periodic("day", 1.0)

    def test_smoothness(self):
        with pytest.raises(
            InvalidInputError, match=r"smoothness must be 0\.5, 1\.5 or 2\.5; got 2"
        ):
            Matern(1.0, smoothness=2)


class TestAdapter:
    def test_takes_text(self):
        def common_letters(A, B):
            return np.array([[len(set(a) & set(b)) for b in B] for a in A])

        words = np.array(["abc", "bcd", "xyz"])
        kernel = Adapter(common_letters)
        assert not kernel.vectors_only
        np.testing.assert_array_equal(kernel(words), [[3, 2, 0], [2, 3, 0], [0, 0, 3]])
        np.testing.assert_array_equal(kernel(words, words[:1]), [[3], [2], [0]])
        np.testing.assert_array_equal(kernel.diag(words), [3, 3, 3])
        assert kernel(words).dtype == float

    def test_knows_what_scikit_learn_needs(self):
        assert Adapter(RBF()).vectors_only

    def test_hash_follows_equality(self):
        assert Adapter(RBF(1.0)) == Adapter(RBF(1.0))
        assert hash(Adapter(RBF(1.0))) == hash(Adapter(RBF(1.0)))
        assert Adapter(RBF(1.0)) != Adapter(RBF(2.0))
        assert hash(Adapter(dot_plus_one)) == hash(Adapter(dot_plus_one))

    def test_does_not_write_into_what_the_function_keeps(self, points):
        kept = np.full((len(points), len(points)), 2.0)
        kernel = Gaussian(1.0) + Adapter(lambda A, B: kept)
        (Adapter(lambda A, B: kept) * Gaussian(1.0)).block(points, points)
        kernel.block(points, points)
        np.testing.assert_array_equal(kept, 2.0)

    def test_checks_the_shape(self, points):
        with pytest.raises(
            InvalidInputError, match=r"returned shape \(23,\) for 23 and 23 rows; it"
        ):
            Adapter(lambda A, B: np.ones(len(A)))(points)

    def test_as_kernel(self):
        ours = Gaussian(1.0)
        assert as_kernel(ours) is ours
        assert as_kernel(RBF(2.0)) == Adapter(RBF(2.0))
        assert as_kernel(dot_plus_one) == Adapter(dot_plus_one)

    @pytest.mark.parametrize("kernel", ["rbf", Gaussian, None, 1.0])
    def test_as_kernel_refuses_the_rest(self, kernel):
        with pytest.raises(InvalidTypeError, match="a kernel must be a kcdo kernel such as"):
            as_kernel(kernel)


def naive_median_scales(X, metric_power):
    """Median over pairs of distinct rows of the distance of standardised columns."""
    sd = X.std(axis=0)
    sd[sd == 0] = 1.0
    scaled_rows = X / sd
    distances = [
        np.sum(np.abs(a - b) ** metric_power) ** (1 / metric_power)
        for i, a in enumerate(scaled_rows)
        for b in scaled_rows[:i]
        if np.any(a != b)
    ]
    return np.where(X.std(axis=0) > 0, sd * np.median(distances), 1.0)


class TestMedianScales:
    @pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
    @pytest.mark.parametrize(
        ("family", "power"), [(Gaussian, 2), (Matern, 2), (Laplace, 1)], ids=str
    )
    def test_against_all_pairs(self, rng, family, power, unit):
        X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1] * unit
        found = with_median_scales(family(), X)
        np.testing.assert_allclose(found.scale, naive_median_scales(X, power), rtol=1e-12)

    def test_smoothness_is_kept(self, rng):
        found = with_median_scales(Matern(smoothness=2.5), rng.normal(size=(9, 1)))
        assert found.smoothness == 2.5
        assert type(found.scale) is float

    def test_repeated_rows_count_as_pairs_but_not_with_themselves(self, rng):
        X = np.repeat(rng.normal(size=(15, 2)), rng.integers(1, 4, size=15), axis=0)
        np.testing.assert_allclose(median_scales(X), naive_median_scales(X, 2), rtol=1e-12)

    def test_integer_weights_are_repetitions(self, rng):
        X = rng.normal(size=(20, 2))
        counts = rng.integers(0, 4, size=20)
        weighted = median_scales(X, counts.astype(float))
        np.testing.assert_allclose(
            weighted, median_scales(np.repeat(X, counts, axis=0)), rtol=1e-12
        )

    def test_rows_of_weight_zero_are_absent(self, rng):
        X = rng.normal(size=(1500, 1))
        X[40:] += 1e6
        weights = np.r_[np.ones(40), np.zeros(1460)]
        np.testing.assert_allclose(median_scales(X, weights), median_scales(X[:40]), rtol=1e-12)

    def test_constant_columns_get_scale_one(self, rng):
        X = np.column_stack([rng.normal(size=30), np.full(30, 1e9), np.full(30, 0.1)])
        scales = median_scales(X)
        np.testing.assert_array_equal(scales[1:], 1.0)
        np.testing.assert_allclose(scales[0], median_scales(X[:, :1])[0], rtol=1e-12)

    def test_all_rows_equal(self):
        np.testing.assert_array_equal(median_scales(np.full((5, 2), 3.0)), 1.0)

    def test_duplicated_columns_share_their_scale(self, rng):
        x = rng.normal(size=(40, 1))
        scales = median_scales(np.hstack([x, x]))
        np.testing.assert_allclose(scales, np.sqrt(2) * median_scales(x)[0], rtol=1e-12)

    def test_large_n_takes_a_subsample_that_settles_it(self, rng):
        X = rng.normal(size=(20_000, 1)) * 5.0
        # the median of |a - b| for standard normals is √2 times the 3/4 quantile
        np.testing.assert_allclose(median_scales(X), 5 * np.sqrt(2) * 0.67449, rtol=0.04)
        np.testing.assert_array_equal(median_scales(X), median_scales(rng.permutation(X)))
        assert median_scales(X, seed=1) != median_scales(X, seed=2)

    def test_categories_and_periods(self, rng):
        X = rng.normal(size=(9, 2))
        assert with_median_scales(Categorical(), X) == Categorical(1.0)
        assert with_median_scales(Periodic(24.0), X) == Periodic(24.0, (3.0, 3.0))
        assert with_median_scales(Periodic((24.0, 8.0)), X) == Periodic((24.0, 8.0), (3.0, 1.0))

    def test_parts_look_at_their_own_columns_and_set_scales_stay(self, rng):
        X = rng.normal(size=(30, 3))
        kernel = Gaussian().on([2]) * (Laplace(2.0) + Matern().on([0, 1]))
        found = with_median_scales(kernel, X)
        matern = Matern(tuple(median_scales(X[:, :2]).tolist()))
        expected = Gaussian(float(median_scales(X[:, 2:])[0])).on([2])
        assert found == expected * (Laplace(2.0) + matern.on([0, 1]))

    def test_an_unknown_kernel(self):
        class Odd(Kernel):
            fitted = False

            def block(self, A, B):
                return np.ones((len(A), len(B)))

        np.testing.assert_array_equal(Odd()(np.zeros((2, 1))), 1.0)
        with pytest.raises(InvalidInputError, match="do not know how to choose scales for <"):
            with_median_scales(Odd(), np.zeros((3, 1)))


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 4)), min_size=1, max_size=12).filter(
        lambda pairs: any(w for _, w in pairs)
    )
)
def test_weighted_median_is_the_median_of_repetitions(pairs):
    values, weights = np.array(pairs, dtype=float).T
    values, weights = values[weights > 0], weights[weights > 0]
    expected = np.median(np.repeat(values, weights.astype(int)))
    assert weighted_median(values, weights) == pytest.approx(expected)


def test_weighted_mean_sd(rng):
    X, weights = rng.normal(size=(50, 2)), rng.random(50)
    mean, sd = weighted_mean_sd(X, weights)
    np.testing.assert_allclose(mean, weights @ X / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(sd**2, weights @ (X - mean) ** 2 / weights.sum(), rtol=1e-12)
    _, sd = weighted_mean_sd(np.full((7, 1), 0.1))
    assert sd == 0


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_matern_vanishes_at_distances_that_overflow(smoothness):
    kernel = Matern(1.0, smoothness=smoothness)
    assert np.all(kernel([[1e200], [1e20]], [[0.0]]) == 0.0)
