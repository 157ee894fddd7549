"""The two ways to hold out rows: a split, or every fold in turn."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kcdo.conformal.predictor import ConformalPredictor, Method
from kcdo.conformal.queries import GroupRule, Ratio
from kcdo.conformal.scores import HeldOut
from kcdo.conformal.thresholds import Folds, Split
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.frames import take_rows
from kcdo.metrics.predictive import checked_outputs
from kcdo.rows import in_folds

_FOLDS = 10
_SAME_MEANS = 3e-3  # of the spread of the outputs: other weights move means more than rounding does


def conformalize(
    model: Any,
    X: Any,
    y: Any,
    *,
    method: Method = "split",
    folds: int | None = None,
    keep_parameters: bool = False,
    groups: GroupRule | None = None,
    density_ratio: Ratio | None = None,
) -> ConformalPredictor:
    """Calibrate a fitted model: intervals and HPD regions with finite-sample coverage.

    With ``method="split"``, X and y are rows that the model was **not** fitted to. The regions of
    the model are widened or narrowed, all by one level, until they hold ⌈(n + 1) level⌉ of these n
    rows. If rows and query are exchangeable, the region holds the output of the query with
    probability at least ``level``, and at most ``level + 1/(n + 1)`` where scores do not tie, for
    any model.

    With ``method="jackknife+"``, X and y are the rows that the model **was** fitted to, and none
    are given up: each row is scored by a model fitted without its fold, which chooses its
    parameters anew, so that an overfitted choice is found out. The guarantee is weaker,
    ``2 level - 1`` with one row in each fold and ``2 level - 1 - √(2/n)`` with fewer folds, though
    the coverage is close to ``level`` in practice.

    Both are averages over queries, not statements about every x. A split can promise ``level`` in
    each of some ``groups``, and for queries whose inputs come from another distribution than those
    of the rows, if their ``density_ratio`` is given.

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
        Folds of the jackknife+, 10 by default (which is called CV+). Each is fitted once;
        ``folds=len(X)`` leaves out every row by itself.
    keep_parameters : bool
        Let the folds of the jackknife+ keep the parameters that the model chose on all rows, as
        :meth:`ConditionalDensityOperator.refit` does. This is many times faster, but what was
        held out took part in the choice: of few rows with many columns the regions are then much
        too small. Harmless where no parameter was chosen.
    groups : str, int or function, optional
        A column of the inputs, by name or place, or a function that takes X and returns a label
        for each row. The guarantee of a split then holds in every group by itself, and each needs
        rows enough.
    density_ratio : DensityReconstruction or function, optional
        Density of the inputs of queries relative to that of the calibration inputs: a fitted
        ``DensityReconstruction(reference=Sample(X))``, or a function that takes X and returns a
        number for each row. The guarantee of a split then holds for such queries, as nearly as the
        ratio is right.

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
    Recognition 2022). Groups are the Mondrian categories of Vovk, weights those of Tibshirani,
    Barber, Candès and Ramdas (NeurIPS 2019).

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
        if groups is not None or density_ratio is not None:
            raise InvalidInputError('groups and density_ratio are for method="split".')
        return ConformalPredictor(model, Folds(_folded(model, X, y, folds, keep_parameters)))
    if folds is not None or keep_parameters:
        raise InvalidInputError(
            'folds and keep_parameters are for method="jackknife+": a split fits nothing.'
        )
    return ConformalPredictor(model, Split.of(model, X, y, groups, density_ratio))


def _folded(
    model: Any, X: Any, y: Any, folds: int | None, keep_parameters: bool
) -> tuple[HeldOut, ...]:
    _check_training_rows(model, X, y)
    held_out = []
    for fold in _folds(model.report_.n_samples, folds):
        kept = np.ones(model.report_.n_samples)
        kept[fold] = 0.0  # rows of weight 0 are absent, but for the names of their categories
        other = model.refit(X, y, kept) if keep_parameters else clone(model).fit(X, y, kept)
        held_out.append(HeldOut.of(other, take_rows(X, fold), take_rows(y, fold)))
    return tuple(held_out)


def _check_training_rows(model: Any, X: Any, y: Any) -> None:
    """Raise unless the model was fitted to these rows, without weights.

    A model does not keep its rows: a refit to these must predict the same.
    """
    means = model.predict(X)
    outputs = checked_outputs(model.conditional(X), y)
    n, fitted = len(outputs), model.report_.n_samples
    if n != fitted:
        raise InvalidInputError(
            f'method="jackknife+" needs the {fitted} rows that the model was fitted to, got {n} '
            'rows: give those, or use method="split" for rows new to it.'
        )
    moved = np.abs(means - model.refit(X, y).predict(X)).reshape(outputs.shape).max(axis=0)
    if np.any(moved > _SAME_MEANS * outputs.std(axis=0) + 1e-9 * np.abs(outputs).max(axis=0)):
        raise InvalidInputError(
            'method="jackknife+" needs the rows that the model was fitted to, without weights: '
            "a fit to these rows predicts something else. Give those rows in the same order of "
            'columns, fit without sample_weight, or use method="split" with rows new to the model.'
        )


def _folds(n: int, folds: int | None) -> list[np.ndarray]:
    """Return the rows of each fold: of equal size or nearly so, at random, the same every time."""
    count = min(n, _FOLDS) if folds is None else folds
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 2 <= count <= n:
        raise InvalidInputError(
            f"folds must be a whole number from 2 to the number of rows, {n}; got {folds!r}."
        )
    return [held_out for _, held_out in in_folds(n, count, seed=0)]
