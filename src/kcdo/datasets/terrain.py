"""Terrain: elevation given position."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.io import loadmat

from kcdo.datasets.bundles import bundle
from kcdo.datasets.sources import Folder, Source, failures_name
from kcdo.errors import InvalidInputError

_MOUNT_ST_HELENS = Source(
    name="Mount St. Helens",
    files=("mount_st_helens/MtSH.mat",),
    url="https://github.com/ericlee0803/GP_Derivatives/raw/master/demos/Maps/MtSH.mat",
    sha256="02ff67f4d87e159c94b1fd5f870b7f1c19c8a89401e582026c615f45dbc6a3b1",
    values_sha256="fb7b30f4ddf65dd5b00d7e9e72623cee250f7918ce2783a78d7205ee547f3c9d",
    description="""Mount St. Helens: elevation on a regular grid of 117 x 120 points.

The terrain of Schuster et al. (2020), section 5.2. Positions are in units of the grid file, in
steps of 8; elevations are metres by their range (764.83 to 2521.31). Both slopes are per unit of
position, and were apparently taken at a finer resolution.

Source: D. Eriksson, K. Dong, E. H. Lee, D. Bindel, A. G. Wilson, Scaling Gaussian Process
Regression with Derivatives, NeurIPS 2018; repository ericlee0803/GP_Derivatives. Licence: MIT.
""",
)


def fetch_mount_st_helens(
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Mount St. Helens: elevation given position, 14,040 points of a regular grid.

    The file is read from the data folder as ``mount_st_helens/MtSH.mat``. If it is missing, the
    public original is downloaded, and its SHA-256 checked.

    Parameters
    ----------
    data_home : path or None
        The data folder; ``None``: the environment variable ``KCDO_DATA``, else the user's cache.
    download_if_missing : bool
        Whether to download what the folder lacks, else raise :class:`~kcdo.DataNotFoundError`.
    return_X_y : bool
        Return the pair (data, target) instead of a Bunch.
    as_frame : bool
        Give pandas objects, and all columns together in ``frame``.

    Returns
    -------
    Bunch
        ``data`` (14040, 2), ``target`` (14040,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``; ``gradients`` (14040, 2), the slopes along both coordinates; ``grid_shape``,
        such that ``target.reshape(grid_shape)`` is the map, its columns running along the first
        coordinate.
    """
    path = _MOUNT_ST_HELENS.locate(data_home, download_if_missing)
    with failures_name(path):
        file = loadmat(path)
        missing = {"nx", "ny", "mth_points", "mth_verts", "mth_grads"} - file.keys()
        if missing:
            raise InvalidInputError(f"{path} lacks the variables {', '.join(sorted(missing))}.")
        X = file["mth_points"].astype(np.float64)
        y = file["mth_verts"].astype(np.float64).ravel()
        gradients = file["mth_grads"].astype(np.float64)
    _MOUNT_ST_HELENS.check(path, X, y, gradients)
    return bundle(
        X,
        y,
        ["x", "y"],
        ["elevation"],
        _MOUNT_ST_HELENS.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        gradients=gradients,
        grid_shape=(file["ny"].item(), file["nx"].item()),
    )
