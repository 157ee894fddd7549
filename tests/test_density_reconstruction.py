"""Densities and density ratios of samples, against known ones."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kcdo
from kcdo import (
    DensityKernel,
    DensityReconstruction,
    Gaussian,
    GaussianEmbedding,
    InvalidInputError,
    InvalidTypeError,
    QuasiRandomBox,
    Sample,
    SampleEmbedding,
    SignedDensityError,
    SupportWarning,
    UniformBox,
    reconstruct,
)
from kcdo.linalg import IteratedTikhonov, PrintedForm, SpectralCutoff, Tikhonov

BOXES = [UniformBox(-6, 6, nodes=200), QuasiRandomBox(-6, 6, n_nodes=256)]
KERNEL = DensityKernel(Gaussian(0.3), dim=1)


def normal(n, d=1, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.fixture(scope="module")
def fitted():
    return DensityReconstruction().fit(normal(2000))


# --- reconstruct: any embedding, any reference, any filter


@pytest.mark.parametrize("filter", [None, IteratedTikhonov(2), SpectralCutoff(), PrintedForm()])
@pytest.mark.parametrize("reference", BOXES)
def test_a_gaussian_is_recovered_from_its_embedding(reference, filter):
    mu = GaussianEmbedding([0.5], [0.64], kernel=KERNEL)
    density = reconstruct(mu, reference, ridge=1e-4, filter=filter)
    y = np.linspace(-2, 3, 21)
    atol = 0.02 if isinstance(reference, UniformBox) else 0.03  # scattered nodes: coarser sums
    np.testing.assert_allclose(density.pdf(y), norm.pdf(y, 0.5, 0.8), atol=atol)
    dist = density.distribution(flat=True)
    assert dist.mean()[0] == pytest.approx(0.5, abs=0.02)
    assert dist.std()[0] == pytest.approx(0.8, abs=0.02)


def test_the_integral_is_kept_and_normalised_away():
    mu = SampleEmbedding([[0.0], [0.4]], kernel=KERNEL)
    density = reconstruct(mu, UniformBox(-7, 7, nodes=250), ridge=0.1, positivity="signed")
    assert density.integral == pytest.approx(1 / 1.1, rel=1e-5)
    weights = density.output.measure.weights
    assert density.signed_values @ weights == pytest.approx(1.0)
    np.testing.assert_array_equal(density.signed_values, density.values)
    assert density.values.min() < 0


@pytest.mark.parametrize("positivity", ["project", "clip", "signed"])
def test_evaluation_off_the_nodes_joins_the_nodes(positivity):
    """On scattered nodes pdf is exact anywhere; at a node it is the positive node value."""
    mu = SampleEmbedding(normal(60), kernel=KERNEL)
    density = reconstruct(mu, QuasiRandomBox(-5, 5, n_nodes=128), positivity=positivity)
    nodes = density.output.measure.nodes
    assert (density.signed_values < 0).any()
    np.testing.assert_allclose(density.pdf(nodes), density.values, rtol=1e-7, atol=1e-9)
    on_line = np.linspace(-5, 5, 2001)
    assert (density.pdf(on_line).min() < 0) == (positivity == "signed")
    assert np.trapezoid(density.pdf(on_line), on_line) == pytest.approx(1.0, abs=0.01)


def test_reconstruct_checks_its_arguments():
    mu = SampleEmbedding([[0.0], [0.4]], kernel=KERNEL)
    box = UniformBox(-2, 2, nodes=40)
    with pytest.raises(InvalidInputError, match=r"embed with a kcdo\.DensityKernel"):
        reconstruct(SampleEmbedding([0.0], kernel=Gaussian(1.0)), box)
    with pytest.raises(InvalidInputError, match="positivity must be one of"):
        reconstruct(mu, box, positivity="absolute")
    with pytest.raises(InvalidTypeError, match="reference must be"):
        reconstruct(mu, "box")
    with pytest.raises(InvalidTypeError, match="filter must be"):
        reconstruct(mu, box, filter="tikhonov")
    with pytest.raises(InvalidInputError, match="alpha_prime must be positive"):
        reconstruct(mu, box, ridge=0.0)


def test_points_of_the_wrong_shape_are_refused():
    mu = SampleEmbedding(normal(20, 2), kernel=DensityKernel(Gaussian(0.5), dim=2))
    for reference in (UniformBox(-4, 4, nodes=10), QuasiRandomBox(-4, 4, n_nodes=64)):
        density = reconstruct(mu, reference)
        assert density.pdf([0.0, 0.1]).shape == (1,)
        for bad in (np.zeros(6), np.zeros((2, 3))):
            with pytest.raises(InvalidInputError, match=r"points must be \(G, 2\)"):
                density.pdf(bad)


def test_an_embedding_elsewhere_has_no_mass():
    mu = SampleEmbedding([[100.0], [101.0]], kernel=KERNEL)
    with (
        pytest.warns(SupportWarning, match="2 of 2 outputs lie outside"),
        pytest.raises(InvalidInputError, match="no mass on the reference measure"),
    ):
        reconstruct(mu, UniformBox(-1, 1, nodes=20))


# --- the estimator


def test_density_of_a_normal_sample(fitted):
    y = np.linspace(-3, 3, 61)
    assert np.sqrt(np.mean((fitted.pdf(y[:, None]) - norm.pdf(y)) ** 2)) < 0.015
    dist = fitted.distribution()
    assert len(dist) == 1
    assert dist.mean().shape == (1,)
    assert dist.quantile(0.9)[0] == pytest.approx(norm.ppf(0.9), abs=0.1)
    np.testing.assert_allclose(dist.pdf(y)[0], fitted.pdf(y[:, None]), rtol=1e-12)
    test = normal(400, seed=9)
    assert fitted.score(test) == pytest.approx(norm.logpdf(test).mean(), abs=0.03)
    np.testing.assert_allclose(np.exp(fitted.score_samples(test)), fitted.pdf(test))


def test_two_dimensions():
    X = normal(1500, 2) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    model = DensityReconstruction(reference=UniformBox(nodes=40)).fit(X)
    dist = model.distribution()
    np.testing.assert_allclose(dist.cov()[0], np.cov(X.T), atol=0.12)
    assert model.pdf(X[:5]).shape == (5,)
    assert model.n_features_in_ == 2


def test_density_ratio_of_two_gaussians():
    """P = N(0.5, 0.8²), ρ = N(0, 1): pdf is dP/dρ, and integrates against ρ to 1."""
    P = 0.5 + 0.8 * normal(3000)
    rho = normal(1000, seed=1)
    model = DensityReconstruction(reference=Sample(rho)).fit(P)
    y = np.linspace(-1.2, 1.8, 31)
    truth = norm.pdf(y, 0.5, 0.8) / norm.pdf(y)
    ratio = model.pdf(y[:, None])
    assert np.sqrt(np.mean((ratio - truth) ** 2)) < 0.2 * truth.mean()
    assert np.corrcoef(ratio, truth)[0, 1] > 0.97
    assert model.pdf(rho).mean() == pytest.approx(1.0, abs=1e-6)


def test_the_distribution_of_a_ratio_is_that_of_the_sample():
    """A ridge pulls towards ρ; with a small one the moments are those of the sample."""
    P = 0.5 + 0.8 * normal(3000)
    reference = Sample(normal(1000, seed=1))
    strong, weak = (
        DensityReconstruction(reference=reference, alpha_prime=a).fit(P).distribution()
        for a in (0.03, 1e-4)
    )
    assert weak.mean()[0] == pytest.approx(P.mean(), abs=0.01)
    assert weak.std()[0] == pytest.approx(P.std(), abs=0.02)
    assert 0 < strong.mean()[0] < weak.mean()[0]


def test_the_ratio_to_itself_is_one():
    X = normal(500)
    ratio = DensityReconstruction(reference=Sample(X), alpha_prime=0.01).fit(X).pdf(X)
    inner = np.abs(X[:, 0]) < 1.5
    assert np.mean(np.abs(ratio[inner] - 1)) < 0.1


def test_quasi_random_nodes_agree_with_the_grid(fitted):
    scattered = DensityReconstruction(reference=QuasiRandomBox(n_nodes=512)).fit(normal(2000))
    y = np.linspace(-2.5, 2.5, 21)[:, None]
    np.testing.assert_allclose(scattered.pdf(y), fitted.pdf(y), atol=0.012)


def test_weights_count_rows():
    X = normal(80)
    times = np.random.default_rng(2).integers(0, 4, 80)
    options = {"kernel": Gaussian(0.4), "reference": UniformBox(-5, 5, nodes=100)}
    counted = DensityReconstruction(**options).fit(X, sample_weight=times)
    repeated = DensityReconstruction(**options).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(counted.pdf(X), repeated.pdf(X), rtol=1e-8, atol=1e-12)


def test_rows_of_weight_zero_count_as_absent():
    X = np.concatenate([normal(80), [[1e6]]])
    weights = np.ones(81)
    weights[-1] = 0.0
    model = DensityReconstruction().fit(X, sample_weight=weights)
    plain = DensityReconstruction().fit(X[:-1])
    np.testing.assert_allclose(model.pdf(X[:-1]), plain.pdf(X[:-1]), rtol=1e-10)


def test_a_box_that_excludes_outputs_warns_once():
    with pytest.warns(SupportWarning, match="outputs lie outside the support") as caught:
        DensityReconstruction(reference=UniformBox(-0.5, 0.5, nodes=50)).fit(normal(200))
    assert sum(issubclass(w.category, SupportWarning) for w in caught) == 1


def test_more_than_three_dimensions():
    X = normal(600, 4)
    model = DensityReconstruction().fit(X)
    p = model.pdf(X[:50])
    assert np.all(np.isfinite(p))
    assert np.all(p >= 0)
    assert model.pdf(np.zeros((1, 4)))[0] > 3 * model.pdf(np.full((1, 4), 2.0))[0]
    dist = model.distribution()
    np.testing.assert_allclose(dist.mean(), 0.0, atol=1.0)
    assert dist.sample(3, random_state=0).shape == (1, 3, 4)


def test_the_spread_is_right_in_more_than_three_dimensions():
    dist = DensityReconstruction().fit(normal(2000, 4)).distribution()
    np.testing.assert_allclose(dist.var(), 1.0, rtol=0.5)


def test_signed_has_no_log_density():
    model = DensityReconstruction(positivity="signed").fit(normal(100))
    assert model.pdf(np.linspace(-6, 6, 200)[:, None]).shape == (200,)
    for ask in (model.score, model.score_samples):
        with pytest.raises(SignedDensityError, match='not defined for positivity="signed"'):
            ask(normal(3))


def test_bad_input_is_refused_before_any_work():
    X = normal(20)
    with pytest.raises(InvalidInputError, match="positivity must be one of"):
        DensityReconstruction(positivity="abs").fit(X)
    with pytest.raises(InvalidInputError, match="alpha_prime must be positive"):
        DensityReconstruction(alpha_prime=-1.0).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        DensityReconstruction().fit([[0.0], [np.nan]])
    with pytest.raises(InvalidInputError, match="sample_weight"):
        DensityReconstruction().fit(X, sample_weight=np.ones(3))
    unfitted = DensityReconstruction()
    for ask in (unfitted.pdf, unfitted.score, unfitted.score_samples):
        with pytest.raises(NotFittedError):
            ask(X)
    with pytest.raises(NotFittedError):
        unfitted.distribution()


def test_points_with_other_columns_are_refused(fitted):
    with pytest.raises(ValueError, match="features"):
        fitted.pdf(np.zeros((3, 2)))


def test_clone_and_row_order():
    X = normal(100)
    model = clone(DensityReconstruction(kernel=Gaussian(0.3), filter=Tikhonov())).fit(X)
    shuffled = clone(model).fit(X[::-1])
    np.testing.assert_allclose(model.pdf(X), shuffled.pdf(X), rtol=1e-9)
    assert isinstance(model.density_, kcdo.ReconstructedDensity)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale, fitted):
    X = normal(2000)
    model = DensityReconstruction().fit(3.0 * scale + scale * X)
    y = np.array([[-1.0], [0.0], [2.0]])
    found = model.pdf(3.0 * scale + scale * y) * scale
    np.testing.assert_allclose(found, fitted.pdf(y), rtol=1e-4)
