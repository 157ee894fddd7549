"""The conditional mean operator as a scikit-learn estimator."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kcdo.arrays import Array
from kcdo.components import MeanOperator
from kcdo.embeddings import MeanEmbedding, SampleEmbedding
from kcdo.errors import InvalidInputError
from kcdo.estimators.base import ConditionalEstimator
from kcdo.estimators.parameters import check_ridge, checked_seed
from kcdo.fitting import DEFAULT_ALPHA, ridge_value
from kcdo.kernels import Gaussian, Kernel, as_kernel, with_median_scales
from kcdo.namespaces import in_kind
from kcdo.regularisation import Scheme
from kcdo.systems import ExactRows, Groups


class ConditionalMeanOperator(ConditionalEstimator):
    """The conditional mean embedding: E[g(Y) | x] of any function, without a density.

    Parameters
    ----------
    kernel_x, alpha, n_jobs, random_state
        As for :class:`ConditionalDensityOperator`.
    kernel_y : kernel, optional
        Kernel of the embeddings of Y; Gaussian with median scale by default.

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> x = np.linspace(0, 1, 200)
    >>> cmo = kcdo.ConditionalMeanOperator(kcdo.Gaussian(0.3), alpha=1e-6).fit(x[:, None], x)
    >>> cmo.expect(lambda y: y**2, [[0.5]]).round(2)
    array([0.25])
    """

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Kernel | None = None,
        alpha: float | Scheme | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.alpha = alpha
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (N, p) and outputs y (N,) or (N, d)."""
        check_ridge(self.alpha, "alpha")
        inputs, outputs, weights = self._encode(X, y, sample_weight)
        groups = Groups.of(inputs, weights)
        seed = checked_seed(self.random_state)
        kernel_x = with_median_scales(self._encoder.kernel, groups.points, groups.totals, seed=seed)
        kernel_y = as_kernel(self.kernel_y if self.kernel_y is not None else Gaussian())
        kernel_y = with_median_scales(kernel_y, outputs, groups.weights, seed=seed)
        alpha = ridge_value(self.alpha, DEFAULT_ALPHA, groups.n_effective, len(outputs))
        system = ExactRows(kernel_x, groups, n_jobs=self.n_jobs).factor(alpha)
        self._operator = MeanOperator(system, outputs.copy(), kernel_y)
        return self

    def embedding(self, X: Any) -> list[SampleEmbedding]:
        """Return the embedding of Y given each query: rows of X, or uncertain inputs."""
        return self._operator.embeddings(self._queries(X))

    def sum_rule(self, prior: MeanEmbedding) -> SampleEmbedding:
        """Return the embedding of Y when x has the embedding ``prior`` (in the input kernel)."""
        check_is_fitted(self)
        if prior.kernel != self._operator.system.kernel:
            raise InvalidInputError(
                f"the prior must be embedded with the input kernel {self._operator.system.kernel}."
            )
        return self._operator.sum_rule(prior)

    def expect(self, g: Callable[[Array], ArrayLike], X: Any) -> Array:
        """Return E[g(Y) | x], (Q,) or (Q, k), for g that maps (N,) or (N, d) to (N,) or (N, k)."""
        queries = self._queries(X)
        outputs = self._operator.outputs
        values = np.asarray(g(outputs[:, 0] if self._flat else outputs), dtype=float)
        if values.shape[:1] != outputs.shape[:1] or values.ndim > 2:
            raise InvalidInputError(
                f"g must return one value or row per output; it returned shape {values.shape}."
            )
        system = self._operator.system
        found = system.section(queries) @ system.coefficients(values.reshape(len(values), -1))
        return found[:, 0] if values.ndim == 1 else found

    def predict(self, X: Any) -> Array:
        """Return E[Y | x], (Q,) or (Q, d), as an array of the library of X."""
        return in_kind(self.expect(lambda y: y, X), X)
