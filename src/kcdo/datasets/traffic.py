"""Traffic given day of the week and time of day, at three places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.datasets.bundles import bundle, column, number_columns, read_table
from kcdo.datasets.sources import Folder, Source, failures_name, open_text

TIME_FEATURES = ("day_of_week", "hour")

Times = NDArray[np.datetime64]

_METRO = Source(
    name="Metro Interstate Traffic Volume",
    files=(
        "traffic/metro_interstate/Metro_Interstate_Traffic_Volume.csv.gz",
        "traffic/metro_interstate/metro+interstate+traffic+volume.zip",
    ),
    url="https://archive.ics.uci.edu/static/public/492/metro+interstate+traffic+volume.zip",
    values_sha256="b6cc4687f91add59d19a7365afdd7c19aa74cb898e85d633d741d0871c203710",
    description="""Metro Interstate Traffic Volume: vehicles per hour, I-94 westbound, Minnesota.

Station 301 between Minneapolis and St Paul, October 2012 to September 2018, with gaps; 40,575
hours, the first row of each time stamp (the file has one per weather report). Inputs: day of the
week (0 is Monday) and hour. Training rows are before 2017.

J. Hogue, UCI Machine Learning Repository no. 492,
https://archive.ics.uci.edu/dataset/492/metro+interstate+traffic+volume. Licence: CC BY 4.0.
""",
)

_DODGERS = Source(
    name="Dodgers loop sensor",
    files=(
        "traffic/dodger_loop_day/dodger_loop_day.csv.gz",
        "traffic/dodger_loop_day/DodgerLoopDay.zip",
    ),
    url="https://www.timeseriesclassification.com/aeon-toolkit/DodgerLoopDay.zip",
    values_sha256="8dc5e40109849436bc9338fdecca31c0b56ee09d28854e03cfe33b2704c09841",
    description="""Dodgers loop sensor: vehicles in five minutes, a ramp of 101 North, Los Angeles.

158 days of 2005, 288 slots each; 337 missing cells are dropped. Inputs: day of the week (0 is
Monday) and hour, in steps of 1/12. Training days are those of the UCR archive's own split.

A. Ihler, J. Hutchins, P. Smyth, UCI Machine Learning Repository no. 157,
https://archive.ics.uci.edu/dataset/157/dodgers+loop+sensor (CC BY 4.0; data from PeMS, California);
edited by C.-C. M. Yeh as DodgerLoopDay for the UCR time series archive.
""",
)

_CALTRANS = Source(
    name="Caltrans hourly occupancy",
    files=(
        "traffic/caltrans_hourly/caltrans_occupancy_hourly_2sensors.csv.gz",
        "traffic/caltrans_hourly/traffic.txt.gz",
    ),
    url=(
        "https://raw.githubusercontent.com/laiguokun/multivariate-time-series-data/"
        "7f402f185cc2435b5e66aed13a3b560ed142e023/traffic/traffic.txt.gz"
    ),
    values_sha256="3995249e46562fa70ead6c237df211400f1f4a7162c8e309225d861fabbcc45a",
    description="""Caltrans hourly occupancy: share of time a freeway lane is occupied, two sensors.

The first and last of 862 sensors in the San Francisco Bay Area, every hour of 2015 and 2016. These
are not the PEMS-SF data. Inputs: day of the week (0 is Monday) and hour. Weeks are counted from the
first hour; training rows are those of even weeks.

California PeMS, http://pems.dot.ca.gov, compiled for G. Lai et al., Modeling Long- and Short-Term
Temporal Patterns with Deep Neural Networks, SIGIR 2018; repository
laiguokun/multivariate-time-series-data. Licence: not stated (public data of California).
""",
)


def fetch_metro_interstate(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Hourly traffic volume of an interstate road given day of week and hour, 40,575 rows.

    Read from ``traffic/metro_interstate/`` in the data folder, as the CSV file or as the archive
    of the UCI repository, which is downloaded if both are missing. We have no checksum of the
    archive; times and volumes are compared, by a checksum of the parsed numbers, with those of
    independent copies.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (40575, 2), ``target`` (40575,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``; ``time`` (40575,), when; ``train`` (40575,), True before 2017.
    """
    path = _METRO.locate(data_home, download_if_missing)
    with open_text(path, "Metro_Interstate_Traffic_Volume.csv.gz") as text:
        table = read_table(text)
        time = np.array(column(table, "date_time"), dtype="datetime64[s]")
        volume = number_columns(table, ("traffic_volume",)).ravel()
    time, first = np.unique(time, return_index=True)
    volume = volume[first]
    _METRO.check(path, time.astype(np.int64), volume)
    return bundle(
        _time_features(time),
        volume,
        TIME_FEATURES,
        ["traffic_volume"],
        _METRO.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        time=time,
        train=time < np.datetime64("2017-01-01"),
    )


def fetch_dodgers_loop(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Five-minute counts of a loop sensor given day of week and time of day, 45,167 rows.

    Read from ``traffic/dodger_loop_day/`` in the data folder, as one CSV file or as the archive
    of the UCR collection, which is downloaded if both are missing. We have no checksum of the
    archive; days, split and counts are compared, by a checksum of the parsed numbers in sorted
    order, with those we know.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (45167, 2), ``target`` (45167,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``; ``day`` (45167,), which of the 158 days, not in calendar order; ``train``
        (45167,), True on the training days of the archive.
    """
    path = _DODGERS.locate(data_home, download_if_missing)
    label, train, counts = (_ucr_days if path.suffix == ".zip" else _table_days)(path)
    rows = np.column_stack([train, label, np.nan_to_num(counts, nan=-1.0)])
    _DODGERS.check(path, np.unique(rows, axis=0))
    day, slot = np.nonzero(~np.isnan(counts))
    weekday = (label - 2) % 7  # the archive counts from Sunday, 1
    return bundle(
        np.column_stack([weekday[day], slot * (24 / counts.shape[1])]),
        counts[day, slot],
        TIME_FEATURES,
        ["vehicles"],
        _DODGERS.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        day=day,
        train=train[day],
    )


def fetch_caltrans_hourly(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Hourly road occupancy at two sensors given day of week and hour, 17,544 rows.

    Read from ``traffic/caltrans_hourly/`` in the data folder, as the CSV file of two sensors or
    as ``traffic.txt.gz`` of all 862, which is downloaded if both are missing. We have no checksum
    of that file; the two columns are compared, by a checksum of the parsed numbers, with those we
    know, which were put together from other copies.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (17544, 2), ``target`` (17544, 2), ``feature_names``, ``target_names``,
        ``frame``, ``DESCR``; ``time`` (17544,), when; ``train`` (17544,), True in even weeks.
    """
    path = _CALTRANS.locate(data_home, download_if_missing)
    with open_text(path) as text:
        if path.name == "traffic.txt.gz":
            occupancy: Array = np.loadtxt(text, delimiter=",", usecols=(0, 861), ndmin=2)
            time = np.datetime64("2015-01-01", "s") + np.arange(len(occupancy)) * _HOUR
        else:
            table = read_table(text)
            occupancy = number_columns(table, ("sensor_0", "sensor_861"))
            time = np.array(column(table, "datetime"), dtype="datetime64[s]")
    _CALTRANS.check(path, time.astype(np.int64), np.rint(1e4 * occupancy))  # given to 4 decimals
    return bundle(
        _time_features(time),
        occupancy,
        TIME_FEATURES,
        ["sensor_0", "sensor_861"],
        _CALTRANS.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        time=time,
        train=(time - time[0]) // (7 * _DAY) % 2 == 0,
    )


_HOUR = np.timedelta64(3600, "s")
_DAY = 24 * _HOUR


def _time_features(time: Times) -> Array:
    """Day of the week, 0 for Monday, and hour of the day."""
    since_monday = time - np.datetime64("1970-01-05", "s")
    return np.column_stack([since_monday // _DAY % 7, since_monday % _DAY / _HOUR])


def _table_days(path: Path) -> tuple[NDArray[np.int64], NDArray[np.bool_], Array]:
    """Label, split and counts of each day from one table; empty cells are missing."""
    with open_text(path) as text:
        table = read_table(text)
        train = np.array(column(table, "split")) == "train"
        label = np.array(column(table, "day"), dtype=np.int64)
        slots = [name for name in table if name not in ("split", "day")]
        cells = np.array([table[name] for name in slots]).T
        counts = np.where(cells == "", "nan", cells).astype(np.float64)
    return label, train, counts


def _ucr_days(path: Path) -> tuple[NDArray[np.int64], NDArray[np.bool_], Array]:
    """Label, split and counts of each day from the archive: a file for each half of the split."""
    parts = []
    with failures_name(path):
        for half in ("TRAIN", "TEST"):
            with open_text(path, f"DodgerLoopDay_{half}.txt") as text:
                parts.append(np.loadtxt((line.replace("?", "nan") for line in text), ndmin=2))
        values = np.concatenate(parts)
    train = np.arange(len(values)) < len(parts[0])
    return values[:, 0].astype(np.int64), train, values[:, 1:]
