"""The two ways to hold out rows: a split, or every fold in turn."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kcdo.conformal.predictor import ConformalPredictor, Method
from kcdo.conformal.scores import HeldOut
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.frames import take_rows
from kcdo.metrics.predictive import checked_outputs

_FEW_ROWS = 200
_FOLDS = 20


def conformalize(
    model: Any, X: Any, y: Any, *, method: Method = "split", folds: int | None = None
) -> ConformalPredictor:
    """Calibrate a fitted model: intervals and HPD regions with finite-sample coverage.

    With ``method="split"``, X and y are rows that the model was **not** fitted to. The regions of
    the model are widened or narrowed, all by one level, until they hold ⌈(n + 1) level⌉ of these n
    rows. If rows and query are exchangeable, the region holds the output of the query with
    probability at least ``level``, and at most ``level + 1/(n + 1)`` where scores do not tie, for
    any model.

    With ``method="jackknife+"``, X and y are the rows that the model **was** fitted to, and none
    are given up: each row is scored by a model fitted without its fold. The guarantee is weaker,
    ``2 level - 1`` with one row in each fold and ``2 level - 1 - √(2/n)`` with fewer folds, though
    the coverage is close to ``level`` in practice. Moreover it is that of fits at given
    parameters. Where kernels and regularisation were chosen on all rows, as by default, the models
    know a little of what was held out: take the split where the guarantee must be strict.

    Both are averages over queries, not statements about every x.

    Parameters
    ----------
    model : ConditionalDensityOperator
        A fitted model.
    X : array or data frame of shape (n, p)
        Inputs for the calibration.
    y : array or data frame of shape (n,) or (n, d)
        Their outputs.
    method : {"split", "jackknife+"}
        Whether X and y are new to the model, or its own training rows without weights.
    folds : int, optional
        Folds of the jackknife+; by default one for each row up to 200 rows, 20 beyond (CV+).

    Returns
    -------
    ConformalPredictor
        With ``interval(X, level)``, for joint outputs of each marginal with a guarantee of its
        own, and ``hpd(X, level)``, one region of all outputs.

    Notes
    -----
    Rows are ranked by ``|F(y|x) - 1/2|`` for intervals (Chernozhukov, Wüthrich, Zhu, PNAS 2021), by
    ``P(p(Z|x) > p(y|x))`` for regions. Jackknife+ and CV+ are those of Barber, Candès, Ramdas and
    Tibshirani (Annals of Statistics 2021), for nested sets Gupta, Kuchibhotla and Ramdas (Pattern
    Recognition 2022).

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, (300, 1))
    >>> y = np.sin(x[:, 0]) + 0.2 * rng.standard_normal(300)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(x[:150], y[:150])
    >>> conformal = kcdo.conformalize(model, x[150:], y[150:])
    >>> conformal
    ConformalPredictor(method="split", 150 rows)
    >>> conformal.interval([[0.0], [1.0]], 0.9).shape
    (2, 2)
    >>> conformal.hpd([[0.0]], 0.9)[0].contains([0.0, 3.0])
    array([ True, False])
    """
    if not hasattr(model, "conditional") or not hasattr(model, "refit"):
        raise InvalidTypeError(
            f"conformalize needs a fitted kcdo.ConditionalDensityOperator; got {model!r}."
        )
    check_is_fitted(model)
    if method not in ("split", "jackknife+"):
        raise InvalidInputError(f'method must be "split" or "jackknife+"; got {method!r}.')
    if method == "jackknife+":
        return ConformalPredictor(model, method, _folded(model, X, y, folds))
    if folds is not None:
        raise InvalidInputError('folds are for method="jackknife+": a split has none.')
    return ConformalPredictor(model, method, (HeldOut.of(model, X, y),))


def _folded(model: Any, X: Any, y: Any, folds: int | None) -> tuple[HeldOut, ...]:
    n = len(checked_outputs(model.conditional(X), y))
    if n != model.report_.n_samples:
        raise InvalidInputError(
            f'method="jackknife+" needs the {model.report_.n_samples} rows that the model was '
            f'fitted to, got {n} rows: give those, or use method="split" for rows new to it.'
        )
    held_out = []
    for fold in _folds(n, folds):
        kept = np.setdiff1d(np.arange(n), fold)
        other = model.refit(take_rows(X, kept), take_rows(y, kept))
        held_out.append(HeldOut.of(other, take_rows(X, fold), take_rows(y, fold)))
    return tuple(held_out)


def _folds(n: int, folds: int | None) -> list[np.ndarray]:
    """Return the rows of each fold: of equal size or nearly so, at random, the same every time."""
    count = (n if n <= _FEW_ROWS else _FOLDS) if folds is None else folds
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 2 <= count <= n:
        raise InvalidInputError(
            f"folds must be a whole number from 2 to the number of rows, {n}; got {folds!r}."
        )
    order = np.random.default_rng(0).permutation(n)
    return [np.sort(order[start::count]) for start in range(count)]
