"""Reference measures: one contract for all, then each option and each refusal."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

from kcdo.errors import InvalidInputError
from kcdo.measures import MAX_NODES, Grid, QuasiRandomBox, Reference, Sample, UniformBox

POINTS = np.random.default_rng(3).normal(size=(50, 2))
REFERENCES = {
    "box": UniformBox(),
    "box, given": UniformBox((-4.0, -5.0), 6.0, nodes=(7, 9)),
    "box, edge nodes": UniformBox(margin=0.3, nodes=12, edge_nodes=True),
    "quasi-random": QuasiRandomBox(n_nodes=200),
    "quasi-random, given": QuasiRandomBox(-5.0, (5.0, 6.0), n_nodes=64, seed=4),
    "sample": Sample(POINTS),
    "weighted sample": Sample(POINTS, np.linspace(1.0, 2.0, 50)),
    "importance": Sample.importance(POINTS, np.linspace(1.0, 2.0, 50)),
}
EVERY = pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)


@pytest.fixture
def outputs(rng):
    return rng.normal(size=(80, 2)) * [1.0, 0.5]


class TestContract:
    @EVERY
    def test_nodes_and_weights_fit(self, reference, outputs):
        measure = reference.realise(outputs, np.array([0.3, 0.4]))
        assert measure.nodes.shape == (measure.n_nodes, measure.dim) == (measure.n_nodes, 2)
        assert measure.weights.shape == (measure.n_nodes,)
        assert np.all(measure.weights > 0)
        assert measure.total == pytest.approx(measure.weights.sum(), rel=1e-12)

    @EVERY
    def test_nodes_are_inside_and_far_points_are_not(self, reference, outputs):
        measure = reference.realise(outputs)
        assert not measure.outside(measure.nodes).any()
        far = np.array([[1e3, 0.0], [0.0, -1e3]])
        np.testing.assert_array_equal(measure.outside(far), [True, True])

    @EVERY
    def test_copies_realise_the_same(self, reference, outputs):
        expected = reference.realise(outputs)
        for other in (
            pickle.loads(pickle.dumps(reference)),
            copy.deepcopy(reference),
            clone(reference, safe=False),
        ):
            assert isinstance(other, Reference)
            assert repr(other) == repr(reference)
            measure = other.realise(outputs)
            np.testing.assert_array_equal(measure.nodes, expected.nodes)
            np.testing.assert_array_equal(measure.weights, expected.weights)

    @EVERY
    def test_the_order_of_the_outputs_does_not_matter(self, reference, outputs):
        a, b = reference.realise(outputs), reference.realise(outputs[::-1])
        np.testing.assert_array_equal(a.nodes, b.nodes)


class TestGrid:
    def test_cell_centres_last_axis_fastest(self):
        grid = Grid(np.array([0.0, -1.0]), np.array([1.0, 2.0]), (2, 3))
        expected = [[x, y] for x in (0.25, 0.75) for y in (-0.5, 0.5, 1.5)]
        np.testing.assert_allclose(grid.nodes, expected)
        assert grid.cell_volume == pytest.approx(0.5)
        np.testing.assert_allclose(grid.spacing, [0.5, 1.0])
        np.testing.assert_allclose(grid.weights, 0.5)
        assert grid.total == pytest.approx(3.0)
        assert (grid.dim, grid.n_nodes) == (2, 6)
        np.testing.assert_allclose(grid.axes[1], [-0.5, 0.5, 1.5])

    def test_integrates_smooth_functions(self):
        grid = UniformBox(0.0, 1.0, nodes=64).realise(np.zeros((2, 3)))
        values = np.prod(np.sin(np.pi * grid.nodes), axis=1)
        assert grid.weights @ values == pytest.approx((2 / np.pi) ** 3, rel=1e-3)

    def test_marginal(self):
        grid = Grid(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), (2, 3, 4))
        part = grid.marginal([2, 0])
        np.testing.assert_array_equal(part.lower, [2.0, 0.0])
        np.testing.assert_array_equal(part.upper, [5.0, 1.0])
        assert part.shape == (4, 2)

    def test_outside_is_strictly_beyond_the_box(self):
        grid = UniformBox(0.0, 1.0, nodes=4).realise(np.zeros((1, 2)))
        Y = np.array([[0.0, 1.0], [0.5, 0.5], [-1e-9, 0.5], [0.5, 1.0 + 1e-9]])
        np.testing.assert_array_equal(grid.outside(Y), [False, False, True, True])


class TestBox:
    @given(margin=st.floats(0.0, 3.0), width=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3))
    def test_margin_is_a_share_of_the_range(self, margin, width, shift):
        grid = UniformBox(margin=margin).realise(np.array([[shift], [shift + width]]))
        np.testing.assert_allclose(grid.lower, shift - margin * width, atol=1e-9)
        np.testing.assert_allclose(grid.upper, shift + width + margin * width, atol=1e-9)

    def test_margin_is_at_least_three_scales(self, outputs):
        scales = np.array([2.0, 1e-6])
        grid = UniformBox(nodes=8).realise(outputs, scales)
        low, reach = outputs.min(axis=0), np.ptp(outputs, axis=0)
        np.testing.assert_allclose(grid.lower, low - [6.0, 0.1 * reach[1]])
        np.testing.assert_allclose(grid.upper, low + reach + np.array([6.0, 0.1 * reach[1]]))

    def test_one_side_given(self, outputs):
        grid = UniformBox(lower=-50.0).realise(outputs)
        np.testing.assert_array_equal(grid.lower, -50.0)
        np.testing.assert_allclose(grid.upper, outputs.max(axis=0) + 0.1 * np.ptp(outputs, axis=0))
        grid = UniformBox(upper=[50.0, 60.0]).realise(outputs)
        np.testing.assert_array_equal(grid.upper, [50.0, 60.0])

    def test_given_corners_ignore_the_data(self, outputs):
        grid = UniformBox(-1.0, [1.0, 2.0], margin=9.0).realise(outputs, np.array([5.0, 5.0]))
        np.testing.assert_array_equal(grid.lower, -1.0)
        np.testing.assert_array_equal(grid.upper, [1.0, 2.0])

    @pytest.mark.parametrize("value", [0.0, 5.0, -1e12, 1e-12])
    @pytest.mark.parametrize("reference", [UniformBox(), QuasiRandomBox(n_nodes=32)], ids=repr)
    def test_constant_outputs_get_a_box(self, reference, value):
        measure = reference.realise(np.full((4, 1), value))
        assert measure.total > 0
        assert not measure.outside(np.array([[value]])).any()
        assert len(np.unique(measure.nodes)) == measure.n_nodes

    @pytest.mark.parametrize("unit", [1e-12, 1e12])
    def test_extreme_units(self, outputs, unit):
        scales = np.array([0.3, 0.4])
        plain = UniformBox().realise(outputs, scales)
        other = UniformBox().realise(outputs * unit, scales * unit)
        assert other.shape == plain.shape
        np.testing.assert_allclose(other.nodes, plain.nodes * unit, rtol=1e-9, atol=1e-9 * unit)

    def test_spacing_is_a_quarter_of_the_scale(self, outputs):
        scales = np.array([0.3, 0.4])
        grid = UniformBox().realise(outputs, scales)
        assert np.all(grid.spacing <= scales / 4)
        assert np.all(grid.spacing > 0.9 * scales / 4)

    @pytest.mark.parametrize(("d", "most"), [*MAX_NODES.items(), (4, 16)])
    def test_number_of_nodes_has_a_limit_and_a_least(self, d, most):
        Y = np.array([np.zeros(d), np.ones(d)])
        assert UniformBox().realise(Y, np.full(d, 1e-9)).shape == (most,) * d
        assert UniformBox(0.0, 1.0).realise(Y, np.full(d, 1e9)).shape == (16,) * d
        assert UniformBox().realise(Y).shape == (16,) * d

    def test_nodes_on_the_edges(self):
        grid = UniformBox(0.0, (1.0, 3.0), nodes=(5, 4), edge_nodes=True).realise(np.zeros((1, 2)))
        np.testing.assert_allclose(grid.axes[0], [0.0, 0.25, 0.5, 0.75, 1.0], atol=1e-15)
        np.testing.assert_allclose(grid.axes[1], [0.0, 1.0, 2.0, 3.0], atol=1e-15)
        np.testing.assert_allclose(grid.lower, [-0.125, -0.5])

    def test_options_are_values(self):
        assert UniformBox(0, 1, nodes=np.int64(5)) == UniformBox(0.0, 1.0, nodes=5)
        assert UniformBox([0, 0], nodes=[3, 4]) == UniformBox((0.0, 0.0), nodes=(3, 4))
        assert len({UniformBox(), UniformBox(), QuasiRandomBox(), QuasiRandomBox()}) == 2

    @pytest.mark.parametrize("box", [UniformBox, QuasiRandomBox])
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"lower": np.nan}, "lower must be finite numbers, one or one per output"),
            ({"upper": np.inf}, "upper must be finite numbers"),
            ({"lower": []}, "lower must be finite numbers"),
            ({"upper": [[1.0]]}, "upper must be finite numbers"),
            ({"margin": -0.1}, r"margin must be >= 0 and finite; got -0\.1"),
            ({"margin": np.nan}, "margin must be >= 0 and finite; got nan"),
            ({"margin": np.inf}, "margin must be >= 0 and finite; got inf"),
            ({"lower": 1.0, "upper": 1.0}, r"box has no width: lower \[1\.\] must be below upper"),
            ({"lower": [0.0, 2.0], "upper": 1.0}, "the reference box has no width"),
            ({"lower": [0.0, 0.0], "upper": [1.0, 1.0, 1.0]}, "lower has 2 entries, but .* 3"),
        ],
    )
    def test_refuses(self, box, options, message):
        with pytest.raises(InvalidInputError, match=message):
            box(**options)

    def test_refuses_more_nodes_than_anyone_needs(self):
        with pytest.raises(InvalidInputError, match="10000000 nodes on one axis would take"):
            UniformBox(nodes=10**7)

    def test_refuses_a_side_beyond_the_data(self, outputs):
        with pytest.raises(InvalidInputError, match="the reference box has no width"):
            UniformBox(lower=99.0).realise(outputs)

    @pytest.mark.parametrize(
        ("box", "name"),
        [
            (UniformBox((0.0, 0.0, 0.0)), "lower"),
            (QuasiRandomBox(upper=(9.0, 9.0, 9.0)), "upper"),
            (UniformBox(nodes=(4, 4, 4)), "nodes"),
        ],
    )
    def test_refuses_the_wrong_dimension(self, box, name, outputs):
        with pytest.raises(
            InvalidInputError, match=f"{name} has 3 entries, but there are 2 output"
        ):
            box.realise(outputs)

    @pytest.mark.parametrize("nodes", [1, 0, -3, 4.0, (4, 1), True, "many"])
    def test_refuses_nodes(self, nodes):
        with pytest.raises(InvalidInputError, match="UniformBox: nodes must be whole numbers >= 2"):
            UniformBox(nodes=nodes)


class TestQuasiRandomBox:
    def test_fills_the_box_with_equal_weights(self):
        measure = QuasiRandomBox(0.0, (1.0, 2.0), n_nodes=256).realise(np.zeros((1, 2)))
        assert measure.total == pytest.approx(2.0)
        np.testing.assert_allclose(measure.weights, 2.0 / 256)
        assert measure.nodes.min() >= 0
        assert np.all(measure.nodes <= [1.0, 2.0])
        integral = measure.weights @ (measure.nodes[:, 0] * measure.nodes[:, 1])
        assert integral == pytest.approx(1.0, abs=5e-3)

    def test_any_number_and_seed(self):
        Y = np.zeros((1, 1))
        assert QuasiRandomBox(0.0, 1.0, n_nodes=5).realise(Y).n_nodes == 5
        a, b = (QuasiRandomBox(0.0, 1.0, n_nodes=8, seed=s).realise(Y).nodes for s in (0, 1))
        assert not np.array_equal(a, b)

    @pytest.mark.parametrize("n_nodes", [1, 0, -5])
    def test_refuses(self, n_nodes):
        with pytest.raises(InvalidInputError, match=f"n_nodes must be >= 2; got {n_nodes}"):
            QuasiRandomBox(n_nodes=n_nodes)


class TestSample:
    def test_weights(self):
        assert Sample([0.0, 1.0, 2.0]).measure.total == pytest.approx(1.0)
        np.testing.assert_allclose(Sample([0.0, 1.0], [2.0, 3.0]).measure.weights, [2.0, 3.0])
        assert Sample([0.0, 1.0]).measure.nodes.shape == (2, 1)
        assert repr(Sample(np.zeros((4, 2)))) == "Sample(4 points, total mass 1)"

    def test_importance_weights_integrate_the_target(self, rng):
        # ρ is Lebesgue measure on [0, 1], the points come from the density 2z
        z = np.sqrt(rng.random(20_000))
        measure = Sample.importance(z, 1 / (2 * z)).measure
        values = z**2 / (2 * z)
        error = values.std() / np.sqrt(len(z))
        assert abs(measure.weights @ z**2 - 1 / 3) < 4.5 * error

    @pytest.mark.parametrize(
        "points", [[0.0], [], np.zeros((2, 2, 2)), [0.0, np.nan], [[0.0], [np.inf]], 3.0], ids=repr
    )
    def test_refuses_points(self, points):
        with pytest.raises(InvalidInputError, match="needs at least two finite points, as"):
            Sample(points)

    @pytest.mark.parametrize(
        "weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 1.0]], [], 1.0], ids=repr
    )
    def test_refuses_weights(self, weights):
        for make in (Sample, Sample.importance):
            with pytest.raises(InvalidInputError, match="must be one positive number per point"):
                make([0.0, 1.0], weights)

    def test_refuses_outputs_of_another_dimension(self, outputs):
        with pytest.raises(InvalidInputError, match="sample has 1 columns, the outputs 2"):
            Sample([0.0, 1.0]).realise(outputs)


class TestScattered:
    def test_reach_is_the_spacing_of_a_grid(self):
        axis = np.arange(12.0)
        nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        measure = Sample(nodes).measure
        spacing = measure.reach * measure.unit[0]
        inner = np.all((nodes > 0) & (nodes < 11), axis=1)
        np.testing.assert_allclose(spacing[inner], 1.0)

    def test_repeated_nodes_have_a_positive_reach(self):
        measure = Sample([0.0, 0.0, 0.0, 1.0, 2.0]).measure
        assert measure.reach.min() > 0
        assert measure.reach[0] == measure.reach[measure.reach > 0].min()

    def test_equal_nodes(self):
        measure = Sample([2.0, 2.0, 2.0]).measure
        np.testing.assert_array_equal(measure.reach, 1.0)
        np.testing.assert_array_equal(measure.unit, 1.0)

    def test_unit_ignores_constant_columns(self, rng):
        nodes = np.column_stack([5 * rng.normal(size=40), np.full(40, 0.1)])
        np.testing.assert_allclose(Sample(nodes).measure.unit, [nodes[:, 0].std(), 1.0])

    @pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
    def test_outside_in_any_unit(self, rng, unit):
        nodes = rng.random((400, 2)) * [1.0, unit]
        inside = rng.random((50, 2)) * [1.0, unit]
        measure = Sample(nodes).measure
        assert not measure.outside(inside).any()
        assert measure.outside(inside + np.array([0.0, 2 * unit])).all()
        assert measure.outside(inside - [2.0, 0.0]).all()


# --- interpolation on grids


def test_interpolation_is_exact_for_multilinear_functions():
    grid = Grid(np.array([0.0, -1.0]), np.array([2.0, 3.0]), (5, 8))
    inner = np.random.default_rng(0).uniform([0.25, -0.7], [1.75, 2.7], (40, 2))

    def bilinear(P):
        return 2.0 + P[:, 0] - 3.0 * P[:, 1] + 0.5 * P[:, 0] * P[:, 1]

    shares = grid.interpolation(inner)
    assert shares.shape == (40, 40)
    assert shares.getnnz(axis=1).max() <= 4
    np.testing.assert_allclose(shares @ bilinear(grid.nodes), bilinear(inner), rtol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_interpolation_at_nodes_edges_and_outside():
    grid = Grid(np.array([0.0]), np.array([4.0]), (4,))
    np.testing.assert_allclose(grid.interpolation(grid.nodes).toarray(), np.eye(4), atol=1e-15)
    edges = grid.interpolation(np.array([[0.0], [0.3], [3.9], [4.0], [-0.1], [4.1], [1e300]]))
    expected = np.zeros((7, 4))
    expected[[0, 1], 0] = expected[[2, 3], 3] = 1.0
    np.testing.assert_allclose(edges.toarray(), expected, atol=1e-15)


@given(hnp.arrays(float, (6, 3), elements=st.floats(-1.0, 2.0)))
def test_shares_are_not_negative_and_sum_to_one_inside(points):
    grid = Grid(np.zeros(3), np.ones(3), (2, 5, 3))
    shares = grid.interpolation(points)
    assert shares.min() >= 0
    np.testing.assert_allclose(np.ravel(shares.sum(axis=1)), 1.0 - grid.outside(points), atol=1e-12)
