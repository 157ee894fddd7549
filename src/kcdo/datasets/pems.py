"""PEMS-SF: road occupancy in San Francisco given day of week and time of day."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kcdo.datasets.bundles import bundle
from kcdo.datasets.pems_files import PemsDays, read_pems_sf
from kcdo.datasets.sources import Folder, Source
from kcdo.datasets.traffic import TIME_FEATURES
from kcdo.errors import InvalidInputError

_PEMS = Source(
    name="PEMS-SF",
    files=("pems_sf/PEMS_train", "pems_sf/PEMS-SF.zip", "pems_sf/pems+sf.zip"),
    url="https://archive.ics.uci.edu/static/public/204/pems+sf.zip",
    description="""PEMS-SF: share of time a freeway lane is occupied, every ten minutes.

963 sensors in the San Francisco Bay Area, 440 days between January 2008 and March 2009, without
holidays and two anomalous days, in random order. Inputs: day of the week (0 is Monday) and hour, in
steps of 1/6. The archive documents its labels as 1 for Monday to 7 for Sunday, and they are read
so; others who put the days in calendar order report that 1 stands for Sunday. Groups of equal
inputs are the same either way.

M. Cuturi, UCI Machine Learning Repository no. 204, https://archive.ics.uci.edu/dataset/204/pems+sf
(data of the California Department of Transportation, PeMS). Licence: CC BY 4.0.
""",
)
_SHAPE = (440, 144, 963)


def fetch_pems_sf(
    sensors: int | Sequence[int] | None = 0,
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Road occupancy given day of week and time of day, 63,360 rows.

    Read from ``pems_sf/`` in the data folder, as the text files of the archive (``PEMS_train``,
    ``PEMS_trainlabels``, ``PEMS_test``, ``PEMS_testlabels``; if there, ``randperm`` and
    ``stations_list``) or as its zip file, which is downloaded (some 110 MB) if both are missing.
    We have no checksum of the archive: what is verified is its format, and that there are 440
    days of 963 sensors and 144 slots with occupancies from 0 to 1.

    Parameters
    ----------
    sensors : int, sequence of int or None
        Which sensors, counted from 0; ``None`` for all, which takes half a gigabyte.
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (63360, 2), ``target`` (63360,) for one sensor, else (63360, sensors),
        ``feature_names``, ``target_names``, ``frame``, ``DESCR``; ``day`` (63360,), which day, in
        the order of the files; ``train`` (63360,), True on the training days of the archive;
        ``calendar_order`` (440,), the days sorted by date, or None.
    """
    path = _PEMS.locate(data_home, download_if_missing)
    single = isinstance(sensors, (int, np.integer))
    chosen = [int(sensors)] if isinstance(sensors, (int, np.integer)) else sensors
    days = read_pems_sf(path.parent if path.name == "PEMS_train" else path, chosen)
    _require_real_data(path, days)
    n_days, n_slots, n_chosen = days.values.shape
    day = np.repeat(np.arange(n_days), n_slots)
    hour = np.tile(np.arange(n_slots) * (24 / n_slots), n_days)
    target = days.values.reshape(n_days * n_slots, n_chosen)
    names = days.stations or range(days.n_sensors)
    return bundle(
        np.column_stack([days.labels[day] - 1, hour]),
        target[:, 0] if single else target,
        TIME_FEATURES,
        [f"sensor_{names[k]}" for k in days.sensors],
        _PEMS.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        day=day,
        train=days.train[day],
        calendar_order=days.calendar_order,
    )


def _require_real_data(path: Path, days: PemsDays) -> None:
    n_days, n_slots, _ = days.values.shape
    shape = (n_days, n_slots, days.n_sensors)
    if shape != _SHAPE:
        raise InvalidInputError(
            f"{path} is not PEMS-SF: {shape} days, slots and sensors instead of {_SHAPE}. "
            "Read other files of its format with kcdo.datasets.read_pems_sf."
        )
    if days.values.min() < 0.0 or days.values.max() > 1.0:
        raise InvalidInputError(f"{path} is not PEMS-SF: occupancies must be from 0 to 1.")
