"""Distributions from models that are part of another: pipelines and searches of scikit-learn."""

from typing import Any

from kcdo.errors import InvalidTypeError

__all__ = ["conditional"]


def conditional(model: Any, X: Any) -> Any:
    """Return the distributions of Y given X, of a model or of what contains one.

    Pipelines of scikit-learn have the methods of scikit-learn alone; this asks the last step,
    with X as the steps before it leave it. Searches such as ``GridSearchCV`` are asked for their
    best estimator.

    Parameters
    ----------
    model : estimator
        A fitted model with a method ``conditional``, a pipeline that ends in one, or a search
        over either.
    X : array or frame
        Inputs, as ``model.predict`` takes them.

    Returns
    -------
    ConditionalDistribution

    Examples
    --------
    >>> import kcdo
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, Y = kcdo.make_donut(40, random_state=0)
    >>> rule = kcdo.ConditionalDensityOperator(selection="heuristic")
    >>> pipeline = make_pipeline(StandardScaler(), rule).fit(X, Y[:, 0])
    >>> kcdo.conditional(pipeline, X[:3]).interval(0.9).shape
    (3, 2)
    """
    if hasattr(model, "conditional"):
        return model.conditional(X)
    if hasattr(model, "best_estimator_"):
        return conditional(model.best_estimator_, X)
    if hasattr(model, "named_steps"):
        before, last = model[:-1], model[-1]
        return conditional(last, before.transform(X) if len(before) else X)
    raise InvalidTypeError(f"{_advice(model)} Got {model!r}.")


def _advice(model: Any) -> str:
    if hasattr(model, "inverse_func"):
        return (
            "a TransformedTargetRegressor maps predictions back, not distributions: use support= "
            "or output_transform= of the model itself."
        )
    if hasattr(model, "param_grid") or hasattr(model, "param_distributions"):
        return "a search must be fitted, with refit=True, before it has distributions."
    return (
        "distributions need an estimator with a method conditional, such as "
        "kcdo.ConditionalDensityOperator, or a pipeline or search around one."
    )
