"""Uncertain inputs: every accepted shape, every refusal."""

import numpy as np
import pytest

from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput


def covariance(rng, p):
    root = rng.normal(size=(p, p))
    return root @ root.T


class TestGaussianInput:
    def test_one_query_as_a_vector(self):
        inputs = GaussianInput([1.0, 2.0, 3.0], 0.5)
        assert inputs.mean.shape == (1, 3)
        np.testing.assert_array_equal(inputs.cov, np.full((1, 3), 0.5))
        assert len(inputs) == 1

    @pytest.mark.parametrize(
        ("cov", "expected"),
        [
            (2.0, [[2.0, 2.0]] * 3),
            ([1.0, 2.0], [[1.0, 2.0]] * 3),
            ([[1.0, 2.0], [3.0, 4.0], [0.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [0.0, 6.0]]),
        ],
    )
    def test_diagonal(self, cov, expected):
        inputs = GaussianInput(np.zeros((3, 2)), cov)
        assert inputs.diagonal
        np.testing.assert_array_equal(inputs.cov, expected)
        np.testing.assert_array_equal(inputs.variances, expected)
        for q in range(3):
            np.testing.assert_array_equal(inputs.full_cov()[q], np.diag(expected[q]))

    @pytest.mark.parametrize("shape", [(2, 2), (1, 2, 2), (3, 2, 2)])
    def test_full(self, rng, shape):
        cov = np.broadcast_to(covariance(rng, 2), shape)
        inputs = GaussianInput(np.zeros((3, 2)), cov)
        assert not inputs.diagonal
        assert inputs.cov.shape == (3, 2, 2)
        np.testing.assert_array_equal(inputs.full_cov(), np.broadcast_to(cov, (3, 2, 2)))
        np.testing.assert_array_equal(inputs.variances, [np.diag(c) for c in inputs.cov])

    def test_one_column_needs_no_choice(self):
        for cov in (3.0, [3.0], [[3.0]], [[[3.0]]]):
            np.testing.assert_array_equal(GaussianInput([[0.0]], cov).variances, [[3.0]])

    def test_as_many_queries_as_columns(self, rng):
        variances = np.array([[1.0, 2.0], [3.0, 4.0]])
        assert GaussianInput(np.zeros((2, 2)), variances).diagonal  # not symmetric: no matrix
        one = covariance(rng, 2)
        with pytest.raises(
            InvalidInputError, match=r"ambiguous for 2 queries with 2 columns: pass"
        ):
            GaussianInput(np.zeros((2, 2)), one)
        np.testing.assert_array_equal(GaussianInput(np.zeros((2, 2)), one[None]).cov, [one, one])

    def test_marginals_and_slices(self, rng):
        mean = rng.normal(size=(4, 3))
        cov = np.stack([covariance(rng, 3) for _ in range(4)])
        inputs = GaussianInput(mean, cov, n_points=64)
        part = inputs.columns([2, 0])
        np.testing.assert_array_equal(part.mean, mean[:, [2, 0]])
        np.testing.assert_array_equal(part.cov, cov[:, [2, 0]][:, :, [2, 0]])
        for rows in (slice(1, 3), np.array([3, 0])):
            np.testing.assert_array_equal(inputs[rows].mean, mean[rows])
            np.testing.assert_array_equal(inputs[rows].cov, cov[rows])
        assert part.n_points == inputs[:1].n_points == 64
        variances = GaussianInput(mean, rng.random((4, 3)))
        np.testing.assert_array_equal(variances.columns([1]).cov, variances.cov[:, [1]])

    def test_replace_keeps_the_uncertainty(self):
        inputs = GaussianInput([[0.0, 1.0]], [1.0, 2.0], n_points=32)
        moved = inputs.replace(np.array([[5.0, 6.0]]))
        np.testing.assert_array_equal(moved.mean, [[5.0, 6.0]])
        np.testing.assert_array_equal(moved.cov, inputs.cov)
        assert moved.n_points == 32

    def test_repr(self):
        assert repr(GaussianInput(np.zeros((2, 3)), np.eye(3)[None])) == (
            "GaussianInput(2 queries, 3 columns, full covariance)"
        )

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_finite(self, bad):
        with pytest.raises(InvalidInputError, match="mean contains NaN or infinity"):
            GaussianInput([[bad]], 1.0)
        with pytest.raises(InvalidInputError, match="cov contains NaN or infinity"):
            GaussianInput([[0.0]], bad)

    @pytest.mark.parametrize("shape", [(2, 3, 4), (0, 2), (2, 0)])
    def test_shape_of_the_mean(self, shape):
        with pytest.raises(
            InvalidInputError, match=r"mean must be \(Q, p\) with at least one query"
        ):
            GaussianInput(np.zeros(shape), 1.0)

    @pytest.mark.parametrize("n_points", [7, 0, -1])
    def test_number_of_points(self, n_points):
        with pytest.raises(InvalidInputError, match=f"n_points must be at least 8; got {n_points}"):
            GaussianInput([[0.0]], 1.0, n_points=n_points)

    @pytest.mark.parametrize("shape", [(3,), (4, 2), (2, 2, 2), (3, 2, 3), (1, 3, 2, 2)])
    def test_shape_of_the_covariance(self, shape):
        with pytest.raises(
            InvalidInputError, match=r"for a mean of shape \(3, 2\) give \(3, 2, 2\)"
        ):
            GaussianInput(np.zeros((3, 2)), np.ones(shape))

    @pytest.mark.parametrize(
        "cov", [-1.0, [1.0, -1e-9], [[1.0, 0.0], [0.0, -1.0]], [1e24, -1.0]], ids=repr
    )
    def test_negative_variance(self, cov):
        with pytest.raises(InvalidInputError, match="not a covariance: it has a negative variance"):
            GaussianInput([[0.0, 0.0]], cov)

    @pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
    def test_indefinite_in_any_unit(self, unit):
        units = np.array([1.0, unit])
        indefinite = np.array([[1.0, 1.5], [1.5, 1.0]]) * np.outer(units, units)
        with pytest.raises(InvalidInputError, match="some combination of columns has a negative"):
            GaussianInput([[0.0, 0.0]], indefinite)
        singular = np.outer(units, units)
        np.testing.assert_array_equal(GaussianInput([[0.0, 0.0]], singular).cov[0], singular)

    def test_not_symmetric(self):
        with pytest.raises(InvalidInputError, match="cov is not symmetric"):
            GaussianInput([[0.0, 0.0]], [[1.0, 0.2], [0.3, 1.0]])

    def test_rounding_noise_is_still_symmetric(self):
        cov = np.array([[1.0, 1e-17], [-3e-17, 1.0]])
        assert not GaussianInput([[0.0, 0.0]], cov).diagonal


class TestSampleInput:
    def test_equal_sizes(self, rng):
        samples = rng.normal(size=(3, 5, 2))
        inputs = SampleInput(samples)
        assert len(inputs) == 3
        np.testing.assert_array_equal(inputs.points, samples.reshape(15, 2))
        np.testing.assert_array_equal(inputs.starts, [0, 5, 10, 15])
        np.testing.assert_allclose(inputs.weights, 0.2)

    def test_a_list_of_different_sizes(self, rng):
        samples = [rng.normal(size=(s, 2)) for s in (1, 4, 2)]
        inputs = SampleInput(samples)
        np.testing.assert_array_equal(inputs.starts, [0, 1, 5, 7])
        np.testing.assert_allclose(inputs.weights, [1] + [0.25] * 4 + [0.5] * 2)

    def test_vectors_are_one_column(self):
        assert SampleInput([[0.0, 1.0], [2.0, 3.0, 4.0]]).points.shape == (5, 1)

    def test_texts_stay_texts(self):
        inputs = SampleInput([["a", "bc"], ["d"]])
        assert inputs.points.tolist() == ["a", "bc", "d"]
        assert SampleInput([[["a"], ["b"]]]).points.shape == (2, 1)

    @pytest.mark.parametrize(
        ("weights", "expected"),
        [
            ([1.0, 3.0], [0.25, 0.75, 0.25, 0.75]),
            ([[1.0, 1.0], [0.0, 5.0]], [0.5, 0.5, 0.0, 1.0]),
        ],
    )
    def test_weights_are_normalised_in_each_query(self, weights, expected):
        inputs = SampleInput(np.zeros((2, 2, 1)), weights)
        np.testing.assert_allclose(inputs.weights, expected)

    def test_weights_of_a_ragged_list(self):
        inputs = SampleInput([np.zeros((1, 1)), np.zeros((2, 1))], [[4.0], [1.0, 3.0]])
        np.testing.assert_allclose(inputs.weights, [1.0, 0.25, 0.75])

    def test_slices(self, rng):
        samples = [rng.normal(size=(s, 2)) for s in (1, 4, 2)]
        inputs = SampleInput(samples, [[1.0], [1.0, 2.0, 3.0, 4.0], [1.0, 3.0]])
        part = inputs[np.array([2, 1])]
        np.testing.assert_array_equal(part.points, np.vstack([samples[2], samples[1]]))
        np.testing.assert_allclose(part.weights, [0.25, 0.75, 0.1, 0.2, 0.3, 0.4])
        np.testing.assert_array_equal(part.starts, [0, 2, 6])
        np.testing.assert_array_equal(inputs[1:2].points, samples[1])

    def test_replace_keeps_the_weights(self):
        inputs = SampleInput([[0.0, 1.0], [2.0]], [[1.0, 3.0], [1.0]])
        moved = inputs.replace(np.array([[7.0], [8.0], [9.0]]))
        np.testing.assert_array_equal(moved.points, [[7.0], [8.0], [9.0]])
        np.testing.assert_array_equal(moved.weights, inputs.weights)
        assert repr(moved) == "SampleInput(2 queries, 3 points)"

    def test_no_query(self):
        with pytest.raises(
            InvalidInputError, match="SampleInput needs at least one query; got none"
        ):
            SampleInput([])

    @pytest.mark.parametrize("samples", [[np.empty((0, 2))], np.zeros((1, 2, 3, 4)), [3.0]])
    def test_shape_of_a_sample(self, samples):
        with pytest.raises(InvalidInputError, match=r"must be a non-empty \(S, p\) array; got \("):
            SampleInput(samples)

    def test_samples_of_different_width(self):
        with pytest.raises(
            InvalidInputError, match=r"must agree in their columns; got shapes \[\(2"
        ):
            SampleInput([np.zeros((2, 1)), np.zeros((2, 3))])

    @pytest.mark.parametrize("weights", [[1.0], [[1.0, 1.0]], [[1.0, 1.0], [1.0]], []], ids=repr)
    def test_weights_of_the_wrong_length(self, weights):
        with pytest.raises(InvalidInputError, match="must match its samples in length"):
            SampleInput(np.zeros((2, 2, 1)), weights)

    @pytest.mark.parametrize("weights", [[1.0, -0.1], [0.0, 0.0]])
    def test_weights_of_the_wrong_sign(self, weights):
        with pytest.raises(InvalidInputError, match="must be >= 0 with a positive sum"):
            SampleInput(np.zeros((2, 2, 1)), weights)

    def test_weights_not_finite(self):
        with pytest.raises(InvalidInputError, match="weights contains NaN or infinity"):
            SampleInput(np.zeros((2, 2, 1)), [1.0, np.nan])


def test_equal_variances_are_variances():
    """As many queries as columns: what cannot be one covariance is one row of variances each."""
    gaussian = GaussianInput(np.zeros((2, 2)), np.full((2, 2), 0.1))
    assert gaussian.diagonal
