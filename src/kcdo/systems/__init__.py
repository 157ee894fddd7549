"""The input side: ridge regression on inputs, whatever the targets are.

    prediction(x') = section(x') @ coefficients,   section(x') = k(x', centres)

Targets Y give the conditional mean, 1 the sum of the embedding weights, ℓ(Y, Z) the conditional
embedding on the nodes of a reference measure.
"""

from kcdo.kernels import has_metric, metric_coordinates
from kcdo.systems.exact import Centres, ExactSystem, Queries
from kcdo.systems.groups import Groups, effective_size
from kcdo.systems.nearest import NearestRows, rows_used
from kcdo.systems.nystrom import NystromRows, NystromSums, NystromSystem, whitened_basis
from kcdo.systems.options import Exact, Iterative, Nystrom, Solver, automatic, may_repeat

System = ExactSystem | NystromSystem | NystromRows

__all__ = [
    "Centres",
    "Exact",
    "ExactSystem",
    "Groups",
    "Iterative",
    "NearestRows",
    "Nystrom",
    "NystromRows",
    "NystromSums",
    "NystromSystem",
    "Queries",
    "Solver",
    "System",
    "automatic",
    "effective_size",
    "has_metric",
    "may_repeat",
    "metric_coordinates",
    "rows_used",
    "whitened_basis",
]
