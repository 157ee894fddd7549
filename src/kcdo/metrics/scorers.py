"""Metrics as scikit-learn wants them: of an estimator and data; the higher, the better."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kcdo.composite import conditional
from kcdo.metrics.joint import dawid_sebastiani_score, energy_score, variogram_score
from kcdo.metrics.predictive import Score
from kcdo.metrics.scores import cde_loss, crps, log_score


@dataclass(frozen=True)
class Scorer:
    """A metric for ``cross_val_score(..., scoring=...)`` and searches: the higher, the better.

    Estimators may be pipelines whose last step is a model of kcdo, and fitted searches.

    Parameters
    ----------
    metric : function
        Of this module, or another that takes distributions and outputs and returns a number.
    lower_is_better : bool
        Whether the metric is a loss, which is returned with its sign changed.
    options : dict
        Keyword arguments of the metric.

    Examples
    --------
    >>> import kcdo
    >>> from sklearn.model_selection import cross_val_score
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic")
    >>> cross_val_score(model, X, Y[:, 0], scoring=kcdo.metrics.crps_scorer, cv=3).shape
    (3,)
    >>> few = kcdo.metrics.Scorer(kcdo.metrics.energy_score, options={"n_draws": 32})
    >>> bool(few(model.fit(X, Y), X, Y) < 0)
    True
    """

    metric: Callable[..., Score]
    lower_is_better: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of a fitted estimator on these rows."""
        dist = conditional(estimator, X)
        value = self.metric(dist, y, sample_weight=sample_weight, **self.options)
        return -value if self.lower_is_better else value

    def __repr__(self) -> str:
        sign = "-" if self.lower_is_better else ""
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Scorer({sign}{self.metric.__name__}{options})"


log_score_scorer = Scorer(log_score, lower_is_better=False)
crps_scorer = Scorer(crps)
cde_loss_scorer = Scorer(cde_loss)
energy_score_scorer = Scorer(energy_score)
variogram_score_scorer = Scorer(variogram_score)
dawid_sebastiani_score_scorer = Scorer(dawid_sebastiani_score)
