"""The conditional density operator as a scikit-learn estimator."""

import time
from copy import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import RegressorTags, Tags
from sklearn.utils.validation import check_is_fitted

from kcdo.arrays import Array
from kcdo.automatic import Chosen, Side, automatic_fit, fit_chosen
from kcdo.combination import Combination, CombinedOperator
from kcdo.distributions import ConditionalDistribution, Positivity
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.estimators.base import (
    check_output_options,
    check_positivity,
    check_ridge,
    checked_seed,
)
from kcdo.estimators.report import FitReport
from kcdo.estimators.streamed import StreamedFits
from kcdo.kernels import Kernel
from kcdo.linalg import Filter
from kcdo.measures import Reference
from kcdo.operators import DensityOperator, condition
from kcdo.parallel import blas_limit, thread_count
from kcdo.progress import Progress
from kcdo.regularisation import Scheme
from kcdo.reports import write_report
from kcdo.selection import DEFAULT_ALPHA, RULES, Wishes, ridge_value
from kcdo.systems import (
    Exact,
    Groups,
    Iterative,
    Nystrom,
    Solver,
    System,
    automatic,
    effective_size,
    may_repeat,
)
from kcdo.transforms import Columns, Support, strictly_inside, transform_for
from kcdo.tuning import Rows
from kcdo.validation import check_outputs, is_chunks

SELECTIONS = ("auto", *RULES)


class ConditionalDensityOperator(StreamedFits):
    """Conditional density estimation by the kernel conditional density operator.

    ``p̂(·|x') = Σ_j w_j(x') (C_ρ + α')⁻¹ ℓ(y_j, ·),  w(x') = (K + NαI)⁻¹ k(X, x')``, in closed form
    (Schuster, Mollenhauer, Klus, Muandet, AISTATS 2020, with the corrections of docs/theory).

    Parameters
    ----------
    kernel_x : kernel or "auto", optional
        Input kernel: of kcdo, of scikit-learn, or any function of two arrays. By default
        :class:`Automatic`, times :class:`Categorical` on columns of a categorical type. Missing
        scales are chosen.
    kernel_y : kernel, optional
        Output kernel, a density: Gaussian (default), Laplace, Matern or products of those.
    reference : UniformBox, QuasiRandomBox or Sample, optional
        Reference measure ρ; by default a grid around the outputs, beyond three dimensions
        importance-weighted points near them.
    alpha, alpha_prime : float or scheme, optional
        Tikhonov parameters of the input and the output side.
    filter : Filter, optional
        Spectral filter of the output side; :class:`Tikhonov` by default.
    selection : {"auto", "heuristic", "paper"}
        How open parameters are chosen: by held-out losses in closed form, with scales for every
        input column and a combination of several forms; by the sound one-factorisation rule; or
        by the paper's.
    combination : Combination, optional
        Weights of the forms that ``selection="auto"`` combines; by default all are learnt.
    support : (lower, upper), or one such pair per output, optional
        Bounds that outputs cannot cross (None for an open side), such as ``(0, None)``: no mass
        is put outside.
    positivity : {"project", "clip", "signed"}
        How the signed estimate becomes a density.
    solver : "auto", Exact, Nystrom or Iterative
        How the input side is solved; ``"auto"`` chooses from the number of distinct inputs and the
        memory there is, and ``report_`` says what.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int
        Seed of the subsamples that the choices use for large N.
    verbose : bool
        Show the progress of long fits on standard error.

    Attributes
    ----------
    report_ : FitReport
        What was chosen.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_names_ : tuple of str or None
        Names of the outputs, where y was a frame or series that has them.

    Notes
    -----
    Whole-number sample weights are counts (a weight of 3 equals three rows); of other weights
    only the ratios matter. Rows of weight 0 count as absent. ``selection="auto"`` takes all
    weights by their ratios: a row that counts three times is held out as a whole.

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 150)
    >>> y = np.sin(x) + 0.2 * rng.standard_normal(150)
    >>> model = kcdo.ConditionalDensityOperator().fit(x[:, None], y)
    >>> dist = model.conditional([[0.0], [1.0]])
    >>> dist.mean().round(1) + 0.0  # truth: 0 and 0.84
    array([0. , 0.8])
    >>> dist.pdf([0.0, 0.5, 1.0]).shape
    (2, 3)
    """

    report_: FitReport
    _operator: DensityOperator | CombinedOperator
    _transform: Columns | None

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Kernel | None = None,
        reference: Reference | None = None,
        alpha: float | Scheme | None = None,
        alpha_prime: float | Scheme | None = None,
        filter: Filter | None = None,
        selection: str = "auto",
        combination: Combination | None = None,
        support: Support | None = None,
        positivity: Positivity = "project",
        solver: Any = "auto",
        n_jobs: int | None = None,
        random_state: int = 0,
        verbose: bool | int = False,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.reference = reference
        self.alpha = alpha
        self.alpha_prime = alpha_prime
        self.filter = filter
        self.selection = selection
        self.combination = combination
        self.support = support
        self.positivity = positivity
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to inputs X (N, p) and outputs y (N,) or (N, d), arrays or data frames.

        Data larger than memory come as a memory map, or as an object that can be iterated over
        more than once and yields chunks ``(X, y)`` or ``(X, y, weight)``, given in place of X.
        """
        self._check_parameters()
        self._forget()
        with blas_limit(None if self.n_jobs is None else thread_count(self.n_jobs)):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        started = time.perf_counter()
        if y is None and is_chunks(X):
            if sample_weight is not None:
                raise InvalidInputError(
                    "weights of chunks come with them, as (X, y, weight); got sample_weight."
                )
            self._fit_chunks(X, started)
            return
        inputs, outputs, weights = self._encode(X, y, sample_weight)
        groups, solver = self._choose_solver(inputs, weights)
        if self.selection == "auto":
            self._fit_automatic(Rows(inputs, outputs, weights), solver, started)
        elif isinstance(solver, Nystrom):
            self._fit_arrays_streamed((inputs, outputs, weights), solver, started)
        else:
            self._fit_exact(groups or Groups.of(inputs, weights), outputs, solver, started)

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distributions of Y given each query: rows of X, or uncertain inputs."""
        queries = self._queries(X)
        dist = condition(self._operator, queries, flat=self._flat, transform=self._transform)
        return dist.labelled(self._labels(X))

    def refit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return a new model of other rows with the parameters of this one: nothing is chosen.

        For cross-validation at fixed parameters, and for data that grew a little.
        """
        check_is_fitted(self)
        rows = Rows(*self._encode_more(X, y, sample_weight))
        solver = self._choose_solver(rows.X, rows.weights)[1]
        other = copy(self)
        for name in ("_plan", "sums_"):  # they are of the rows before
            other.__dict__.pop(name, None)
        other._chosen = self._all_chosen()
        other._operator = fit_chosen(other._chosen, self._wishes(), rows, solver, self.positivity)
        other.report_ = replace(self.report_, n_samples=len(rows))
        return other

    def _all_chosen(self) -> Chosen:
        if hasattr(self, "_chosen"):
            return self._chosen
        operator = self._operator
        assert isinstance(operator, DensityOperator)
        side = Side(operator.system.kernel, self.report_.alpha, operator.output)
        return Chosen(side, None, None, {"plain": 1.0}, np.zeros(self._n_outputs))

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

    def report(self, path: str | PathLike[str], X: Any, y: Any = None, **options: Any) -> Path:
        """Write one HTML file to explore the model, see :func:`kcdo.reports.write_report`."""
        return write_report(self, path, X, y, **options)

    def _check_parameters(self) -> None:
        if self.selection not in SELECTIONS:
            raise InvalidInputError(
                f"selection must be one of {sorted(SELECTIONS)}; got {self.selection!r}."
            )
        if self.solver != "auto" and not isinstance(self.solver, Solver):
            raise InvalidTypeError(
                'solver must be "auto", kcdo.Exact(), kcdo.Nystrom() or kcdo.Iterative(); got '
                f"{self.solver!r}."
            )
        if self.combination is not None and not isinstance(self.combination, Combination):
            raise InvalidTypeError(f"combination must be a Combination; got {self.combination!r}.")
        check_positivity(self.positivity)
        check_ridge(self.alpha, "alpha")
        check_output_options(self.kernel_y, self.reference, self.alpha_prime, self.filter)
        thread_count(self.n_jobs)
        checked_seed(self.random_state)

    def _seed(self) -> int:
        return checked_seed(self.random_state)

    def _wishes(self, solver: Exact | Iterative | None = None) -> Wishes:
        return Wishes(
            self._encoder.kernel,
            self.kernel_y,
            self.reference,
            self.alpha,
            self.alpha_prime,
            self.filter,
            self.n_jobs,
            self._seed(),
            solver or Exact(),
            Progress(self.verbose),
        )

    def _choose_solver(self, inputs: NDArray, weights: Array) -> tuple[Groups | None, Solver]:
        """Return the solver, and the groups of equal inputs where they had to be found for it."""
        if self.solver != "auto":
            return None, self.solver
        ridge = None
        kernel_is_open = self.kernel_x is None or isinstance(self.kernel_x, str)
        if self.selection == "heuristic" and self.alpha is None and kernel_is_open:
            ridge = ridge_value(None, DEFAULT_ALPHA, effective_size(weights), 0)
        if self.selection == "paper" or may_repeat(inputs, self._seed()):
            groups = Groups.of(inputs, weights)
            chosen = automatic(len(groups.points), ridge)
            return groups, Exact() if self.selection == "paper" else chosen
        return None, automatic(len(inputs), ridge)

    def _fit_exact(
        self, groups: Groups, outputs: Array, solver: Exact | Iterative, started: float
    ) -> None:
        sides = RULES[self.selection](self._wishes(solver), groups, outputs)
        operator = DensityOperator.exact(sides.system, sides.output, outputs, self.positivity)
        self._finish(sides.system, operator, len(outputs), started)

    def _fit_automatic(self, rows: Rows, solver: Solver, started: float) -> None:
        wishes = self._wishes(solver if not isinstance(solver, Nystrom) else None)
        combination = self.combination or Combination()
        fitted = automatic_fit(wishes, rows, solver, combination, self.positivity)
        self._finish(fitted.system, fitted.operator, len(rows), started)
        self._chosen = fitted.chosen
        names = getattr(self, "feature_names_in_", None)
        names = [str(j) for j in range(len(fitted.importances))] if names is None else names
        self.report_ = replace(
            self.report_,
            loss=fitted.loss,
            weights=fitted.operator.weights,
            importances=dict(zip(names, fitted.importances.tolist(), strict=True)),
        )

    def _checked(
        self, X: Any, Y: Any, sample_weight: Any, least: int
    ) -> tuple[NDArray, Array, Array]:
        inputs, outputs, weights = super()._checked(X, Y, sample_weight, least)
        self._transform = None if self.support is None else transform_for(self.support, outputs)
        return inputs, self._on_the_line(outputs), weights

    def _encode_more(
        self, X: Any, Y: Any, sample_weight: Any, *, learn: bool = False
    ) -> tuple[NDArray, Array, Array]:
        inputs, outputs, weights = super()._encode_more(X, Y, sample_weight, learn=learn)
        return inputs, self._on_the_line(outputs), weights

    def _on_the_line(self, outputs: Array) -> Array:
        """Return outputs without bounds, where some were declared."""
        if self._transform is None:
            return outputs
        return self._transform.forward(strictly_inside(self._transform, outputs))

    def _finish(
        self,
        system: System,
        operator: DensityOperator | CombinedOperator,
        n_samples: int,
        started: float,
    ) -> None:
        plan = getattr(self, "_plan", None)
        self.report_ = FitReport.of(
            system,
            operator.plain if isinstance(operator, CombinedOperator) else operator,
            self.selection,
            n_samples,
            time.perf_counter() - started,
            None if plan is None else plan.bins,
            operator.nbytes,
        )
        self._operator = operator

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags(poor_score=True)  # score is a log density, not R²
        return tags
