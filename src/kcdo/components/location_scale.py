"""Location and scale first: y = m(x) + s(x) r, so that the density of r varies slowly."""

from dataclasses import dataclass, replace

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.density import DensityOperator, OperatorParameters
from kcdo.components.location_map import LocationParameters, LocationScaleMap, Residuals, fit_map
from kcdo.components.settings import Settings
from kcdo.components.tails import student_tail
from kcdo.consistency import need, shape
from kcdo.distributions import AffineBatch, Batch, StudentTail
from kcdo.kernels import Kernel
from kcdo.rows import Rows
from kcdo.systems import Queries

NAMES = ("location_scale", "residual_tail", "normal")


@dataclass(frozen=True, eq=False)
class LocationScaleParameters:
    """Parameters of location and scale and of the density of the residuals."""

    location: LocationParameters
    residual: OperatorParameters
    floor: Array  # (d,)
    names = NAMES

    def __post_init__(self) -> None:
        shape(self.floor, self.residual.dim)
        need(self.floor.min() >= 0, "scales that are negative")

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return len(self.floor)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the inputs."""
        found = self.residual.kernel, self.location.kernel, self.location.noise_kernel
        return tuple(kernel for kernel in found if kernel is not None)

    def fit(self, rows: Rows, settings: Settings) -> "LocationScale":
        """Return the component of these rows."""
        unfactored = settings.near if self.location.near else settings.unfactored
        system = unfactored(self.location.kernel, rows).factor(self.location.noise / rows.total)
        model, residuals = fit_map(self.location, system, rows, self.floor, settings)
        operator = self.residual.operator(rows.with_outputs(residuals.clipped), settings)
        return LocationScale(model, operator, residuals)


@dataclass(frozen=True, eq=False)
class LocationScale:
    """A density operator of residuals, mapped back, and simple shapes about the same location.

    "location_scale" has the density of the residuals, "residual_tail" a Student t in its place,
    "normal" a normal distribution.
    """

    map: LocationScaleMap
    residual: DensityOperator
    residuals: Residuals | None = None  # of the training rows

    names = NAMES
    linear = False
    exact_held_out = False

    def __post_init__(self) -> None:
        shape(self.map.location.offset, self.residual.dim)
        inputs = self.map.location.centres.n_inputs
        need(inputs == self.n_inputs, "residuals and locations")

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.residual.n_inputs

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.residual.dim

    @property
    def nbytes(self) -> int:
        """Memory of the operator of the residuals."""
        return self.residual.nbytes

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return self.residual.width(queries)

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the distributions of the queries, by name."""
        return about_location(self.residual.batch(queries), *self.map(queries))

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Return the distributions of some training rows without themselves, by name.

        Location, scale and the density of residuals each leave the row out; the residuals of the
        other rows have seen it, which of many rows does not move them.
        """
        assert self.residuals is not None, "the training rows are gone"
        inner = self.residual.held_out(rows)
        return about_location(inner, self.residuals.location[rows], self.residuals.scale[rows])

    def without_training(self) -> "LocationScale":
        """Return what predictions need."""
        return replace(self, residual=self.residual.without_training(), residuals=None)


def about_location(residuals: Batch, location: Array, scale: Array) -> dict[str, Batch]:
    """Return the distributions that have a location and a scale, by name."""
    return {
        "location_scale": AffineBatch(residuals, location, scale),
        "residual_tail": student_tail(location, scale),
        "normal": StudentTail(location, scale, np.inf),
    }
