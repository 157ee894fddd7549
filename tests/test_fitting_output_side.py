"""The output side that a spec leaves open: nodes, scales and ridge, and what is warned of."""

import numpy as np
import pytest

from kcdo.errors import AccuracyWarning, SupportWarning
from kcdo.fitting import ModelSpec, output_side, ridge_value
from kcdo.fitting.output_side import planned_nodes, resolvable_sds
from kcdo.kernels import DensityKernel, Gaussian, Laplace
from kcdo.linalg import Tikhonov
from kcdo.measures import Grid, QuasiRandomBox, Sample, UniformBox
from kcdo.regularisation import PowerScheme


def outputs(n=200, d=1, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def side_of(Y, residual_sd=None, **options):
    sd = np.full(Y.shape[1], 0.5) if residual_sd is None else residual_sd
    return output_side(ModelSpec(**options), Y, np.ones(len(Y)), sd)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_rule_of_the_heuristic(d):
    """σ_y = 2 s_r N^{-1/(d+5)}, α' = 0.1, nodes as fine as the kernel (docs/theory.md)."""
    Y = outputs(d=d)
    side = side_of(Y, np.ones(d))
    np.testing.assert_allclose(side.kernel.scales, 2.0 * 200.0 ** (-1.0 / (d + 5)))
    assert (side.ridge, side.filter) == (0.1, Tikhonov())
    assert isinstance(side.measure, Grid)
    assert np.all(side.measure.lower < Y.min(axis=0))
    assert np.all(side.measure.upper > Y.max(axis=0))
    assert np.all(side.measure.spacing <= side.kernel.scales)
    more = output_side(ModelSpec(), Y, np.ones(200), np.ones(d), n=1e4)
    assert np.all(more.kernel.scales < side.kernel.scales)


def test_what_is_given_is_kept():
    side = side_of(outputs(), kernel_y=Laplace(), reference=UniformBox(-5.0, 5.0, nodes=50))
    assert isinstance(side.kernel.kernel, Laplace)
    assert side.measure.n_nodes == 50
    assert np.sqrt(side.kernel.covariance()[0, 0]) >= side.measure.spacing[0]
    scheme = side_of(outputs(), alpha_prime=PowerScheme(3.0, 0.5))
    assert scheme.ridge == pytest.approx(3.0 * 200**-0.5)
    given = output_side(ModelSpec(kernel_y=Gaussian(0.3)), outputs(), np.ones(200), None)
    assert given.kernel == DensityKernel(Gaussian(0.3), 1)


def test_beyond_three_outputs_nodes_are_points_near_the_outputs():
    Y = outputs(d=4)
    side = side_of(Y)
    assert side.measure.n_nodes == 1000
    assert not isinstance(side.measure, Grid)
    order = np.random.default_rng(1).permutation(200)
    again = side_of(Y[order])
    np.testing.assert_array_equal(again.measure.nodes, side.measure.nodes)
    assert side.ridge == pytest.approx(0.1, rel=1e-9)  # they stand for Lebesgue measure
    sample = side_of(outputs(), reference=Sample(outputs(500, seed=1)))
    assert sample.ridge == pytest.approx(0.1 * sample.mean_density(outputs()))
    assert sample.ridge < 0.05  # a normal density is lower


def test_a_grid_coarser_than_the_kernel_warns():
    spec = ModelSpec(kernel_y=Gaussian(0.5), reference=UniformBox(-5.0, 5.0, nodes=10))
    with pytest.warns(AccuracyWarning, match=r"grid spacing \[1\.\] exceeds .* use about \[80\]"):
        output_side(spec, outputs(), np.ones(200), None)


def test_outputs_outside_of_the_reference_warn():
    box = UniformBox(-1.0, 1.0, nodes=50)
    with pytest.warns(SupportWarning, match="of 200 outputs lie outside the support .* widen"):
        side_of(outputs(), reference=box)


def test_scales_that_a_grid_resolves():
    Y = np.column_stack([np.linspace(0.0, 10.0, 50), np.full(50, 3.0), np.zeros(50)])
    found = resolvable_sds(np.array([1e-9, 1.0, 1.0]), Y)
    assert found[0] > 1e-3 * 10.0  # no narrower than some nodes
    np.testing.assert_allclose(found[1:], [3e-3, 1.0])  # constant outputs: a narrow bump


def test_ridges_as_numbers():
    assert ridge_value(0.3, 0.1, 100.0, 7) == 0.3
    assert ridge_value(None, 0.1, 100.0, 7) == 0.1
    assert ridge_value(None, PowerScheme(1.0, 0.5), 100.0, 7) == pytest.approx(0.1)


def test_the_number_of_nodes_that_schemes_ask_for():
    Y = outputs(30)
    assert planned_nodes(None, Y) == planned_nodes(UniformBox(), Y) == 30
    assert planned_nodes(UniformBox(nodes=12), Y) == 12
    assert planned_nodes(QuasiRandomBox(n_nodes=64), Y) == 64
    assert planned_nodes(Sample(outputs(9)), Y) == 9
