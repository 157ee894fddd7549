"""Several outputs of one query: the joint density of every pair, and each by itself."""

from typing import TYPE_CHECKING, Any

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.canvas import pyplot
from kcdo.plotting.distribution import plot_distribution
from kcdo.plotting.joint import JointDensityDisplay
from kcdo.plotting.queries import output_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_OUTPUTS = 5


def plot_pairs(
    dist: Predictive, y: Any = None, *, weights: Array | None = None, title: str = ""
) -> "Figure":
    """Draw the outputs of one query: contours of every pair, on the diagonal each by itself.

    Parameters
    ----------
    dist : ConditionalDistribution
        One prediction, of two to five outputs.
    y : array or data frame of shape (N, d), optional
        Observed outputs, drawn as points.
    weights : array of shape (N,), optional
        How near each row of y is to the query, from 0 to 1: its opacity.
    title : str
        What is conditioned on.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> len(kcdo.plot_pairs(model.conditional([[0.5]])).axes)
    3
    """
    d = dist.n_outputs
    if not 2 <= d <= MOST_OUTPUTS:
        raise InvalidInputError(
            f"panels of pairs show two to {MOST_OUTPUTS} outputs; there are {d}. Choose some, as "
            "in dist.marginal([0, 1])."
        )
    names = output_names(dist, y)
    figure, axes = pyplot().subplots(d, d, figsize=(2.6 * d, 2.4 * d), layout="constrained")
    for across in range(d):
        for up in range(d):
            ax = axes[up, across]
            if up < across:
                ax.remove()
                continue
            if up == across:
                plot_distribution(dist.marginal(across), ax).set(xlabel=names[across])
            else:
                JointDensityDisplay.from_distribution(
                    dist, y, weights=weights, outputs=(across, up), ax=ax, colorbar=False
                )
            if (across, up) not in ((0, 0), (0, 1)):  # the first of each kind says it for all
                ax.get_legend().remove()
    figure.suptitle(title, fontsize="medium")
    return figure
