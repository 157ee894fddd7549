"""One more component is one module and one line: a normal distribution of the nearest rows.

Everything above the ``# --- tests`` could be a module ``kcdo/components/neighbours.py``.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import KDTree

import kcdo
from kcdo.components import (
    Combination,
    MarginalTailParameters,
    Mixture,
    ModelParameters,
    OperatorParameters,
    Settings,
    condition,
)
from kcdo.distributions import Batch, StudentTail
from kcdo.fitting import ModelSpec, automatic_fit
from kcdo.fitting.automatic import CHOOSERS
from kcdo.fitting.problem import ChosenComponent
from kcdo.fitting.weights import combined_weights
from kcdo.inputs import SampleInput
from kcdo.kernels import DensityKernel
from kcdo.measures import UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import Queries
from tests.component_contract import assert_keeps_its_promises
from tests.efforts import SHORT


@dataclass(frozen=True)
class NeighbourParameters:
    """How many rows are near."""

    count: int

    names = ("neighbours",)
    dim = None
    kernels = ()

    def fit(self, rows: Rows, settings: Settings) -> "NeighbourNormal":
        """Return the component of these rows."""
        return NeighbourNormal(rows, self.count)


@dataclass(frozen=True, eq=False)
class NeighbourNormal:
    """A normal distribution with the mean and the sd of the rows nearest to x."""

    rows: Rows
    count: int

    names = ("neighbours",)
    linear = False  # of an uncertain input it is asked at points
    exact_held_out = True

    @property
    def n_inputs(self) -> int:
        """Number of columns of the inputs."""
        return self.rows.X.shape[1]

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.rows.Y.shape[1]

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return self.rows.X.nbytes + self.rows.Y.nbytes

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return self.count * self.dim

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the distributions of the queries."""
        return self._about(KDTree(self.rows.X).query(queries, self.count)[1])

    def held_out(self, rows: NDArray[np.integer]) -> dict[str, Batch]:
        """Return the distributions of some training rows without themselves."""
        nearest = KDTree(self.rows.X).query(self.rows.X[rows], self.count + 1)[1]
        return self._about(nearest[:, 1:])  # the nearest row is the row itself

    def without_training(self) -> "NeighbourNormal":
        """Return itself: predictions need every row."""
        return self

    def _about(self, places: NDArray[np.integer]) -> dict[str, Batch]:
        near = self.rows.Y[places]
        return {"neighbours": StudentTail(near.mean(axis=1), near.std(axis=1), np.inf)}


# --- tests


def rough(n=300, seed=0):
    """Noise that alternates between wide and narrow: a wide kernel does not follow it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, 1))
    sd = np.where(X % 2 < 1, 1.0, 0.05)
    return Rows(X, sd * rng.standard_normal((n, 1)), np.ones(n))


def plain_parameters(rows):
    box = UniformBox(-4.0, 4.0, nodes=200).realise(rows.Y)
    side = Reconstruction(box, DensityKernel(kcdo.Gaussian(0.2), 1), 0.2)
    return OperatorParameters(kcdo.Gaussian(2.0), 0.01, side)


def weights_of(components, rows):
    """Learn the weights of any components from held-out rows."""
    held_out, judged = {}, np.arange(len(rows))
    for component in components:
        held_out |= component.held_out(judged)
    return combined_weights(held_out, rows.Y, rows.weights, Combination())


def test_it_keeps_the_promises_of_every_component():
    rows = rough()
    component = NeighbourParameters(9).fit(rows, Settings())
    assert_keeps_its_promises(component, rows, np.linspace(0.1, 5.9, 7)[:, None])


def test_its_held_out_distributions_are_those_of_a_refit():
    rows = rough(40)
    component, judged = NeighbourNormal(rows, 5), np.array([3, 39])
    found = component.held_out(judged)["neighbours"]
    for i, row in enumerate(judged):
        others = rows.take(np.setdiff1d(np.arange(40), [row]))
        expected = NeighbourNormal(others, 5).predict(rows.X[row : row + 1])["neighbours"]
        np.testing.assert_array_equal(found.pdf(rows.Y)[i], expected.pdf(rows.Y)[0])


def test_beside_a_plain_density_it_gets_the_weight_that_held_out_rows_give_it():
    rows, fresh, settings = rough(), rough(seed=1), Settings()
    both = plain_parameters(rows), NeighbourParameters(15)
    fitted = tuple(parameters.fit(rows, settings) for parameters in both)
    weights = weights_of(fitted, rows)
    assert set(weights) == {"plain", "neighbours"}
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["neighbours"] > 0.5
    mixture = Mixture(fitted, weights)
    scores = {
        name: model.batch(fresh.X).logpdf_pairs(fresh.Y).mean()
        for name, model in {
            "both": mixture,
            "plain": Mixture(fitted[:1], {"plain": 1.0}),
            "neighbours": Mixture(fitted, {"neighbours": 1.0}),
        }.items()
    }
    assert scores["both"] > max(scores["plain"], scores["neighbours"])
    chosen = ModelParameters(both, weights)  # enough to fit the same model to any rows
    again = chosen.fit(rows, settings).without_training()
    np.testing.assert_allclose(
        again.batch(fresh.X).logpdf_pairs(fresh.Y), mixture.batch(fresh.X).logpdf_pairs(fresh.Y)
    )


def test_of_a_mixture_with_it_users_may_ask_anything():
    rows, settings = rough(), Settings()
    parts = (plain_parameters(rows).fit(rows, settings), NeighbourNormal(rows, 9))
    mixture = Mixture(parts, {"plain": 0.4, "neighbours": 0.6})
    dist = condition(mixture, rows.X[:5], flat=True)
    medians = dist.quantile(0.5)
    halves = [dist[i].cdf([median])[0, 0] for i, median in enumerate(medians)]
    np.testing.assert_allclose(halves, 0.5, atol=1e-6)
    made = [part.predict(rows.X[:5]) for part in parts]
    y = np.linspace(-2, 2, 9)[:, None]
    expected = 0.4 * made[0]["plain"].pdf(y) + 0.6 * made[1]["neighbours"].pdf(y)
    np.testing.assert_allclose(dist.pdf(y[:, 0]), expected, rtol=1e-9)
    cloud = condition(Mixture(parts, {"neighbours": 1.0}), SampleInput([rows.X[:4]]), flat=True)
    each = parts[1].predict(rows.X[:4])["neighbours"].pdf(y).mean(axis=0)
    np.testing.assert_allclose(cloud.pdf(y[:, 0])[0], each, rtol=1e-9)
    assert mixture.nbytes == sum(part.nbytes for part in parts)


@dataclass(frozen=True)
class WithNeighbours(Combination):
    """The weights of all components, and of one more."""

    neighbours: float | None = None


def test_in_the_list_of_an_automatic_fit_it_is_weighed_with_the_others(monkeypatch):
    def one_more(problem, so_far):
        parameters = NeighbourParameters(15)
        component = parameters.fit(problem.rows, problem.spec.settings)
        return [ChosenComponent.of(parameters, component)]

    monkeypatch.setattr("kcdo.fitting.automatic.CHOOSERS", (*CHOOSERS, one_more))
    # wide kernels, so that there is something left to say
    spec = ModelSpec(
        kcdo.Gaussian(2.0),
        combination=WithNeighbours(smoothed=0.0),
        settings=Settings(effort=SHORT),
    )
    rows, fresh = rough(), rough(seed=1)
    fit = automatic_fit(spec, rows)
    weights = fit.model.weights
    assert set(weights) >= {"plain", "location_scale", "neighbours"}
    assert weights["neighbours"] == max(weights.values())
    without = automatic_fit(
        replace(spec, combination=WithNeighbours(smoothed=0.0, neighbours=0.0)), rows
    )
    assert "neighbours" not in without.model.weights
    score, less = (
        each.model.batch(fresh.X).logpdf_pairs(fresh.Y).mean() for each in (fit, without)
    )
    assert score > less + 0.1
    assert any(isinstance(each, NeighbourParameters) for each in fit.parameters.components)
    assert not any(isinstance(each, MarginalTailParameters) for each in fit.parameters.components)
