"""Small classics of nonparametric regression, each with one output of varying spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kcdo.datasets.bundles import bundle, column, number_columns, read_table
from kcdo.datasets.sources import Folder, Source, open_text

_GEYSER = Source(
    name="Old Faithful",
    files=("classic/geyser.csv",),
    url="https://vincentarelbundock.github.io/Rdatasets/csv/MASS/geyser.csv",
    values_sha256="b7bf1f92f35617f5a7f3846caa462996dd416b06e0b6f0a5fa9f6ea245ced934",
    description="""Old Faithful: duration of an eruption given the wait before it, in minutes.

299 eruptions, 1 to 15 August 1985; some durations at night are coded as exactly 2, 3 or 4.
A. Azzalini, A. W. Bowman, A look at some data on the Old Faithful geyser, Applied Statistics 39,
1990; R package MASS, geyser (GPL-2 or GPL-3).
""",
)

_MCYCLE = Source(
    name="the motorcycle accident",
    files=("classic/mcycle.csv",),
    url="https://vincentarelbundock.github.io/Rdatasets/csv/MASS/mcycle.csv",
    values_sha256="b81c186158c4163aae802fe0c1a8206c59baf345dbf17071bf106c80a04fafc0",
    description="""Simulated motorcycle accident: acceleration of the head (g) given time (ms).

133 measurements. B. W. Silverman, Some aspects of the spline smoothing approach to non-parametric
regression curve fitting, JRSS B 47, 1985; R package MASS, mcycle (GPL-2 or GPL-3).
""",
)

_LIDAR = Source(
    name="LIDAR",
    files=("classic/lidar.csv", "classic/lidar.dat"),
    url="https://www.stat.cmu.edu/~larry/all-of-nonpar/=data/lidar.dat",
    values_sha256="1577891ecf010973bd7062a4c67a0861dcf59d792e2a614a27e4da059af6a5cd",
    description="""LIDAR: log ratio of received light from two lasers given the distance travelled.

221 measurements. M. W. Sigrist, Air Monitoring by Spectroscopic Techniques, Wiley 1994;
D. Ruppert, M. P. Wand, R. J. Carroll, Semiparametric Regression, Cambridge 2003; R package
SemiPar, lidar (GPL, version 2 or later).
""",
)

_BONE = Source(
    name="bone mineral density",
    files=("classic/bone.csv", "classic/bone.data"),
    url="https://hastie.su.domains/ElemStatLearn/datasets/bone.data",
    values_sha256="d75dd8ef375d2b3ddd379bd11a388fd612d7494017bea856b6ad571a2382761e",
    description="""Bone mineral density: relative change between two visits given age and gender.

485 pairs of visits of 261 adolescents. L. K. Bachrach et al., Bone mineral acquisition in healthy
Asian, Hispanic, Black, and Caucasian youth, J. Clin. Endocrinol. Metab. 84, 1999; T. Hastie,
R. Tibshirani, J. Friedman, The Elements of Statistical Learning; R package ElemStatLearn, bone
(GPL, version 2 or later).
""",
)


def fetch_geyser(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Old Faithful: duration of an eruption given the wait before it, 299 rows.

    Read from ``classic/geyser.csv`` in the data folder, else downloaded from the Rdatasets
    collection. We have no checksum of the bytes there; the parsed numbers are compared, by a
    checksum of theirs, with those of the R package MASS.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (299, 1), ``target`` (299,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``.
    """
    path = _GEYSER.locate(data_home, download_if_missing)
    return _curve(_GEYSER, path, ("waiting", "duration"), return_X_y, as_frame)


def fetch_mcycle(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Simulated motorcycle accident: acceleration given time, 133 rows.

    Read from ``classic/mcycle.csv`` in the data folder, else downloaded and checked as in
    :func:`fetch_geyser`.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (133, 1), ``target`` (133,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``.
    """
    path = _MCYCLE.locate(data_home, download_if_missing)
    return _curve(_MCYCLE, path, ("times", "accel"), return_X_y, as_frame)


def fetch_lidar(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """LIDAR: log ratio of received light given the distance, 221 rows.

    Read from ``classic/lidar.csv`` in the data folder, else downloaded from the page of
    L. Wasserman's All of Nonparametric Statistics. We have no checksum of the bytes there; the
    parsed numbers are compared, by a checksum of theirs, with those of the R package SemiPar.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (221, 1), ``target`` (221,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``.
    """
    path = _LIDAR.locate(data_home, download_if_missing)
    return _curve(_LIDAR, path, ("range", "logratio"), return_X_y, as_frame)


def fetch_bone(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Bone mineral density: relative change of spinal density given age and gender, 485 rows.

    Read from ``classic/bone.csv`` in the data folder, else downloaded from the page of The
    Elements of Statistical Learning. We have no checksum of the bytes there; the parsed numbers
    are compared, by a checksum of theirs, with those of the R package ElemStatLearn.

    Parameters
    ----------
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (485, 2): age and male (1 or 0), ``target`` (485,), ``feature_names``,
        ``target_names``, ``frame``, ``DESCR``; ``child`` (485,), whom a row is about: rows of one
        child are not independent.
    """
    path = _BONE.locate(data_home, download_if_missing)
    with open_text(path) as text:
        table = read_table(text)
        child, age, change = number_columns(table, ("idnum", "age", "spnbmd")).T
        male = np.array(column(table, "gender")) == "male"
    X = np.column_stack([age, male])
    _BONE.check(path, child, X, change)
    return bundle(
        X,
        change,
        ["age", "male"],
        ["spnbmd"],
        _BONE.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        child=child.astype(np.intp),
    )


def _curve(
    source: Source, path: Path, names: tuple[str, str], return_X_y: bool, as_frame: bool
) -> Any:
    """One input and one output, columns of a table."""
    with open_text(path) as text:
        values = number_columns(read_table(text), names)
    source.check(path, values)
    return bundle(
        values[:, :1].copy(),
        values[:, 1].copy(),
        names[:1],
        names[1:],
        source.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )
