"""The conditional operators as immutable maths objects: where input and output side meet."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.distributions import ConditionalDistribution, Layout, Positivity, layout_of, make_positive
from kcdo.embeddings import MeanEmbedding, SampleEmbedding
from kcdo.errors import AccuracyWarning
from kcdo.kernels import Kernel
from kcdo.reconstruction import Reconstruction
from kcdo.systems import DenseSystem, Queries

Array = NDArray[np.floating]

# Weight of the marginal density: negligible near data, everything far from all of it.
FALLBACK_WEIGHT = 1e-3
_COARSE_EXPECTATION = 1e-2


@dataclass(frozen=True, eq=False)
class MeanOperator:
    """x' ↦ Σ_n w_n(x') k_y(y_n, ·): the conditional mean embedding."""

    system: DenseSystem
    outputs: Array
    kernel: Kernel

    def embeddings(self, queries: Queries) -> list[SampleEmbedding]:
        """Return the embedding of Y given each query."""
        rows = self.system.weights(queries)
        return [SampleEmbedding(self.outputs, w, kernel=self.kernel) for w in rows]

    def sum_rule(self, prior: MeanEmbedding) -> SampleEmbedding:
        """Return the embedding of Y when x has the embedding ``prior``: w = A⁻¹ μ(X)."""
        groups = self.system.groups
        grouped = self.system.factor.solve(prior(groups.points))
        weights = grouped[groups.member_of] * groups.share
        return SampleEmbedding(self.outputs, weights, kernel=self.kernel)


@dataclass(frozen=True, eq=False)
class DensityOperator:
    """x' ↦ the density (C_ρ + α')⁻¹ Σ_n w_n(x') ℓ(y_n, ·), on the nodes of ρ.

    The model is one matrix: node values = section(x') @ coefficients.
    """

    system: DenseSystem
    output: Reconstruction
    coefficients: Array  # (centres, M)
    weight_sums: Array  # (centres,)
    marginal: Array  # (M,) density of Y
    layout: Layout
    positivity: Positivity

    @classmethod
    def fit(
        cls, system: DenseSystem, output: Reconstruction, Y: Array, positivity: Positivity
    ) -> "DensityOperator":
        """Solve for the coefficients; the filter acts on group means, not on observations."""
        embeddings = output.embed(Y)
        coefficients = output.reconstruct(system.coefficients(embeddings))
        weight_sums = system.coefficients(np.ones((len(Y), 1)))[:, 0]
        omega = system.groups.weights
        marginal = omega @ embeddings  # the kernel density estimate: positive everywhere near data
        marginal /= marginal @ output.measure.weights
        layout = layout_of(output.measure, output.kernel.scales)
        return cls(system, output, coefficients, weight_sums, marginal, layout, positivity)

    def node_densities(self, queries: Queries) -> Array:
        """Return normalised, positive densities on the nodes, (Q, M)."""
        section = self.system.section_with_error(queries)
        if section.error > _COARSE_EXPECTATION:
            warnings.warn(
                f"E k(X, x') of an uncertain input has a standard error of {section.error:.1e}: "
                "raise n_points of the GaussianInput.",
                AccuracyWarning,
                stacklevel=2,
            )
        v = self.output.measure.weights
        values: Array = section.values @ self.coefficients
        strength = np.maximum(section.values @ self.weight_sums, 0.0)
        integral = values @ v
        usable = (integral > 0) & (strength > 0)
        values /= np.where(usable, integral, 1.0)[:, None]
        values[~usable] = self.marginal
        values = make_positive(values, v, self.positivity)
        # p = (s p̂ + δ q) / (s + δ): the marginal where no data are near (THEORY, section 3)
        own = strength / (strength + FALLBACK_WEIGHT)
        values *= own[:, None]
        values += (1.0 - own)[:, None] * self.marginal
        return values

    def conditional(self, queries: Queries, *, flat: bool) -> ConditionalDistribution:
        """Return the distributions of the queries; ``flat`` drops the output axis."""
        return ConditionalDistribution(_QuerySource(self, queries), flat=flat)


class _QuerySource:
    """Node masses of queries, computed when asked."""

    def __init__(self, operator: DensityOperator, queries: Queries) -> None:
        self._operator, self._queries = operator, queries
        self.layout = operator.layout
        self.signed = operator.positivity == "signed"

    def __len__(self) -> int:
        return len(self._queries)

    def masses(self, rows: NDArray[np.integer]) -> Array:
        """Return the masses of some queries."""
        densities = self._operator.node_densities(self._queries[rows])
        densities *= self._operator.output.measure.weights
        return densities
