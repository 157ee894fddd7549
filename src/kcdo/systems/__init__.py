"""The input side: ridge regression on inputs, whatever the targets are (see base.py)."""

from kcdo.systems.base import (
    Centres,
    Condensed,
    Embed,
    Factorable,
    Queries,
    RegressionSystem,
    SolverFacts,
    System,
)
from kcdo.systems.choice import choose_solver, may_repeat, unfactored
from kcdo.systems.exact import BlockProduct, ExactRows, ExactSystem
from kcdo.systems.finding import Finder
from kcdo.systems.groups import Groups, effective_size
from kcdo.systems.kept import KeptRows
from kcdo.systems.leave_one_out import (
    group_errors,
    left_out_share,
    one_minus_leverage,
    residuals,
)
from kcdo.systems.nearest import NEIGHBOURS, NearestRows, NearestSystem, rows_used
from kcdo.systems.nystrom import Leverages, NystromSystem, WhitenedSums, whitened_basis
from kcdo.systems.options import Exact, Iterative, Nystrom, Solver
from kcdo.systems.sums import NystromSums

__all__ = [
    "NEIGHBOURS",
    "BlockProduct",
    "Centres",
    "Condensed",
    "Embed",
    "Exact",
    "ExactRows",
    "ExactSystem",
    "Factorable",
    "Finder",
    "Groups",
    "Iterative",
    "KeptRows",
    "Leverages",
    "NearestRows",
    "NearestSystem",
    "Nystrom",
    "NystromSums",
    "NystromSystem",
    "Queries",
    "RegressionSystem",
    "Solver",
    "SolverFacts",
    "System",
    "WhitenedSums",
    "choose_solver",
    "effective_size",
    "group_errors",
    "left_out_share",
    "may_repeat",
    "one_minus_leverage",
    "residuals",
    "rows_used",
    "unfactored",
    "whitened_basis",
]
