"""The output sides that a search chooses from, and the one that it ends with."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kcdo.arrays import Array
from kcdo.fitting.filters import OutputFamily, scale_per_length
from kcdo.fitting.output_side import default_reference, output_side, planned_nodes, ridge_value
from kcdo.fitting.races import DensityChoice, Fixed, Start, ridge_above, shortest_length
from kcdo.fitting.spec import ModelSpec
from kcdo.kernels import DensityKernel, Gaussian, Kernel, weighted_mean_sd, with_output_sds
from kcdo.linalg import Tikhonov
from kcdo.measures import MAX_NODES, QuasiRandomBox, Sample, Scattered, UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import effective_size

_NODES_PER_LENGTH = 3.4  # final node spacing: a quarter of the bandwidth, 1.18 lengths


@dataclass(frozen=True, eq=False)
class OpenOutputs:
    """The output sides that a spec leaves open, for the outputs of some rows."""

    spec: ModelSpec
    rows: Rows
    floor: Array  # least sd of the output kernel

    @cached_property
    def fixed(self) -> Fixed:
        """The ridges that the user gave, as numbers."""
        spec, rows = self.spec, self.rows
        n, m = effective_size(rows.weights), planned_nodes(spec.reference, rows.Y)
        given = spec.alpha, spec.alpha_prime
        alpha, ridge = (None if r is None else ridge_value(r, None, n, m) for r in given)
        return Fixed(alpha, None if ridge is None else ridge * self.volume)

    def start(self, template: Kernel, kernel: Kernel, shape: Array) -> Start:
        """Return where a search begins; ``shape`` are the relative sds of the outputs."""
        least = shortest_length(self.resolvable / shape, self.fixed.ridge)
        return Start(
            template, kernel, self.family(shape, self.spec.settings.effort.coarse_nodes), least
        )

    def family(self, shape: Array, nodes: dict[int, int]) -> OutputFamily:
        """Return output sides on a grid of at most so many nodes per axis, or on as few points.

        Points have no axes, and every step of a search costs the cube of their number: there are
        d times as many as nodes on a line, rounded up to a power of two.
        """
        spec, rows, d = self.spec, self.rows, self.rows.Y.shape[1]
        n_points = spec.settings.effort.reference_points
        reference = spec.reference or default_reference(rows.Y, rows.weights, shape, 0, n_points)
        if isinstance(reference, UniformBox) and d in nodes:
            fewer = np.minimum(nodes[d] if reference.nodes is None else reference.nodes, nodes[d])
            reference = replace(reference, nodes=fewer.tolist())
        if isinstance(reference, QuasiRandomBox) and nodes:
            most = 1 << (d * max(nodes.values()) - 1).bit_length()
            reference = replace(reference, n_nodes=min(reference.n_nodes, most))
        measure = reference.realise(rows.Y)
        if isinstance(measure, Scattered) and self.volume != 1.0:
            measure = replace(measure, weights=self.volume * measure.weights)
        return OutputFamily(measure, spec.kernel_y or Gaussian(), shape, spec.filter or Tikhonov())

    def above_floor(self, choice: DensityChoice) -> DensityChoice:
        """Return the choice with α' so small that the kernel is not below its floor."""
        given = self.spec.kernel_y is not None and self.spec.kernel_y.fitted
        if given or self.fixed.ridge is not None:
            return choice
        ratio = self.resolvable / choice.shape
        return replace(choice, log_ridge=ridge_above(ratio, choice.log_lengths, choice.log_ridge))

    def final(self, choice: DensityChoice) -> Reconstruction:
        """Return the final output side: nodes as fine as the chosen filter is sharp."""
        spec, rows, d = self.spec, self.rows, self.rows.Y.shape[1]
        family = self.family(choice.shape, {})
        kernel = family.density_kernel(choice.log_lengths, choice.log_ridge).kernel
        reference = spec.reference
        if reference is None and d in MAX_NODES:
            sds = np.sqrt(DensityKernel(kernel, d).covariance().diagonal())
            lower, upper = UniformBox().corners(rows.Y, sds)
            lengths = sds / scale_per_length(float(np.exp(choice.log_ridge)))
            wanted = _NODES_PER_LENGTH * (upper - lower) / lengths
            counts = np.clip(np.ceil(wanted), 32, MAX_NODES[d]).astype(int)
            reference = UniformBox(tuple(lower), tuple(upper), nodes=tuple(counts.tolist()))
        ridge = float(np.exp(choice.log_ridge)) / self.volume
        chosen = replace(spec, kernel_y=kernel, alpha_prime=ridge, reference=reference)
        return output_side(chosen, rows.Y, rows.weights, None)

    @cached_property
    def volume(self) -> float:
        """What the weights of a sample of the user are multiplied by while a search lasts.

        The search takes the reference measure for about Lebesgue's, and α' for a number without a
        unit. A sample of mass 1 is thinner or denser, as the unit of the outputs has it: times
        this volume, a power of two, its mean density is about 1.
        """
        if not isinstance(self.spec.reference, Sample):
            return 1.0
        measure = self.spec.reference.measure
        sds = weighted_mean_sd(measure.nodes, measure.weights)[1]
        sides = 2.0 * np.sqrt(np.pi) * sds[sds > 0]  # of a normal sample
        return float(2.0 ** np.round(np.sum(np.log2(sides)) - np.log2(measure.total)))

    @cached_property
    def resolvable(self) -> Array:
        """Least sds of the output kernel: the floor, and what a grid of the user resolves."""
        reference = self.spec.reference
        if not isinstance(reference, UniformBox) or reference.nodes is None:
            return self.floor
        d = len(self.floor)
        unit = DensityKernel(with_output_sds(self.spec.kernel_y or Gaussian(), np.ones(d)), d)
        return np.maximum(self.floor, 1.001 * reference.realise(self.rows.Y).spacing / unit.scales)
