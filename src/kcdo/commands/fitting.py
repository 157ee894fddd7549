"""From columns of a table to a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.commands.holdout import times_of
from kcdo.commands.models import Model
from kcdo.commands.naming import Bounds, Wanted
from kcdo.commands.options import FitOptions
from kcdo.errors import InvalidInputError
from kcdo.estimators import ConditionalDensityOperator
from kcdo.kernels import Automatic, Categorical, Kernel, Periodic, Product
from kcdo.systems import Nystrom


def fitted(frame: pd.DataFrame, wanted: Wanted, options: FitOptions) -> Model:
    """Fit the targets of a table given its inputs."""
    _check_bounds(frame, wanted.bounds)
    X, targets = frame[wanted.given], wanted.targets
    Y = frame[targets[0] if len(targets) == 1 else targets]
    weights = frame[wanted.weights].to_numpy() if wanted.weights else None
    kin = labels(frame, wanted) if options.chooses else {}
    estimator = unfitted(X, wanted, options).fit(X, Y, weights, **kin)
    return Model.of(estimator.set_params(verbose=False))  # it is saved, and will not be asked to


def labels(frame: pd.DataFrame, wanted: Wanted) -> dict[str, Any]:
    """Return what says which rows belong together: ``groups`` or ``time``, as ``fit`` takes it.

    Nothing, where all have the same: none is left to judge by.
    """
    if wanted.group:
        found = {"groups": pd.factorize(frame[wanted.group])[0]}
    elif wanted.time:
        found = {"time": times_of(frame, wanted.time)}
    else:
        return {}
    return found if all(len(np.unique(each)) > 1 for each in found.values()) else {}


def unfitted(X: pd.DataFrame, wanted: Wanted, options: FitOptions) -> ConditionalDensityOperator:
    """Return the estimator that the options ask for."""
    chosen: dict[str, Any] = {"random_state": options.seed, "verbose": options.verbose}
    if options.selection is not None:
        chosen["selection"] = options.selection
    if options.centres is not None:
        chosen["solver"] = Nystrom(options.centres)
    if wanted.bounds:
        pairs = [wanted.bounds.get(name, (None, None)) for name in wanted.targets]
        chosen["support"] = pairs[0] if len(pairs) == 1 else pairs
    return ConditionalDensityOperator(_kernel(X, wanted), **chosen)


def known_rows(model: Model, frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows have categories that the model has seen, (N,)."""
    seen = np.ones(len(frame), dtype=bool)
    for name, known in model.categories.items():
        seen &= frame[name].isin(list(known)).to_numpy()
    return seen


def _check_bounds(frame: pd.DataFrame, bounds: dict[str, Bounds]) -> None:
    for name, (lower, upper) in bounds.items():
        values = frame[name]
        beyond = values[(values < _number(lower, -np.inf)) | (values > _number(upper, np.inf))]
        if len(beyond):
            raise InvalidInputError(
                f"--support: {len(beyond)} of {len(values)} values of {name!r} lie outside, such "
                f"as {beyond.iloc[0]:g}: correct them, or widen the support."
            )


def _number(bound: float | None, otherwise: float) -> float:
    return otherwise if bound is None else bound


def _kernel(X: pd.DataFrame, wanted: Wanted) -> Any:
    """Return a product over kinds of columns; None, the library's choice, if none is periodic."""
    if not wanted.periods:
        return None
    parts: list[Kernel] = [Periodic(t).on(name) for name, t in wanted.periods.items()]
    rest = X.drop(columns=list(wanted.periods))
    categories = list(rest.select_dtypes("category").columns)
    measured = [name for name in rest.columns if name not in categories]
    if categories:
        parts.append(Categorical().on(categories))
    if measured:
        parts.append(Automatic().on(measured))
    return Product(tuple(parts)) if len(parts) > 1 else parts[0]
