"""The conditional density operator as a scikit-learn estimator."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import RegressorTags, Tags
from sklearn.utils.validation import check_is_fitted

from kcdo.arrays import Array
from kcdo.components import (
    Chain,
    ChainModel,
    ChainModelParameters,
    Combination,
    DensityOperator,
    Effort,
    Mixture,
    ModelParameters,
    OperatorParameters,
    Settings,
    Univariate,
    UnivariateParameters,
    condition,
    link_rows,
    unconditional,
)
from kcdo.consistency import kernel_fits, need, shape
from kcdo.distributed import (
    Draw,
    Engine,
    FindNear,
    KeepRows,
    Look,
    Overview,
    StreamFacts,
    Sum,
    engine_for,
    is_dask,
    lazily,
    pilot_of,
)
from kcdo.distributions import ConditionalDistribution, Positivity
from kcdo.errors import InvalidInputError, InvalidTypeError, KcdoWarning
from kcdo.estimators.base import (
    ConditionalEstimator,
    check_output_options,
    check_positivity,
    check_ridge,
    check_seconds,
    checked_seed,
)
from kcdo.estimators.chunks import ChunkReader, learn_categories, learn_columns, unbounded
from kcdo.estimators.kin import check_kin, kin_of_rows
from kcdo.estimators.report import FitReport
from kcdo.fitting import (
    DEFAULT_ALPHA,
    ONLY_PLAIN,
    RULES,
    Chunk,
    Learnt,
    LocalLearning,
    Located,
    LocationPlan,
    ModelSpec,
    Pilot,
    PilotChoice,
    ResidualPlan,
    StreamedMixture,
    StreamPlan,
    best_plain,
    joint_fit,
    pilot_choice,
    pilot_size,
    ridge_value,
    same_plan,
    stream,
    warn_outside,
)
from kcdo.fitting.stages import SHARES
from kcdo.frames import Labels
from kcdo.kernels import Kernel
from kcdo.linalg import Filter
from kcdo.measures import Reference
from kcdo.metrics.importance import shuffled_divergences, shuffled_importances
from kcdo.missing import MISSING
from kcdo.namespaces import in_kind
from kcdo.parallel import blas_limit, thread_count
from kcdo.progress import Deadline, Progress
from kcdo.regularisation import Scheme
from kcdo.reports import write_report
from kcdo.rows import Kin, Rows
from kcdo.systems import (
    Exact,
    Groups,
    Iterative,
    KeptRows,
    Nystrom,
    NystromSums,
    Queries,
    Solver,
    System,
    choose_solver,
    effective_size,
    may_repeat,
)
from kcdo.transforms import Columns, Support, strictly_inside, transform_for
from kcdo.validation import check_outputs, warn_few_values

SELECTIONS = ("auto", *RULES)
JOINT_FORMS = ("auto", "chain", "grid")
EFFORT = Effort()  # of every fit
_SAMPLE_ROWS = 2000  # inputs that a streamed fit shows of its rows


class ConditionalDensityOperator(ConditionalEstimator):
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
        straight or to normal scores, or always straight (None).
    missing : {"raise", "marginalise"}
        What missing numbers of inputs (NaN) do: raise an error; or a query is answered by what is
        there, a mixture over the values of near training rows, and training rows take missing
        values from near rows.
    max_seconds : float, optional
        Time after which ``selection="auto"`` begins no further stage that it can do without: the
        model is the best so far, with a warning, and ``report_.stopped`` names what was left out.
    joint : {"auto", "chain", "grid"}
        How ``selection="auto"`` models several outputs. "chain": each output given the inputs and
        the outputs before it, by a univariate fit, in up to three orders; "grid": one density of
        all outputs, on a grid up to three of them and on weighted points beyond. "auto" takes the
        chain beyond three outputs, and up to three whichever foretells held-out rows better.
        Options of the output side (``kernel_y``, ``reference``, ``alpha_prime``), signed densities
        and inputs that are no columns of numbers are for one density, as is a ``combination`` of
        up to three outputs: "auto" then takes that.

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

    report_: FitReport
    stream_: StreamFacts
    sums_: NystromSums
    _operator: DensityOperator | Mixture | Univariate | ChainModel
    _parameters: ModelParameters | UnivariateParameters | ChainModelParameters
    _plan: StreamPlan
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

        Rows that belong together, such as measurements of one patient, foretell one another: with
        ``groups`` (N,), labels of any kind, each choice of ``selection="auto"`` is judged by whole
        groups that were left out. With ``time`` (N,), values that can be sorted, later rows are
        foretold by earlier ones. Only one of the two can be given.

        Data larger than memory come as a memory map, or as an object that can be iterated over
        more than once and yields chunks ``(X, y)`` or ``(X, y, weight)``, given in place of X.

        Dask arrays, Dask data frames, and lists of delayed chunks or futures of them are fitted
        where they are: on the cluster of ``client``, by default the current
        ``distributed.Client``, and without one on this machine, chunk by chunk.

        A default fit of chunks keeps no rows. With ``rows_at``, an empty folder that all workers
        share, they are kept there as memory maps, and the rows nearest to each query are a
        component of the model: its predictions need the folder.
        """
        self._check_parameters()
        self._forget()
        kin = check_kin(groups, time)
        if kin is not None and (self.selection != "auto" or y is None):
            raise InvalidInputError(
                'groups and time are for selection="auto" with X and y at once: other fits choose '
                "nothing by rows that are left out."
            )
        with blas_limit(None if self.n_jobs is None else thread_count(self.n_jobs)):
            self._fit(X, y, sample_weight, client, kin, rows_at)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to the fit; the first call fixes centres, box, scaling and kernels.

        The sums are those of one :meth:`fit` by the same centres; the model is solved anew.
        """
        self._check_parameters()
        options = self._stream_options()
        started = time.perf_counter()
        if hasattr(self, "_plan"):
            chunk = self._encode_more(X, y, sample_weight)
            plan, before = self._plan, self.sums_
            warn_outside(plan.output.measure, chunk[1])
            plan.warn_far(chunk[0])
        else:
            if hasattr(self, "_operator"):
                warnings.warn(
                    "partial_fit starts anew: the fit before it kept no sums. Begin with "
                    'partial_fit, or fit with solver=kcdo.Nystrom() and selection="heuristic".',
                    KcdoWarning,
                    stacklevel=2,
                )
            chunk = self._encode(X, y, sample_weight)
            size = pilot_size(options, len(chunk[0]))
            plan = self._stream_plan(Pilot.of_chunks(iter([chunk]), size, self._seed()), options)
            before = plan.empty_sums()
        sums = plan.empty_sums()  # its own: an interrupted call leaves no half of its rows behind
        plan.add(sums, chunk)
        self._solve_sums(plan, before.merged(sums), started)
        return self

    def merge(self, *others: "ConditionalDensityOperator") -> Self:
        """Add the sums of models made by :meth:`worker`, which saw other rows in partial_fit."""
        self._need_sums()
        started = time.perf_counter()
        sums = self.sums_
        for other in others:
            if getattr(other, "_plan", None) is None or not same_plan(self._plan, other._plan):
                raise InvalidInputError(
                    "merge takes models made by worker(): they must share centres, kernels and "
                    "output grid."
                )
            sums = sums.merged(other.sums_)
        self._solve_sums(self._plan, sums, started)
        return self

    def worker(self) -> Self:
        """Return a model with the same centres, kernels and grid, and no data yet."""
        self._need_sums()
        other = self._without("_operator", "_parameters", "report_", "stream_")
        other._plan, other.sums_ = self._plan, self._plan.empty_sums()
        return other

    def refit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Return a new model of other rows with the parameters of this one: nothing is chosen.

        For cross-validation at fixed parameters, and for data that grew a little.
        """
        check_is_fitted(self)
        started = time.perf_counter()
        rows = Rows(*self._encode_more(X, y, sample_weight)).in_order()
        solver = self._choose_solver(rows.X, rows.weights)
        parameters = self._chosen_parameters()
        model = parameters.fit(rows, self._spec(solver).settings)
        training = model.primary.training
        assert training is not None
        other = self._without("_plan", "sums_", "stream_")  # they are of the rows before
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

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distributions of Y given each query: rows of X, or uncertain inputs."""
        if is_dask(X):
            raise InvalidTypeError(
                "conditional takes rows that are at hand; of Dask collections take predict, "
                "summary or score_samples, or map_partitions with model.conditional."
            )
        return self._given(self._queries(X)).labelled(self._labels(X))

    def marginal(self) -> ConditionalDistribution:
        """Return p(y) of the training rows, whatever the inputs, as the distribution of one query.

        It is what a model that ignores the inputs predicts, with the output side of this one.
        """
        check_is_fitted(self)
        dist = unconditional(self._operator, flat=self._flat, transform=self._transform)
        return dist.labelled(Labels(self._encoder.library, outputs=self.target_names_))

    def _given(self, queries: Queries) -> ConditionalDistribution:
        """Return the distributions of encoded queries."""
        return condition(self._operator, queries, flat=self._flat, transform=self._transform)

    def predict(self, X: Any) -> Any:
        """Return the conditional mean, (Q,) or (Q, d), as an array of the library of X."""
        if is_dask(X):
            width = None if self.flat else self.n_outputs
            return lazily().lazy_values(self._without_sums(), "predict", X, width=width)
        return in_kind(self.conditional(X).mean(), X)

    def summary(self, X: Any, columns: Sequence[str], y: Any = None) -> Any:
        """Return a table of such columns as mean, sd, q05, mode; logpdf needs y.

        The table is a frame of the library of X, pandas for arrays, and a Dask data frame if X is
        one: see :meth:`ConditionalDistribution.to_frame`.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazily().lazy_frame(self._without_sums(), X, columns, y)
        return self.conditional(X).to_frame(columns, y)

    def score_samples(self, X: Any, y: Any = None) -> Any:
        """Return log p(y[i] | X[i]), (N,); without y its expectation, minus the entropy.

        Of Dask collections they are a Dask array.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazily().lazy_values(self._without_sums(), "score_samples", X, y)
        dist = self.conditional(X)
        return -dist.entropy() if y is None else dist.logpdf_pairs(check_outputs(y, len(dist))[0])

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log density of y given X."""
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(self.score_samples(X, y), weights=weights))

    def report(self, path: str | PathLike[str], X: Any, y: Any = None, **options: Any) -> Path:
        """Write one HTML file to explore the model, see :func:`kcdo.reports.write_report`."""
        return write_report(self, path, X, y, **options)

    # --- how a fit comes about

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        client: Any,
        kin: Kin | None = None,
        rows_at: str | PathLike[str] | None = None,
    ) -> None:
        started = time.perf_counter()
        engine = engine_for(
            X, y, sample_weight, client, n_jobs=self.n_jobs, progress=Progress(self.verbose)
        )
        if rows_at is not None and (engine is None or self.selection != "auto"):
            raise InvalidInputError(
                'rows_at= is for chunks, fitted with selection="auto": other fits keep what they '
                "need of the rows in the model."
            )
        if engine is not None:
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
        solver = self._choose_solver(rows.X, rows.weights)
        if self.selection == "auto":
            self._fit_automatic(rows.in_order(), solver, started)
        elif isinstance(solver, Nystrom):
            self._stream_options()  # or an error says why not
            data = rows.X, rows.Y, rows.weights
            pilot = Pilot.of_arrays(data, pilot_size(solver, len(rows)), self._seed())
            self._stream(pilot, iter([data]), solver, started)
        else:
            rows = rows.in_order()
            groups = Groups.of(rows.X, rows.weights)
            system, output = RULES[self.selection](self._spec(solver), groups, rows.Y)
            operator = DensityOperator.solved(system, output, rows.Y, self.positivity)
            self._finish(system, operator, len(rows), started)

    def _fit_automatic(self, rows: Rows, solver: Solver, started: float) -> None:
        deadline = Deadline(self.max_seconds)
        plain = self._spec(solver)
        spec = replace(plain, progress=replace(plain.progress, deadline=deadline))
        fitted = joint_fit(spec, rows, self._choose_solver, self.joint)
        self._finish(fitted.system, fitted.model, len(rows), started)
        self._parameters = fitted.parameters
        names = getattr(self, "feature_names_in_", None)
        importances: dict[str, float] = {}
        if deadline.allows("importances"):
            found = self._importances(rows)
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

    def _importances(self, rows: Rows) -> Array:
        """Return how much each column of the training rows matters."""
        if rows.X.dtype == object:  # anything that a kernel compares: no columns to shuffle
            return np.ones(1)
        if isinstance(self._operator, ChainModel):
            return self._link_importances(self._operator.chains[0], rows)
        return shuffled_importances(self._given, rows.X, EFFORT.importance_rows)

    def _link_importances(self, chain: Chain, rows: Rows) -> Array:
        """Return the importances of a chain: the divergence of joint densities is that of links."""
        p = rows.X.shape[1]
        found = np.zeros(p)
        for j, link in enumerate(chain.links):
            inputs = link_rows(rows, chain.order, j).X
            given = partial(condition, link, flat=True)
            found += shuffled_divergences(
                given, inputs, n_rows=EFFORT.importance_rows, shuffled_columns=range(p)
            )
        return 1.0 - np.exp(-found / len(chain.links))

    def _fit_chunks(
        self, engine: Engine, started: float, rows_at: str | PathLike[str] | None = None
    ) -> None:
        """Fit to chunks wherever they are: look at all, draw a sample, plan, add up, solve."""
        if self.missing == "marginalise":
            raise InvalidInputError(
                'missing="marginalise" takes missing values from near rows, and chunks do not see '
                "those of others: fit all rows at once, or use partial_fit."
            )
        options = self._stream_options()
        learn_columns(self, engine)
        overview = engine.total(Look(ChunkReader(self)), Overview.plus, "looking at the chunks")
        engine.facts.rows, engine.facts.nbytes = overview.n_rows, overview.nbytes
        if overview.n_rows < 2:
            raise InvalidInputError(
                f"Found {overview.n_rows} sample(s) in the chunks; 2 are required."
            )
        learn_categories(self, overview)
        size = pilot_size(options, overview.n_rows)
        draw = Draw(ChunkReader(self), tuple(overview.starts), size, self._seed())
        drawn = engine.total(draw, draw.add, "sample of the rows")
        pilot = unbounded(self, pilot_of(drawn, overview))
        engine.facts.sample = pilot.rows(_SAMPLE_ROWS).X
        if self.selection == "auto":
            choice = pilot_choice(self._spec(Exact()), pilot.rows(_SAMPLE_ROWS))
        else:
            choice = PilotChoice(self._spec(Exact()))
        plan = StreamPlan.of(choice.spec, options, pilot, judge_alpha=self.selection == "auto")
        if choice.located is None:
            (sums,) = self._summed(engine, overview, plan)
            self._solve_sums(plan, sums, started)
        else:
            learnt = self._learnt(engine, LocalLearning(choice, pilot, options))
            with self._kept(engine, overview, learnt, rows_at) as kept:
                self._fit_mixture(engine, overview, pilot, plan, choice, options, learnt, kept)
        if rows_at is not None and not engine.facts.kept_nbytes:
            warnings.warn(
                "rows_at was not used: near rows are a component where there are more rows than "
                "the sample has, inputs have a metric and do not come back, and Combination "
                "leaves a weight for them.",
                KcdoWarning,
                stacklevel=4,
            )
        self.report_ = replace(self.report_, seconds=time.perf_counter() - started)
        self.stream_ = engine.facts

    def _fit_mixture(
        self,
        engine: Engine,
        overview: Overview,
        pilot: Pilot,
        plain: StreamPlan,
        choice: PilotChoice,
        options: Nystrom,
        learnt: Learnt | None,
        kept: KeptRows | None,
    ) -> None:
        """Add up the plain density and the location, then the residuals, and weigh them."""
        started, spec, chosen = time.perf_counter(), plain.spec, choice.located
        assert chosen is not None
        parameters, plains = [chosen.location], [plain]
        if learnt is not None and learnt.new:  # all rows say which metric serves better
            parameters.append(learnt.metric.location)
            other = replace(spec, kernel_x=learnt.metric.kernel)
            plains.append(StreamPlan.of(other, options, pilot, judge_alpha=True))
        locations = [LocationPlan.of(each, options, pilot, spec) for each in parameters]
        found = self._summed(engine, overview, *plains, *locations)
        plain, sums = best_plain(plains, found[: len(plains)])
        several = zip(locations, found[len(plains) :], parameters, strict=True)
        tried = [
            Located.of(plan, its_sums, replace(chosen, location=each), pilot, spec)
            for plan, its_sums, each in several
        ]
        located = min(tried, key=lambda each: each.loss)
        if learnt is not None and located is not tried[0]:
            located, chosen = located.with_scale(choice, learnt.metric)
        residual = ResidualPlan.of(chosen.residual, located, options, pilot, spec)
        (residual_sums,) = self._summed(engine, overview, residual)
        near = None if learnt is None or kept is None else (learnt, kept)
        fitted = StreamedMixture.of(plain, sums, located, residual, residual_sums, near)
        self._plan, self.sums_ = plain, sums
        self._finish(fitted.system, fitted.model, sums.n_rows, started)
        self._parameters = fitted.parameters
        self.report_ = replace(self.report_, weights=fitted.parameters.weights)

    def _learnt(self, engine: Engine, learning: LocalLearning) -> Learnt | None:
        """Return scales learnt from near rows among all rows; None where those of the sample do."""
        judges, reader = learning.judges(), ChunkReader(self)
        if judges is None:
            return None
        find = FindNear(reader, judges)
        metric = learning.first(judges, engine.total(find, find.add, "near rows"))
        judges = learning.again(metric)
        find = FindNear(reader, judges)
        return learning.last(metric, judges, engine.total(find, find.add, "near rows again"))

    @contextmanager
    def _kept(
        self,
        engine: Engine,
        overview: Overview,
        learnt: Learnt | None,
        rows_at: str | PathLike[str] | None,
    ) -> Iterator[KeptRows | None]:
        """Keep all rows in a folder; a fit that fails deletes them again."""
        wanted = (self.combination or Combination()).wants("nearest")
        if learnt is None or rows_at is None or not wanted:
            yield None
            return
        kept = learnt.kept(str(Path(rows_at).absolute()))
        kept.create()
        facts = engine.facts
        facts.kept_nbytes, facts.index_nbytes = kept.nbytes, kept.index_nbytes
        sizes = f"{kept.nbytes / 1e6:.0f} MB, index of at most {kept.index_nbytes / 1e6:.0f} MB"
        try:
            kernel = learnt.metric.kernel
            keep = KeepRows(ChunkReader(self), tuple(overview.starts), kept, kernel)
            yield kept.written(engine.total(keep, keep.add, f"keeping rows, {sizes}"))
        except BaseException:
            kept.remove()
            raise

    def _summed(self, engine: Engine, overview: Overview, *plans: Any) -> tuple[NystromSums, ...]:
        """Return the sums of plans over all rows."""
        centres = max(plan.empty_sums().cross.shape[0] for plan in plans)
        stage = f"Nyström, {centres} centres, {overview.n_rows} rows"
        found: tuple[NystromSums, ...] = engine.total(
            Sum.of(ChunkReader(self), *plans), Sum.add, stage
        )
        if found[0].n_rows != overview.n_rows:
            raise InvalidInputError(
                f"the chunks had {overview.n_rows} rows when they were first read, and "
                f"{found[0].n_rows} later: they must stay as they are during a fit."
            )
        return found

    def _stream(
        self, pilot: Pilot, chunks: Iterator[Chunk], options: Nystrom, started: float
    ) -> None:
        plan = self._stream_plan(pilot, options)
        sums = stream(plan, chunks, pilot.n_rows, Progress(self.verbose))
        self._solve_sums(plan, sums, started)

    def _stream_plan(self, pilot: Pilot, options: Nystrom) -> StreamPlan:
        """Return the plan of a fit that keeps sums: those of location and scale do not merge."""
        spec, automatic = self._spec(Exact()), self.selection == "auto"
        if automatic:
            plain = replace(spec, combination=ONLY_PLAIN)
            spec = pilot_choice(plain, pilot.rows(_SAMPLE_ROWS)).spec
        return StreamPlan.of(spec, options, pilot, judge_alpha=automatic)

    def _solve_sums(self, plan: StreamPlan, sums: NystromSums, started: float) -> None:
        system = plan.system(sums)
        operator = plan.operator(system, sums)
        self._plan, self.sums_ = plan, sums
        self.__dict__.pop("_parameters", None)  # of a mixture, whose other components do not merge
        self._finish(system, operator, sums.n_rows, started)

    def _stream_options(self) -> Nystrom:
        if self.selection == "paper":
            raise InvalidInputError(
                'selection="paper" has no streamed form: it needs as many nodes as rows. Use '
                'selection="heuristic".'
            )
        if isinstance(self.solver, Exact | Iterative):
            raise InvalidInputError(
                f"{type(self.solver).__name__}() needs all rows at once, its sums do not merge: "
                "use solver=kcdo.Nystrom() for partial_fit, merge and chunks."
            )
        return self.solver if isinstance(self.solver, Nystrom) else Nystrom()

    def _need_sums(self) -> None:
        if not hasattr(self, "_plan"):
            check_is_fitted(self)
            raise InvalidInputError(
                "this model keeps no sums to merge: fit with solver=kcdo.Nystrom() and "
                'selection="heuristic", or by partial_fit.'
            )

    def _choose_solver(self, inputs: NDArray, weights: Array) -> Solver:
        if self.solver != "auto":
            return self.solver
        if self.selection == "paper":
            return Exact()
        ridge = None
        kernel_is_open = self.kernel_x is None or isinstance(self.kernel_x, str)
        if self.selection == "heuristic" and self.alpha is None and kernel_is_open:
            ridge = ridge_value(None, DEFAULT_ALPHA, effective_size(weights), 0)
        repeats = may_repeat(inputs, self._seed())
        return choose_solver(len(Groups.of(inputs).points) if repeats else len(inputs), ridge)

    def _spec(self, solver: Solver) -> ModelSpec:
        return ModelSpec(
            self._encoder.kernel,
            self.kernel_y,
            self.reference,
            self.alpha,
            self.alpha_prime,
            self.filter,
            self.combination or Combination(),
            Settings(
                solver, self.positivity, self.n_jobs, self._seed(), EFFORT, self.solver == "auto"
            ),
            Progress(self.verbose, SHARES),
            transforms=self.output_transform == "auto",
        )

    def _chosen_parameters(self) -> ModelParameters | UnivariateParameters | ChainModelParameters:
        if hasattr(self, "_parameters"):
            return self._parameters
        operator = self._operator.primary
        plain = OperatorParameters(operator.system.kernel, self.report_.alpha, operator.output)
        return ModelParameters((plain,), {"plain": 1.0})

    def _finish(
        self,
        system: System,
        operator: DensityOperator | Mixture | Univariate | ChainModel,
        n_samples: int,
        started: float,
    ) -> None:
        plan = getattr(self, "_plan", None)
        self.report_ = FitReport.of(
            system.describe(),
            operator,
            self.selection,
            n_samples,
            time.perf_counter() - started,
            0.0 if plan is None or plan.bins is None else plan.bins.error,
        )
        self._operator = operator.without_training()

    def _without(self, *names: str) -> Self:
        """Return a copy that lacks some parts of the fit."""
        other = copy(self)
        for name in names:
            other.__dict__.pop(name, None)
        return other

    def _check_fit(self) -> None:
        super()._check_fit()
        self._check_parameters()
        operator, d = self._operator, self._operator.dim
        if self._transform is not None:
            need(len(self._transform.parts) == d, "the bounds of the outputs")
        parameters = getattr(self, "_parameters", None)
        if isinstance(operator, ChainModel) or isinstance(parameters, ChainModelParameters):
            orders = [[c.order for c in getattr(m, "chains", ())] for m in (operator, parameters)]
            need(orders[0] == orders[1], "parameters of a chain")
        elif parameters is not None:
            need({part.dim for part in parameters.components} <= {d, None}, "outputs")
            for kernel in {k for part in parameters.components for k in part.kernels}:
                kernel_fits(kernel, operator.primary.system.centres)
        else:
            need(isinstance(operator, DensityOperator), "a mixture without its parameters")
        if hasattr(self, "_plan"):
            shape(self._plan.centres, None, self.n_features_in_)
            need(self._plan.output.measure.dim == d, "the outputs of the streamed fit")
            shape(self.sums_.targets, self._plan.n_targets, len(self._plan.centres))

    # --- the border: parameters, outputs with bounds

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
        if self.output_transform not in (None, "auto"):
            raise InvalidInputError(
                f'output_transform must be None or "auto"; got {self.output_transform!r}.'
            )
        if self.missing not in MISSING:
            raise InvalidInputError(
                f"missing must be one of {list(MISSING)}; got {self.missing!r}."
            )
        check_seconds(self.max_seconds)
        if self.joint not in JOINT_FORMS:
            raise InvalidInputError(
                f"joint must be one of {list(JOINT_FORMS)}; got {self.joint!r}."
            )
        check_positivity(self.positivity)
        check_ridge(self.alpha, "alpha")
        check_output_options(self.kernel_y, self.reference, self.alpha_prime, self.filter)
        thread_count(self.n_jobs)
        checked_seed(self.random_state)

    def _checked(
        self, X: Any, Y: Any, sample_weight: Any, least: int
    ) -> tuple[NDArray, Array, Array]:
        inputs, outputs, weights = super()._checked(X, Y, sample_weight, least)
        warn_few_values(outputs, self.target_names_)
        self._transform = (
            None if self.support is None else transform_for(self.support, outputs, weights)
        )
        return inputs, self._to_unbounded(outputs), weights

    def _encode_more(
        self, X: Any, Y: Any, sample_weight: Any, *, learn: bool = False
    ) -> tuple[NDArray, Array, Array]:
        inputs, outputs, weights = super()._encode_more(X, Y, sample_weight, learn=learn)
        return inputs, self._to_unbounded(outputs), weights

    def _to_unbounded(self, outputs: Array) -> Array:
        """Return outputs on the whole line, where bounds were declared."""
        if self._transform is None:
            return outputs
        return self._transform.forward(strictly_inside(self._transform, outputs))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags(poor_score=True)  # score is a log density, not R²
        return tags
