"""What every component of a model is fitted with, besides rows and its own parameters."""

from dataclasses import dataclass, field, replace

import numpy as np

from kcdo.distributions import Positivity
from kcdo.kernels import Kernel, has_metric
from kcdo.rows import Rows
from kcdo.systems import (
    NEIGHBOURS,
    Exact,
    Factorable,
    Groups,
    NearestRows,
    Nystrom,
    Solver,
    unfactored,
)


@dataclass(frozen=True)
class StreamEffort:
    """How much work a fit to chunks, or by sums, may do besides passing over all rows.

    Parameters
    ----------
    pilot_rows, pilot_per_centre : int
        Rows of the pilot sample: so many at least, and for each centre.
    sample_rows : int
        Rows of the pilot sample that choose kernels and output sides.
    side_rows : int
        Rows of the pilot sample whose exact fit gives the output side.
    looked_at : int
        Rows that give median scales, and that tell whether inputs are far from all centres.
    alpha_judges, alphas : int
        Rows that judge α, and how many are tried.
    located_rows, noises : int
        Rows that say how wide residuals are, and noises of the location that are tried on them.
    spread_rows, noise_rows : int
        Those of :class:`Effort`, of a scale that every row of a stream is asked for.
    many_per_centre : int
        Rows for each centre beyond which a single one does not move the location.
    weighed_rows : int
        Rows that are held out to find the weights of the components.
    family_judges, family_noises : int
        Rows that judge families on centres, and noises that are tried for each.
    fewest_judges : int
        Judged rows with near rows of their own, below which scales stay as they are.
    most_labels : int
        Columns up to which each is tried as a label.
    bins_per_scale : int
        Bins that outputs are counted in, for each scale of the output kernel: a half or a quarter
        where their sums would be large.
    """

    pilot_rows: int = 2000
    pilot_per_centre: int = 20
    sample_rows: int = 2000
    side_rows: int = 2000
    looked_at: int = 1000
    alpha_judges: int = 500
    alphas: int = 10
    located_rows: int = 4000
    noises: int = 12
    spread_rows: int = 400
    noise_rows: int = 1000
    many_per_centre: int = 300
    weighed_rows: int = 1000
    family_judges: int = 1000
    family_noises: int = 6
    fewest_judges: int = 20
    most_labels: int = 16
    bins_per_scale: int = 32


@dataclass(frozen=True)
class Effort:
    """How much work a fit may do: rows, nodes, steps, tries and folds of its searches.

    Tolerances, ranges and what fits into memory at a time stand beside the code that uses them;
    so do counts of the search for weights.

    Parameters
    ----------
    fewest_rows : int
        Rows below which nothing is searched for: the heuristic rule fits.
    race_rows : int
        Rows on which kernel families and starts are compared.
    rows : int
        Rows on which the best of them are compared again, and the mean is learnt; of more rows a
        part judges the noise of the mean.
    last_rows : int
        Rows on which the scales of the best are then learnt.
    held_out : int
        Least number of rows on which α and the output filter are judged, with all others in the
        fit; in a learnt metric, the number.
    judged_entries : float
        Held-out rows times all rows that cost little: so many are judged if they are more.
    most_judged_entries, fewest_judged : float, int
        Held-out rows times all rows that fit into a gigabyte, and the rows that are judged anyway.
    weighed_rows : int
        Rows up to which every one is held out to find the weights of the components.
    race_steps, steps, filter_steps : int
        Steps of a search from one start, of the last one, and of one for the output filter alone.
    factorisations, residual_factorisations : int
        Of the system of all rows, in the search for α of the density and of that of residuals; the
        former also in that for the noise of the location.
    near_judgements : int
        Of the systems of near rows, which cost little.
    leaders : (int, int)
        Starts that go on to more steps, and to more rows.
    folds, many_folds, few_rows, folded_rows : int
        Folds that judge the weights, how many there are up to so many rows, and rows up to which
        they do; of more rows closed forms.
    spread_rows, noise_rows : int
        Inputs that the predictive variance is computed from; rows that varying noise is
        regressed on.
    noise_systems : int
        Rows up to which an exact system of all of them judges each noise of the location.
    coarse_nodes, fine_nodes : dict
        Nodes per axis, by the number of outputs, while scales are learnt and while filters are.
    many_nodes : int
        Nodes beyond which fewer are used to find weights.
    exact_rows : int
        Rows up to which a location in a learnt metric is a regression on all of them.
    exact_density_rows, density_centres : int
        Rows beyond which densities of one output take so many centres, where the solver is open.
    fewest_gated : int
        Rows from which on weights may vary with x.
    alike_rows : int
        Near rows that smoothers weigh.
    transform_rows : int
        Rows that judge the transform of one output.
    exact_judged, rough_rows : int
        Rows up to which scales are learnt by leaving out every one, and the part of them on which
        families are compared.
    one_thread_rows : int
        Rows up to which BLAS is held to one thread for all of a fit: of small matrices, threads
        of BLAS cost more than they bring.
    average_rows : int
        Rows that first learn the scales of a second kernel of the location, or directions; at
        most two thirds.
    most_stacked : int
        Regressions that are averaged; of rows so few that folds judge scales all are.
    crossed_rows, crossed_per_column : int
        Rows, and rows per column, up to which folds learn scales anew.
    local_judged, local_neighbours : (int, int)
        Rows judged by local learning of more rows, and near rows of each: first for all families,
        then for the best.
    metric_steps : (int, int)
        Steps of either, first for all families, then for the best.
    subsamples : int
        Parts of many rows that learn a metric by themselves.
    crossed_folds : int
        Folds that learn scales anew.
    most_ranked : int
        Columns up to which ranks come beside them.
    shares_steps : int
        Steps of the search for shares: of smoothers, of orders, of a recalibration.
    kin_folds, kin_steps : int
        Folds that keep rows of groups or moments together, and steps of a search by them in one
        direction.
    rule_inputs, rule_judged : int
        Distinct inputs up to which a rule holds out every row, and how many it holds out of more.
    reference_points : int
        Points of the reference measure beyond three outputs.
    line_rows : int
        Rows beside those for the slopes, of which a line can be fitted.
    importance_rows : int
        Rows whose inputs are shuffled for the importances of a report, of two digits.
    orders, order_rows, order_folds : int
        Orders of several outputs that are tried and may be mixed; rows that judge them, in how
        many folds.
    believed_shares : tuple of float
        Shares of the log of varying noise that are tried, of which residuals choose one.
    fewest_twins, most_twins : int, float
        Rows with twins, rows of the very same inputs, that say how much twins tell; twins of such
        a row on average, beyond which the fit knows these inputs without them.
    streamed : StreamEffort
        Counts of fits to chunks and by sums.
    """

    fewest_rows: int = 20
    race_rows: int = 400
    rows: int = 800
    last_rows: int = 1500
    held_out: int = 500
    judged_entries: float = 5e6
    most_judged_entries: float = 1.25e8
    fewest_judged: int = 100
    weighed_rows: int = 2000
    race_steps: int = 12
    steps: int = 15
    filter_steps: int = 12
    factorisations: int = 4
    residual_factorisations: int = 2
    near_judgements: int = 6
    leaders: tuple[int, int] = (3, 2)
    folds: int = 10
    many_folds: int = 20
    few_rows: int = 600
    folded_rows: int = 900
    spread_rows: int = 1000
    noise_rows: int = 2000
    noise_systems: int = 4000
    coarse_nodes: dict[int, int] = field(default_factory=lambda: {1: 80, 2: 28, 3: 10})
    fine_nodes: dict[int, int] = field(default_factory=lambda: {1: 256, 2: 56, 3: 20})
    many_nodes: int = 2048
    exact_rows: int = 5000
    exact_density_rows: int = 3000
    density_centres: int = 1000
    fewest_gated: int = 100
    alike_rows: int = 200
    transform_rows: int = 300
    exact_judged: int = 1000
    rough_rows: int = 300
    one_thread_rows: int = 2000
    average_rows: int = 500
    most_stacked: int = 5
    crossed_rows: int = 200
    crossed_per_column: int = 12
    local_judged: tuple[int, int] = (300, 1000)
    local_neighbours: tuple[int, int] = (24, 48)
    metric_steps: tuple[int, int] = (12, 20)
    subsamples: int = 2
    crossed_folds: int = 5
    most_ranked: int = 24
    shares_steps: int = 200
    kin_folds: int = 5
    kin_steps: int = 4
    rule_inputs: int = 2000
    rule_judged: int = 300
    reference_points: int = 1000
    line_rows: int = 3
    importance_rows: int = 64
    orders: int = 3
    order_rows: int = 240
    order_folds: int = 3
    believed_shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
    fewest_twins: int = 20
    most_twins: float = 30.0
    streamed: StreamEffort = field(default_factory=StreamEffort)


@dataclass(frozen=True)
class Settings:
    """How components are fitted to rows at given parameters.

    Parameters
    ----------
    solver : Exact, Iterative or Nystrom
        How ridge systems are solved.
    positivity : {"project", "clip", "signed"}
        How signed estimates become densities.
    n_jobs : int, optional
        Threads; None: all cores.
    seed : int
        Seed of every subsample.
    effort : Effort
        How much work a fit may do.
    solver_is_open : bool
        Whether the user left the solver open, so that searches may take another one.
    """

    solver: Solver = field(default_factory=Exact)
    positivity: Positivity = "project"
    n_jobs: int | None = None
    seed: int = 0
    effort: Effort = field(default_factory=Effort)
    solver_is_open: bool = False

    def on_centres(self) -> "Settings":
        """Return the settings of a density on centres, where the solver is open."""
        if not self.solver_is_open:
            return self
        return replace(self, solver=Nystrom(self.effort.density_centres))

    def unfactored(self, kernel: Kernel, rows: Rows) -> Factorable:
        """Return the rows with an input kernel, as the solver takes them, to be factored."""
        return unfactored(
            self.solver, kernel, rows.X, rows.weights, seed=self.seed, n_jobs=self.n_jobs
        )

    def sees_near_rows(self, kernel: Kernel, rows: Rows) -> bool:
        """Whether a location is regressed on the rows near each query: of many, where it may be.

        A system of all rows would cost their third power, and centres do not follow what varies
        from one row to the next. Not where so many rows share an input that the nearest are some
        of these.
        """
        many = len(rows) > self.effort.exact_rows
        if not many or not self.solver_is_open or not has_metric(kernel, rows.X):
            return False
        return int(np.bincount(Groups.of(rows.X).member_of).max()) <= NEIGHBOURS // 2

    def near(self, kernel: Kernel, rows: Rows) -> NearestRows:
        """Return the rows with an input kernel whose scales say which of them are near."""
        return NearestRows(kernel, rows.X, rows.weights, n_jobs=self.n_jobs)
