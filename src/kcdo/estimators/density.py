"""Densities and density ratios without conditioning: the reconstruction as an estimator."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kcdo.arrays import Array, Integers
from kcdo.components import Settings
from kcdo.consistency import kernel_fits, need, shape
from kcdo.distributions import (
    Batch,
    ConditionalDistribution,
    NodeBatch,
    Positivity,
    as_points,
    layout_of,
    make_positive,
)
from kcdo.embeddings import MeanEmbedding, SampleEmbedding
from kcdo.errors import InvalidInputError, SignedDensityError
from kcdo.estimators.base import check_columns
from kcdo.estimators.nested import NestedOptions
from kcdo.estimators.parameters import check_output_options, check_positivity, checked_seed
from kcdo.fitting import ModelSpec, output_side, unconditional_sd, warn_outside
from kcdo.frames import Labels, as_known, frame_library, target_names
from kcdo.kernels import DensityKernel, Kernel
from kcdo.linalg import Filter, Tikhonov
from kcdo.measures import Grid, Reference
from kcdo.parallel import thread_count
from kcdo.persistence.models import SavedModel
from kcdo.reconstruction import Reconstruction
from kcdo.regularisation import Scheme
from kcdo.validation import check_matrix, check_weights


@dataclass(frozen=True, eq=False)
class ReconstructedDensity:
    """dP/dρ recovered from an embedding: the solution of C_ρ u = μ, made a density.

    Built by :func:`reconstruct`. With Lebesgue measure on a box, :meth:`pdf` is the ordinary
    density; with ρ a sample of another distribution it is the density *ratio* dP/dρ.
    """

    output: Reconstruction
    embedding: MeanEmbedding
    signed_values: Array  # (M,) u(Z), integrating to 1
    values: Array  # (M,) the same, made positive
    integral: float  # of u before normalisation
    positivity: Positivity

    def __post_init__(self) -> None:
        measure = self.output.measure
        shape(self.signed_values, measure.n_nodes)
        shape(self.values, measure.n_nodes)
        need(0 < self.integral < np.inf, "the integral of a density")
        kernel_fits(self.embedding.kernel, np.zeros((1, measure.dim)))
        if isinstance(self.embedding, SampleEmbedding):
            shape(self.embedding.points, None, measure.dim)

    def pdf(self, y: ArrayLike) -> Array:
        """Return dP/dρ at points (G,) or (G, d): interpolated on a grid, else exact anywhere."""
        points = as_points(y, self.output.measure.dim)
        if isinstance(self.output.measure, Grid):
            return self.distribution().pdf(points)[0]
        at_nodes = self.embedding(self.output.measure.nodes)
        u = self.output.evaluate(points, self.embedding(points)[None], at_nodes[None])[0]
        return self._positive(u / self.integral)

    def distribution(self, *, flat: bool = False) -> ConditionalDistribution:
        """Return P as a distribution of one query: cdf, quantiles, draws, moments."""
        layout = layout_of(self.output.measure, self.output.kernel.scales)
        batch = NodeBatch(layout, (self.values * self.output.measure.weights)[None])
        return ConditionalDistribution(_FixedSource(batch, self.positivity == "signed"), flat=flat)

    def _positive(self, u: Array) -> Array:
        """Apply to values off the nodes what made the values on the nodes positive."""
        if self.positivity == "signed":
            return u
        top = int(np.argmax(self.values))
        if self.positivity == "clip":
            return np.maximum(u, 0.0) * (self.values[top] / self.signed_values[top])
        return np.maximum(u - (self.signed_values[top] - self.values[top]), 0.0)


@dataclass(frozen=True, eq=False)
class _FixedSource:
    """Distributions that are known."""

    all: Batch
    signed: bool
    n_jobs: int | None = None

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.all.dim

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.all.width

    def __len__(self) -> int:
        return len(self.all)

    def batch(self, rows: Integers) -> Batch:
        """Return some of the distributions."""
        return self.all.take(rows)


def reconstruct(
    embedding: MeanEmbedding,
    reference: Reference,
    *,
    ridge: float = 0.1,
    filter: Filter | None = None,
    positivity: Positivity = "project",
) -> ReconstructedDensity:
    """Recover dP/dρ from any mean embedding of P.

    Parameters
    ----------
    embedding : MeanEmbedding
        Embedded with a :class:`DensityKernel`.
    reference : Reference
        ρ; boxes need corners unless the embedding has points of its own.
    ridge : float
        α'.
    filter : Filter, optional
        :class:`Tikhonov` by default.

    Examples
    --------
    >>> import kcdo
    >>> kernel = kcdo.DensityKernel(kcdo.Gaussian(0.3), dim=1)
    >>> mu = kcdo.GaussianEmbedding([0.0], [1.0], kernel=kernel)
    >>> density = kcdo.reconstruct(mu, kcdo.UniformBox(-6.0, 6.0, nodes=200), ridge=1e-3)
    >>> density.pdf([0.0]).round(2)
    array([0.4])
    """
    if not isinstance(embedding.kernel, DensityKernel):
        raise InvalidInputError("to reconstruct a density, embed with a kcdo.DensityKernel.")
    check_positivity(positivity)
    check_output_options(embedding.kernel, reference, ridge, filter)
    measure = reference.realise(embedding.candidates(), embedding.kernel.scales)
    warn_outside(measure, embedding.candidates())
    output = Reconstruction(measure, embedding.kernel, ridge, filter or Tikhonov())
    return _density(output, embedding, positivity)


def _density(
    output: Reconstruction, embedding: MeanEmbedding, positivity: Positivity
) -> ReconstructedDensity:
    measure = output.measure
    u = output.reconstruct(embedding(measure.nodes)[None])
    integral = float((u @ measure.weights)[0])
    if not integral > 0:
        raise InvalidInputError(
            "the embedding has no mass on the reference measure: widen it, or place it nearer."
        )
    signed = u / integral
    positive = make_positive(signed, measure.weights, positivity)
    return ReconstructedDensity(output, embedding, signed[0], positive[0], integral, positivity)


class DensityReconstruction(SavedModel, DensityMixin, NestedOptions):
    """Unconditional density, or density ratio, of a sample.

    With the default reference :meth:`pdf` is the density of the sample. With
    ``reference=Sample(points)``, a sample of another distribution ρ, it is the *ratio* dP/dρ.

    Parameters
    ----------
    kernel, reference, alpha_prime, filter, positivity, n_jobs, random_state
        As the output side of :class:`ConditionalDensityOperator`.

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> y = np.random.default_rng(0).normal(size=(2000, 1))
    >>> model = kcdo.DensityReconstruction().fit(y)
    >>> model.pdf([[0.0]]).round(1)
    array([0.4])
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        reference: Reference | None = None,
        alpha_prime: float | Scheme | None = None,
        filter: Filter | None = None,
        positivity: Positivity = "project",
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.reference = reference
        self.alpha_prime = alpha_prime
        self.filter = filter
        self.positivity = positivity
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to a sample X (N, d); ``y`` is ignored."""
        check_positivity(self.positivity)
        thread_count(self.n_jobs)
        check_output_options(self.kernel, self.reference, self.alpha_prime, self.filter)
        X = as_known(X)
        points = check_matrix(X, least=2)
        weights = check_weights(sample_weight, len(points))
        points, weights = points[weights > 0], weights[weights > 0]
        spec = ModelSpec(
            kernel_y=self.kernel,
            reference=self.reference,
            alpha_prime=self.alpha_prime,
            filter=self.filter,
            settings=Settings(n_jobs=self.n_jobs, seed=checked_seed(self.random_state)),
        )
        fitted = self.kernel is not None and self.kernel.fitted
        spread = None if fitted else unconditional_sd(points, weights)
        output = output_side(spec, points, weights, spread)
        embedding = SampleEmbedding(points, weights / weights.sum(), kernel=output.kernel)
        self.density_ = _density(output, embedding, self.positivity)
        validate_data(self, X, skip_check_array=True)
        self._labels = Labels(frame_library(X), outputs=target_names(X))
        return self

    def _check_fit(self) -> None:
        check_columns(self, self.density_.output.measure.dim)

    def pdf(self, X: Any) -> Array:
        """Return dP/dρ at points (G, d), (G,)."""
        check_is_fitted(self)
        X = as_known(X)
        points = check_matrix(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.density_.pdf(points)

    def score_samples(self, X: Any) -> Array:
        """Return log dP/dρ at the points, (G,); -inf where the density is 0."""
        check_is_fitted(self)
        if self.density_.positivity == "signed":
            raise SignedDensityError(
                'a log density is not defined for positivity="signed": use "project" or "clip".'
            )
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of :meth:`score_samples`."""
        return float(np.mean(self.score_samples(X)))

    def distribution(self) -> ConditionalDistribution:
        """Return the fitted distribution: cdf, quantiles, draws, moments of one query."""
        check_is_fitted(self)
        flat = self.density_.output.measure.dim == 1
        return self.density_.distribution(flat=flat).labelled(self._labels)
