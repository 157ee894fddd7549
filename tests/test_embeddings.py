"""Mean embeddings: evaluation, inner products, MMD and herding against sampling and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import DotProduct

from kcdo.embeddings import GaussianEmbedding, MeanEmbedding, SampleEmbedding, mmd
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.kernels import Adapter, DensityKernel, Gaussian, Laplace, Matern

COV = np.array([[0.6, -0.3], [-0.3, 0.5]])
OTHER_COV = np.array([0.3, 0.9])
KERNELS = {
    "gaussian": Gaussian((0.8, 1.2)),
    "laplace": Laplace(0.9),
    "matern": Matern(0.9, smoothness=2.5),
    "density": DensityKernel(Gaussian(0.7), 2),
    "product": Gaussian(0.8).on(0) * Gaussian(1.2).on(1),
}
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@pytest.fixture
def samples(rng):
    return rng.normal(size=(40, 2)), rng.normal(size=(30, 2)) + 0.5


@EVERY
def test_samples_against_brute_force(rng, kernel, samples):
    X, Y = samples
    v, w = rng.normal(size=40), rng.random(30)
    p, q = SampleEmbedding(X, v, kernel=kernel), SampleEmbedding(Y, w, kernel=kernel)
    np.testing.assert_allclose(p(Y), kernel(Y, X) @ v, rtol=1e-10, atol=1e-13)
    assert p.inner(q) == pytest.approx(v @ kernel(X, Y) @ w, rel=1e-10)
    assert q.inner(p) == pytest.approx(p.inner(q), rel=1e-10)
    assert p.norm() ** 2 == pytest.approx(v @ kernel(X) @ v, rel=1e-10)
    points, weights = np.vstack([X, Y]), np.r_[v, -w]
    assert mmd(p, q) ** 2 == pytest.approx(weights @ kernel(points) @ weights, rel=1e-9)


def test_equal_weights_by_default(samples):
    X, _ = samples
    even = SampleEmbedding(X, np.full(40, 1 / 40), kernel=Gaussian(1.0))
    np.testing.assert_array_equal(SampleEmbedding(X, kernel=Gaussian(1.0))(X), even(X))


@EVERY
def test_gaussians_against_sampling(rng, kernel):
    p = GaussianEmbedding([0.3, -0.2], COV, kernel=kernel)
    q = GaussianEmbedding([0.8, 0.4], OTHER_COV, kernel=kernel)
    x = rng.multivariate_normal([0.3, -0.2], COV, size=3000)
    y = rng.multivariate_normal([0.8, 0.4], np.diag(OTHER_COV), size=3000)
    points = rng.normal(size=(5, 2))
    at_points = kernel.block(x, points)
    error = at_points.std(axis=0) / np.sqrt(3000)
    assert np.all(np.abs(p(points) - at_points.mean(axis=0)) < 4.5 * error + 1e-3)
    pairs = kernel.block(x, y)
    error = np.hypot(pairs.mean(axis=1).std(), pairs.mean(axis=0).std()) / np.sqrt(3000)
    assert abs(p.inner(q) - pairs.mean()) < 4.5 * error + 1e-3
    assert p.inner(q) == pytest.approx(q.inner(p), abs=1e-3)


def test_inner_product_of_gaussians_is_closed():
    kernel = Gaussian(0.5)
    p = GaussianEmbedding([0.0, 1.0], COV, kernel=kernel)
    q = GaussianEmbedding([0.4, 0.8], OTHER_COV, kernel=kernel)
    for a, b, cov in ((p, q, COV + np.diag(OTHER_COV)), (q, q, 2 * np.diag(OTHER_COV))):
        d = a.gaussian.mean[0] - b.gaussian.mean[0]
        total = 0.25 * np.eye(2) + cov
        expected = 0.25 / np.sqrt(np.linalg.det(total))
        expected *= np.exp(-0.5 * d @ np.linalg.solve(total, d))
        assert a.inner(b) == pytest.approx(expected, rel=1e-12)


def test_density_kernels_have_the_closed_form_too():
    kernel = DensityKernel(Gaussian(0.5), 1)
    embedding = GaussianEmbedding([0.2], 0.75, kernel=kernel)
    y = np.array([-1.0, 0.2, 3.0])
    expected = np.exp(-0.5 * (y - 0.2) ** 2) / np.sqrt(2 * np.pi)  # 0.5² + 0.75 = 1
    np.testing.assert_allclose(embedding(y), expected, rtol=1e-13)


@EVERY
def test_gaussian_with_sample_either_way(kernel, samples):
    X, _ = samples
    gaussian = GaussianEmbedding([0.3, -0.2], COV, kernel=kernel)
    sample = SampleEmbedding(X, kernel=kernel)
    assert gaussian.inner(sample) == sample.inner(gaussian)
    assert sample.inner(gaussian) == pytest.approx(gaussian(X).mean(), rel=1e-12)


def test_a_kernel_that_is_not_stationary():
    # E (x·y)² = mᵀ... : for d = 1 it is (m² + s²)(n² + t²)
    kernel = Adapter(DotProduct(0.0) ** 2)
    p = GaussianEmbedding([1.5], 0.5, kernel=kernel)
    q = GaussianEmbedding([-0.7], 2.0, kernel=kernel)
    expected = (1.5**2 + 0.5) * (0.7**2 + 2.0)
    assert p.inner(q) == pytest.approx(expected, rel=2e-3)
    assert p.norm() == pytest.approx(1.5**2 + 0.5, rel=2e-3)


def test_mmd_of_a_gaussian_and_its_own_draws_shrinks(rng):
    kernel = Gaussian(1.0)
    gaussian = GaussianEmbedding([0.0], 1.0, kernel=kernel)
    few, many = (
        np.mean(
            [mmd(gaussian, SampleEmbedding(rng.normal(size=n), kernel=kernel)) for _ in range(10)]
        )
        for n in (20, 2000)
    )
    assert many < few / 5  # the rate is 1/√n: a factor of ten
    assert mmd(gaussian, GaussianEmbedding([0.0], 1.0, kernel=kernel)) < 1e-7


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_mmd_is_a_metric(seed):
    rng = np.random.default_rng(seed)
    p, q, r = (
        SampleEmbedding(rng.normal(size=(6, 2)), rng.dirichlet(np.ones(6)), kernel=Matern(0.7))
        for _ in range(3)
    )
    assert mmd(p, p) < 1e-7
    assert mmd(p, q) == pytest.approx(mmd(q, p), rel=1e-10)
    assert mmd(p, q) <= mmd(p, r) + mmd(r, q) + 1e-12
    assert abs(p.inner(q)) <= p.norm() * q.norm() + 1e-12


class TestHerding:
    def test_beats_random_draws(self, rng):
        kernel = Gaussian(0.7)
        X = rng.normal(size=(800, 2))
        target = SampleEmbedding(X, kernel=kernel)
        herded = SampleEmbedding(target.herd(40), kernel=kernel)
        random = [
            mmd(target, SampleEmbedding(rng.choice(X, 40, replace=False), kernel=kernel))
            for _ in range(20)
        ]
        assert mmd(target, herded) < 0.6 * min(random)

    def test_follows_the_greedy_rule(self, rng):
        kernel, X = Laplace(0.5), rng.normal(size=(30, 1))
        target = SampleEmbedding(X, rng.dirichlet(np.ones(30)), kernel=kernel)
        chosen = []
        for t in range(12):
            gain = [
                target(x[None])[0] - sum(kernel(x[None], c[None])[0, 0] for c in chosen) / (t + 1)
                for x in X
            ]
            chosen.append(X[int(np.argmax(gain))])
        np.testing.assert_array_equal(target.herd(12), chosen)

    def test_of_a_gaussian(self):
        kernel = Gaussian(0.7)
        target = GaussianEmbedding([1.0, -1.0], COV, kernel=kernel)
        points = target.herd(60)
        assert points.shape == (60, 2)
        np.testing.assert_allclose(points.mean(axis=0), [1.0, -1.0], atol=0.1)
        assert mmd(target, SampleEmbedding(points, kernel=kernel)) < 0.03

    def test_from_given_candidates(self):
        target = SampleEmbedding([0.0, 1.0], kernel=Gaussian(1.0))
        points = target.herd(5, candidates=[0.4, 7.0, 0.6])
        assert set(points.ravel()) <= {0.4, 0.6}

    @pytest.mark.parametrize("n", [0, -2])
    def test_refuses(self, n):
        with pytest.raises(InvalidInputError, match=f"herding needs n >= 1; got {n}"):
            SampleEmbedding([0.0], kernel=Gaussian(1.0)).herd(n)


def test_no_points():
    with pytest.raises(InvalidInputError, match="needs at least one point; got none"):
        SampleEmbedding(np.empty((0, 2)), kernel=Gaussian(1.0))


@pytest.mark.parametrize("weights", [[1.0], [1.0, np.nan], [[1.0, 1.0]], 1.0], ids=repr)
def test_bad_weights(weights):
    with pytest.raises(InvalidInputError, match="weights must be one finite number per point"):
        SampleEmbedding([0.0, 1.0], weights, kernel=Gaussian(1.0))


def test_one_gaussian_at_a_time():
    with pytest.raises(InvalidInputError, match=r"takes one mean of shape \(d,\)"):
        GaussianEmbedding([[0.0], [1.0]], 1.0, kernel=Gaussian(1.0))


def test_different_kernels_do_not_compare():
    p = SampleEmbedding([0.0], kernel=Gaussian(1.0))
    q = SampleEmbedding([0.0], kernel=Gaussian(2.0))
    with pytest.raises(
        InvalidInputError, match="embeddings of different kernels cannot be compared"
    ):
        p.inner(q)
    with pytest.raises(InvalidInputError, match="different kernels"):
        mmd(p, q)


def test_an_unknown_embedding():
    class Odd(MeanEmbedding):
        kernel = Gaussian(1.0)

        def __call__(self, points):
            return np.zeros(len(points))

        def mean_of(self, other):
            return 0.0

        def candidates(self):
            return np.zeros((1, 1))

    with pytest.raises(InvalidTypeError, match="cannot compare with Odd"):
        GaussianEmbedding([0.0], 1.0, kernel=Gaussian(1.0)).inner(Odd())
