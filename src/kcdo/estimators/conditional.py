"""The conditional density operator as a scikit-learn estimator."""

import time
import warnings
from dataclasses import replace
from os import PathLike
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kcdo.arrays import Array
from kcdo.components import (
    ChainModelParameters,
    Combination,
    DensityOperator,
    Effort,
    ModelParameters,
    OperatorParameters,
    Settings,
    UnivariateParameters,
)
from kcdo.distributed import engine_for
from kcdo.distributions import Positivity
from kcdo.errors import InvalidInputError, KcdoWarning
from kcdo.estimators.importances import column_importances
from kcdo.estimators.kin import check_kin, kin_of_rows
from kcdo.estimators.parameters import check_chain, check_parameters
from kcdo.estimators.streamed import StreamedDensity
from kcdo.fitting import DEFAULT_ALPHA, RULES, ModelSpec, joint_fit, ridge_value
from kcdo.fitting.stages import JOINT_SHARES, SHARES, pass_shares
from kcdo.kernels import Kernel
from kcdo.linalg import Filter
from kcdo.measures import Reference
from kcdo.memory import memory_told, require_memory
from kcdo.parallel import blas_limit, thread_count
from kcdo.progress import Deadline, Progress
from kcdo.regularisation import Scheme
from kcdo.rows import Kin, Rows
from kcdo.systems import Exact, Groups, Solver, choose_solver, effective_size, may_repeat
from kcdo.transforms import Support

EFFORT = Effort()  # of every fit
_LEAST_MEMORY = 16 << 20  # BLAS ends a process in which it finds no room for its buffers
_LESS = (
    "fit fewer rows, or fewer centres as solver=kcdo.Nystrom(300) has; for several outputs fewer "
    'nodes, as reference=kcdo.UniformBox(nodes=30) has, or joint="chain".'
)


class ConditionalDensityOperator(StreamedDensity):
    """Conditional density estimation by the kernel conditional density operator.

    ``p̂(·|x') = Σ_j w_j(x') (C_ρ + α')⁻¹ ℓ(y_j, ·),  w(x') = (K + NαI)⁻¹ k(X, x')``, in closed form
    (Schuster, Mollenhauer, Klus, Muandet, AISTATS 2020, with the corrections of docs/theory).

    Parameters
    ----------
    kernel_x : kernel or "auto", optional
        Input kernel: of kcdo, of scikit-learn, or any function of two arrays. By default
        :class:`Automatic`, times :class:`Categorical` on columns of a categorical type or of
        texts in data frames. Missing scales are chosen.
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
        input column and a mixture of several components; by the sound one-factorisation rule; or
        by the paper's.
    combination : Combination, optional
        Weights of the components that ``selection="auto"`` mixes; by default all are learnt.
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
    output_transform : {"auto", None}
        How ``selection="auto"`` sees one output: through the map that held-out rows prefer,
        straight or to normal scores, or always straight (None). Of chunks and of the first rows
        of ``partial_fit``, a sample chooses.
    missing : {"raise", "marginalise"}
        What missing numbers of inputs (NaN) do: raise an error; or a query is answered by what is
        there, a mixture over the values of near training rows, and training rows take missing
        values from near rows.
    max_seconds : float, optional
        Time after which ``selection="auto"`` begins no further stage that it can do without: the
        model is the best so far, with a warning, and ``report_.stopped`` names what was left out.
        For rows in memory; chunks and ``partial_fit`` refuse it.
    joint : {"auto", "chain", "grid"}
        How ``selection="auto"`` models several outputs. "chain": each output given the inputs and
        the outputs before it, by a univariate fit, in up to three orders; "grid": one density of
        all outputs, on a grid up to three of them and on weighted points beyond. "auto" takes the
        chain beyond three outputs, and up to three whichever predicts held-out rows better.
        Options of the output side (``kernel_y``, ``reference``, ``alpha_prime``), signed densities
        and inputs that are no columns of numbers are for one density, as is a ``combination`` of
        up to three outputs: "auto" then takes that, and "chain" refuses such options. Chunks and
        ``partial_fit`` always take one density; of fewer than 20 rows "chain" does, and warns.

    Attributes
    ----------
    report_ : FitReport
        What was chosen.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_names_ : tuple of str or None
        Names of the outputs, where y was a frame or series that has them.
    stream_ : StreamFacts
        After a fit of chunks: rows, bytes, passes, seconds, and chunks that had to be done again.

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
        output_transform: str | None = "auto",
        missing: str = "raise",
        max_seconds: float | None = None,
        joint: str = "auto",
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
        self.output_transform = output_transform
        self.missing = missing
        self.max_seconds = max_seconds
        self.joint = joint

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        *,
        client: Any = None,
        rows_at: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit to inputs X (N, p) and outputs y (N,) or (N, d), arrays or data frames.

        Rows that belong together, such as measurements of one patient, predict one another: with
        ``groups`` (N,), labels of any kind, each choice of ``selection="auto"`` is judged by whole
        groups that were left out. With ``time`` (N,), values that can be sorted, later rows are
        predicted by earlier ones. Only one of the two can be given.

        Data larger than memory come as a memory map, or as an object that can be iterated over
        more than once and yields chunks ``(X, y)`` or ``(X, y, weight)``, given in place of X.

        Dask arrays, Dask data frames, and lists of delayed chunks or futures of them are fitted
        where they are: on the cluster of ``client``, by default the current
        ``distributed.Client``, and without one on this machine, chunk by chunk.

        A default fit of chunks keeps no rows. With ``rows_at``, an empty folder that all workers
        share, they are kept there as memory maps, and the rows nearest to each query are a
        component of the model: its predictions need the folder.
        """
        check_parameters(self)
        require_memory(_LEAST_MEMORY, "any fit", "give the process more.")
        self._forget()
        kin = check_kin(groups, time)
        if kin is not None and (self.selection != "auto" or y is None):
            raise InvalidInputError(
                'groups and time are for selection="auto" with X and y at once: other fits choose '
                "nothing by rows that are left out."
            )
        threads = None if self.n_jobs is None else thread_count(self.n_jobs)
        with memory_told(_LESS), blas_limit(threads):
            self._fit(X, y, sample_weight, client, kin, rows_at)
        return self

    def refit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return a new model of other rows with the parameters of this one: nothing is chosen.

        For cross-validation at fixed parameters, and for data that grew a little. Its report has
        the loss, weights and importances of this model, by which the parameters were chosen.
        """
        check_is_fitted(self)
        started = time.perf_counter()
        other = self._without("_plan", "sums_", "stream_", "foretold_")  # of the rows before
        rows = Rows(*other._encode_more(X, y, sample_weight, alone=True)).in_order()
        solver = self._choose_solver(rows.X, rows.weights)
        parameters = self._chosen_parameters()
        model = parameters.fit(rows, self._spec(solver).settings)
        training = model.primary.training
        assert training is not None
        other._parameters = parameters
        other._finish(training.system, model, len(rows), started)
        before = self.report_
        other.report_ = replace(
            other.report_,
            loss=before.loss,
            weights=before.weights,
            importances=before.importances,
        )
        return other

    # --- how a fit comes about

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        client: Any,
        kin: Kin | None,
        rows_at: str | PathLike[str] | None,
    ) -> None:
        started = time.perf_counter()
        passes = pass_shares(self.selection, keeps_rows=rows_at is not None)
        progress = Progress(self.verbose, passes)
        engine = engine_for(X, y, sample_weight, client, n_jobs=self.n_jobs, progress=progress)
        if rows_at is not None and (engine is None or self.selection != "auto"):
            raise InvalidInputError(
                'rows_at= is for chunks, fitted with selection="auto": other fits keep what they '
                "need of the rows in the model."
            )
        if engine is not None:
            self._refuse_a_deadline("a fit to chunks")
            try:
                with blas_limit(1):  # the bits of a solution depend on the threads that share it
                    self._fit_chunks(engine, started, rows_at)
            except BaseException:
                self._forget()  # a fit that fails leaves nothing half-fitted
                raise
            return
        rows = Rows(*self._encode(X, y, sample_weight))
        if kin is not None:
            rows = replace(rows, kin=kin_of_rows(kin, len(y), sample_weight))
        if self.joint == "chain" and rows.Y.shape[1] > 1:
            check_chain(self)
        solver = self._choose_solver(rows.X, rows.weights)
        if self.selection == "auto":
            with blas_limit(1 if len(rows) <= self._effort.one_thread_rows else None):
                self._fit_automatic(rows.in_order(), solver, started)
        elif not solver.every_input:
            self._fit_sums(rows, solver, started)
        else:
            rows = rows.in_order()
            groups = Groups.of(rows.X, rows.weights)
            system, output = RULES[self.selection](self._spec(solver), groups, rows.Y)
            operator = DensityOperator.solved(system, output, rows.Y, self.positivity)
            self._finish(system, operator, len(rows), started)

    def _fit_automatic(self, rows: Rows, solver: Solver, started: float) -> None:
        deadline = Deadline(self.max_seconds)
        shares = SHARES if rows.Y.shape[1] == 1 or self.joint == "grid" else JOINT_SHARES
        progress = Progress(self.verbose, shares, deadline=deadline)
        spec = replace(self._spec(solver), progress=progress)
        fitted = joint_fit(spec, rows, self._choose_solver, self.joint)
        self._finish(fitted.system, fitted.model, len(rows), started)
        self._parameters = fitted.parameters
        names = getattr(self, "feature_names_in_", None)
        importances: dict[str, float] = {}
        if deadline.allows("importances"):
            found = column_importances(
                self._operator, self._transform, rows, self._effort.importance_rows
            )
            names = [str(j) for j in range(len(found))] if names is None else names
            importances = dict(zip(names, found.tolist(), strict=True))
        self.report_ = replace(
            self.report_,
            loss=fitted.loss,
            weights=fitted.parameters.weights,
            importances=importances,
            stopped=tuple(dict.fromkeys(deadline.left_out)),
        )
        if self.report_.stopped:
            warnings.warn(
                f"max_seconds={self.max_seconds:g} were over: the model is the best so far, "
                f"without {', '.join(self.report_.stopped)}.",
                KcdoWarning,
                stacklevel=4,
            )

    def _choose_solver(self, inputs: NDArray, weights: Array) -> Solver:
        """Return the user's solver; for "auto" the one that the number of distinct inputs asks."""
        if self.solver != "auto":
            return self.solver
        if self.selection == "paper":
            return Exact()
        ridge = None
        if self.selection == "heuristic" and self.alpha is None and self._kernel_is_open:
            ridge = ridge_value(None, DEFAULT_ALPHA, effective_size(weights), 0)
        repeats = may_repeat(inputs, self._seed())
        return choose_solver(len(Groups.of(inputs).points) if repeats else len(inputs), ridge)

    @property
    def _effort(self) -> Effort:
        """How much work a fit may do."""
        return EFFORT

    def _spec(self, solver: Solver) -> ModelSpec:
        """Return what the user fixed, as the functions that fit take it."""
        return ModelSpec(
            self._encoder.kernel,
            self.kernel_y,
            self.reference,
            self.alpha,
            self.alpha_prime,
            self.filter,
            self.combination or Combination(),
            Settings(
                solver,
                self.positivity,
                self.n_jobs,
                self._seed(),
                self._effort,
                self.solver == "auto",
            ),
            Progress(self.verbose, SHARES),
            transforms=self.output_transform == "auto",
        )

    def _chosen_parameters(self) -> ModelParameters | UnivariateParameters | ChainModelParameters:
        """Return the parameters of the fit; of sums and rules those of the plain density."""
        if hasattr(self, "_parameters"):
            return self._parameters
        operator = self._operator.primary
        plain = OperatorParameters(operator.system.kernel, self.report_.alpha, operator.output)
        return ModelParameters((plain,), {"plain": 1.0})
