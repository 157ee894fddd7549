"""The conditional density operator as a scikit-learn estimator."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import RegressorTags, Tags

from kcdo.distributions import ConditionalDistribution, Positivity
from kcdo.errors import InvalidInputError
from kcdo.estimators.base import (
    ConditionalEstimator,
    check_output_options,
    check_positivity,
    check_ridge,
)
from kcdo.kernels import Kernel
from kcdo.linalg import Filter
from kcdo.measures import Reference
from kcdo.operators import DensityOperator
from kcdo.regularisation import Scheme
from kcdo.selection import RULES, Wishes
from kcdo.systems import DenseSystem, Groups
from kcdo.validation import check_outputs

Array = NDArray[np.floating]


@dataclass(frozen=True)
class FitReport:
    """What a fit chose."""

    method: str
    selection: str
    n_samples: int
    n_inputs: int
    n_nodes: int
    kernel_x: Kernel
    kernel_y: Kernel
    alpha: float
    alpha_prime: float
    filter: Filter
    condition: float

    def __str__(self) -> str:
        return "\n".join(f"{name:12s} {value}" for name, value in vars(self).items())


class ConditionalDensityOperator(ConditionalEstimator):
    """Conditional density estimation by the kernel conditional density operator.

    p̂(·|x') = Σ_j w_j(x') (C_ρ + α')⁻¹ ℓ(y_j, ·),  w(x') = (K + NαI)⁻¹ k(X, x'), in closed form
    (Schuster, Mollenhauer, Klus, Muandet, AISTATS 2020, with the corrections of docs/theory).

    Parameters
    ----------
    kernel_x : kernel, optional
        Input kernel: of kcdo, of scikit-learn, or any function of two arrays. By default Gaussian,
        times :class:`Categorical` on columns of a categorical type. Missing scales are chosen.
    kernel_y : kernel, optional
        Output kernel, a density: Gaussian (default), Laplace, Matern or products of those.
    reference : UniformBox, QuasiRandomBox or Sample, optional
        Reference measure ρ; by default a grid around the outputs (up to 3-D), else the outputs.
    alpha, alpha_prime : float or scheme, optional
        Tikhonov parameters of the input and the output side.
    filter : Filter, optional
        Spectral filter of the output side; :class:`Tikhonov` by default.
    selection : {"heuristic", "paper"}
        How open parameters are chosen: the sound one-factorisation rule, or the paper's.
    positivity : {"project", "clip", "signed"}
        How the signed estimate becomes a density.
    n_jobs : int, optional
        Threads for kernel values; all cores by default.
    random_state : int
        Seed of the subsamples that the choices use for large N.

    Attributes
    ----------
    report_ : FitReport
        What was chosen.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Whole-number sample weights are counts (a weight of 3 equals three rows); of other weights
    only the ratios matter. Rows of weight 0 count as absent.

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 400)
    >>> y = np.sin(x) + 0.2 * rng.standard_normal(400)
    >>> model = kcdo.ConditionalDensityOperator().fit(x[:, None], y)
    >>> dist = model.conditional([[0.0], [1.0]])
    >>> dist.mean().round(1) + 0.0  # the default rule smooths: truth 0 and 0.84
    array([0. , 0.7])
    >>> dist.pdf([0.0, 0.5, 1.0]).shape
    (2, 3)
    """

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Kernel | None = None,
        reference: Reference | None = None,
        alpha: float | Scheme | None = None,
        alpha_prime: float | Scheme | None = None,
        filter: Filter | None = None,
        selection: str = "heuristic",
        positivity: Positivity = "project",
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.reference = reference
        self.alpha = alpha
        self.alpha_prime = alpha_prime
        self.filter = filter
        self.selection = selection
        self.positivity = positivity
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (N, p) and outputs y (N,) or (N, d), arrays or data frames."""
        self._check_parameters()
        groups, outputs, flat = self._encode(X, y, sample_weight)
        wishes = Wishes(
            self._encoder.kernel,
            self.kernel_y,
            self.reference,
            self.alpha,
            self.alpha_prime,
            self.filter,
            self.n_jobs,
            int(self.random_state or 0),
        )
        sides = RULES[self.selection](wishes, groups, outputs)
        self._operator = DensityOperator.fit(sides.system, sides.output, outputs, self.positivity)
        self._flat = flat
        self.report_ = self._report(sides.system, groups)
        return self

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distributions of Y given each query: rows of X, or uncertain inputs."""
        queries = self._queries(X)
        return self._operator.conditional(queries, flat=self._flat)

    def predict(self, X: Any) -> Array:
        """Return the conditional mean, (Q,) or (Q, d)."""
        return self.conditional(X).mean()

    def score_samples(self, X: Any, y: Any = None) -> Array:
        """Return log p(y[i] | X[i]), (N,); without y its expectation, minus the entropy."""
        dist = self.conditional(X)
        return -dist.entropy() if y is None else dist.logpdf_pairs(check_outputs(y, len(dist))[0])

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log density of y given X."""
        return float(
            np.average(
                self.score_samples(X, y),
                weights=np.asarray(sample_weight) if sample_weight is not None else None,
            )
        )

    def _check_parameters(self) -> None:
        if self.selection not in RULES:
            raise InvalidInputError(
                f"selection must be one of {sorted(RULES)}; got {self.selection!r}."
            )
        check_positivity(self.positivity)
        check_ridge(self.alpha, "alpha")
        check_output_options(self.kernel_y, self.reference, self.alpha_prime, self.filter)

    def _report(self, system: DenseSystem, groups: Groups) -> FitReport:
        output = self._operator.output
        return FitReport(
            method=system.method,
            selection=self.selection,
            n_samples=len(groups.member_of),
            n_inputs=system.n_centres,
            n_nodes=output.measure.n_nodes,
            kernel_x=system.kernel,
            kernel_y=output.kernel.kernel,
            alpha=system.alpha,
            alpha_prime=output.ridge,
            filter=output.filter,
            condition=system.factor.condition(),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags(poor_score=True)  # score is a log density, not R²
        return tags
