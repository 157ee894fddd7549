"""The boundary: user data become checked float arrays here, and nowhere else."""

from kcdo.validation.columns import category_columns, column_names, is_missing
from kcdo.validation.encoding import (
    Categories,
    InputEncoder,
    categorical_positions,
    default_kernel,
)
from kcdo.validation.numbers import (
    check_matrix,
    check_outputs,
    check_range,
    check_weights,
    warn_few_values,
)

__all__ = [
    "Categories",
    "InputEncoder",
    "categorical_positions",
    "category_columns",
    "check_matrix",
    "check_outputs",
    "check_range",
    "check_weights",
    "column_names",
    "default_kernel",
    "is_missing",
    "warn_few_values",
]
