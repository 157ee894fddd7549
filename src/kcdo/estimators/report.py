"""What a fit chose and what it cost."""

from dataclasses import dataclass, field, fields

from kcdo.components import Conditioner
from kcdo.kernels import Kernel
from kcdo.linalg import Filter
from kcdo.systems import SolverFacts


@dataclass(frozen=True, eq=False)
class FitReport:
    """Method, sizes, parameters, time and memory of a fit; ``print(model.report_)``.

    Attributes
    ----------
    method : str
        "exact", "iterative" or "nystrom".
    n_samples, n_centres, n_nodes : int
        Rows fitted; distinct inputs or Nyström centres; nodes of the reference measure.
    alpha, alpha_prime : float
        Ridges of the input and the output side.
    jitter : float
        Added to the diagonal beyond the ridge because the factorisation failed without it.
    iterations, residual : int, float
        Of the conjugate gradients, 0 for other methods.
    binning_error : float
        Bound on the error of binned outputs, relative to the kernel's peak; 0 if not binned.
    memory : int
        Bytes of the solver's factor and of the model.
    seconds : float
        Time of the fit.
    condition : float
        Estimate of the condition number of the ridge system.
    loss : float or None
        Mean negative log density of held-out rows, for ``selection="auto"``: of the whole mixture,
        in units of the outputs (with ``support``, of their images on the whole line). The
        parameters have seen these rows, so that new rows are somewhat less likely. None with
        atoms, whose log density is a matter of how wide they are drawn.
    weights : dict
        Weight of each component of the mixture (docs/theory.md).
    importances : dict
        How much each input column matters, in [0, 1]; 0 for a column that is switched off.
    stopped : tuple of str
        Stages that were left out because ``max_seconds`` was over.
    """

    method: str
    selection: str
    n_samples: int
    n_centres: int
    n_nodes: int
    kernel_x: Kernel
    kernel_y: Kernel
    alpha: float
    alpha_prime: float
    filter: Filter
    jitter: float
    iterations: int
    residual: float
    binning_error: float
    memory: int
    seconds: float
    condition: float
    loss: float | None = None
    weights: dict[str, float] = field(default_factory=dict)
    importances: dict[str, float] = field(default_factory=dict)
    stopped: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        solver: SolverFacts,
        model: Conditioner,
        selection: str,
        n_samples: int,
        seconds: float,
        binning_error: float,
    ) -> "FitReport":
        """Put together what a system says of itself and what the model of it is made of."""
        operator = model.primary
        output = operator.output
        return cls(
            method=solver.method,
            selection=selection,
            n_samples=n_samples,
            n_centres=solver.n_centres,
            n_nodes=output.measure.n_nodes,
            kernel_x=operator.system.kernel,
            kernel_y=output.kernel.kernel,
            alpha=solver.alpha,
            alpha_prime=output.ridge,
            filter=output.filter,
            jitter=solver.jitter,
            iterations=solver.iterations,
            residual=solver.residual,
            binning_error=binning_error,
            memory=solver.nbytes + model.nbytes,
            seconds=seconds,
            condition=solver.condition,
        )

    def __str__(self) -> str:
        return "\n".join(f"{f.name:14s} {getattr(self, f.name)}" for f in fields(self))

    __repr__ = __str__
