"""kcdo in RAIL: stages that learn redshifts from magnitudes, and estimate p(z) of a catalogue."""

from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.estimators import ConditionalDensityOperator
from kcdo.extras import import_extra

import_extra("rail.estimation.estimator", extra="rail", what="Stages of RAIL")

import qp  # noqa: E402 - RAIL brings it, and the error above comes first
from ceci.config import StageParameter as Param  # noqa: E402
from rail.core.common_params import SharedParams  # noqa: E402
from rail.core.enums import DistributionType  # noqa: E402
from rail.estimation.estimator import CatEstimator  # noqa: E402
from rail.estimation.informer import CatInformer  # noqa: E402

__all__ = ["KernelCDEEstimator", "KernelCDEInformer"]

_COLUMNS = ("bands", "nondetect_val", "mag_limits", "redshift_col")


class _OfThisModule:
    """Stages that pipelines find here: RAIL would start ``python -m kcdo``, our command line."""

    name: str

    @classmethod
    def generate_command(cls, *arguments: Any, **options: Any) -> str:
        command: str = super().generate_command(*arguments, **options)  # type: ignore[misc]
        return command.replace(f"-m kcdo {cls.name}", f"-m ceci {cls.__module__}.{cls.name}", 1)


class KernelCDEInformer(_OfThisModule, CatInformer):
    """Fit the conditional density of the redshift given magnitudes and colours.

    Options are those of RAIL: ``bands``, ``redshift_col``, ``nondetect_val`` and ``mag_limits``,
    which stand for what was not detected; and ``fit_options``, options of
    :class:`kcdo.ConditionalDensityOperator` by name.
    """

    name = "KernelCDEInformer"
    entrypoint_function = "inform"
    interactive_function = "kernel_cde_informer"
    config_options = CatInformer.config_options.copy()
    config_options.update(
        **{name: SharedParams.copy_param(name) for name in _COLUMNS},
        fit_options=Param(dict, {}, msg="options of kcdo.ConditionalDensityOperator"),
    )

    def run(self) -> None:
        """Fit, and put the model where RAIL looks for it."""
        table = self.get_data("input")
        if self.config.hdf5_groupname:
            table = table[self.config.hdf5_groupname]
        redshifts = np.asarray(table[self.config.redshift_col], dtype=float)
        model = ConditionalDensityOperator(**self.config.fit_options)
        self.model = model.fit(inputs(table, self.config), redshifts)
        self.add_data("model", self.model)

    def validate(self) -> None:
        """Check that the columns are there."""
        columns = [*self.config.bands, self.config.redshift_col]
        self._check_column_names(self.get_handle("input", allow_missing=True), columns)


class KernelCDEEstimator(_OfThisModule, CatEstimator):
    """Estimate p(z) of every object by a model of :class:`KernelCDEInformer`.

    Ensembles are of qp's kind ``interp``, on RAIL's grid from ``zmin`` to ``zmax``.
    """

    name = "KernelCDEEstimator"
    entrypoint_function = "estimate"
    interactive_function = "kernel_cde_estimator"
    config_options = CatEstimator.config_options.copy()
    config_options.update(**{name: SharedParams.copy_param(name) for name in _COLUMNS})

    @classmethod
    def default_distribution_type(cls) -> Any:
        """Say that these are posteriors, under the distribution of the training rows."""
        return DistributionType.posterior

    def validate(self) -> None:
        """Check that the columns are there."""
        data = self.get_handle("input", allow_missing=True)
        self._check_column_names(data, list(self.config.bands))

    def _process_chunk(self, start: int, end: int, data: Any, first: bool) -> None:
        grid = np.linspace(self.config.zmin, self.config.zmax, self.config.nzbins)
        density = self.model.conditional(inputs(data, self.config)).pdf(grid)
        ensemble = qp.Ensemble(qp.interp, data={"xvals": grid, "yvals": density})
        ensemble.set_ancil({"zmode": grid[np.argmax(density, axis=1)][:, None]})
        self._do_chunk_output(ensemble, start, end, first, data=data)


def inputs(table: Any, config: Any) -> Array:
    """Return the last band's magnitude and the colours of neighbouring bands, (N, bands).

    The limiting magnitude of a band stands for magnitudes that were not detected.
    """
    columns = []
    for band in config.bands:
        column = np.array(table[band], dtype=float)
        missing = ~np.isfinite(column) | np.isclose(column, config.nondetect_val)
        column[missing] = config.mag_limits[band]
        columns.append(column)
    magnitudes = np.column_stack(columns)
    return np.column_stack([magnitudes[:, -1], -np.diff(magnitudes, axis=1)])
