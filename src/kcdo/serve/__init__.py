"""A model behind HTTP: a page to explore it, and answers in JSON, CSV and Arrow.

``kcdo serve model.kcdo`` starts it; :func:`make_app` returns the ASGI application for a server of
one's own. It stands above the commands, whose reading of tables and queries it shares.
"""

from kcdo.serve.limits import Limits

__all__ = ["Limits", "make_app"]


def make_app(model: object, *, name: str = "model", token: str | None = None) -> object:
    """Return the ASGI application of a fitted model, or of a calibrated one.

    Parameters
    ----------
    model : ConditionalDensityOperator or ConformalPredictor
        What is asked.
    name : str
        What the page calls it.
    token : str, optional
        What requests must bring along; without it everyone may ask.
    """
    from kcdo.commands.models import Model  # with pandas, which --help does not wait for
    from kcdo.serve.app import application

    return application(Model.of(model), name, token=token)
