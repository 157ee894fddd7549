"""Predictions as figures and as objects of other packages, which are loaded when asked."""

from typing import Any

from numpy.typing import ArrayLike

from kcdo.distributions.scipy_names import RandomState


class Exports:
    """Methods of distributions that hand them to other packages (docs/ecosystem.md)."""

    def plot(self: Any, ax: Any = None) -> Any:
        """Draw density curves, or contours of two outputs, as :func:`kcdo.plot_distribution`.

        More outputs of one query are drawn in pairs, by :func:`kcdo.plot_pairs`.
        """
        from kcdo.plotting import plot_distribution, plot_pairs  # an optional extra, above this

        if self.n_outputs > 2 and len(self) == 1 and ax is None:
            return plot_pairs(self)
        return plot_distribution(self, ax)

    def to_qp(self: Any, kind: str = "interp", nodes: Any = None) -> Any:
        """Return a ``qp.Ensemble`` of one output, see :func:`kcdo.adapters.qp.to_qp`."""
        from kcdo.adapters.qp import to_qp  # an optional extra, above this layer

        return to_qp(self, kind, nodes)

    def to_xarray(self: Any, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Any:
        """Return means, sds and quantiles as an ``xarray.Dataset``."""
        from kcdo.adapters.arviz import to_xarray  # an optional extra, above this layer

        return to_xarray(self, levels)

    def to_arviz(
        self: Any, Y: Any = None, draws: int = 1000, random_state: RandomState = None
    ) -> Any:
        """Return draws, and for outputs Y their log densities, for ArviZ.

        See :func:`kcdo.adapters.arviz.to_arviz`.
        """
        from kcdo.adapters.arviz import to_arviz  # an optional extra, above this layer

        return to_arviz(self, Y, draws, random_state)
