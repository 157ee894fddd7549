"""Data sets: synthetic ones with known densities, and public ones read from a data folder.

Every ``fetch_...`` reads its file from the data folder (the argument ``data_home``, else the
environment variable ``KCDO_DATA``, else the user's cache), and downloads the public original where
the file is missing.
"""

from kcdo.datasets.classic import fetch_bone, fetch_geyser, fetch_lidar, fetch_mcycle
from kcdo.datasets.donut import Donut, make_donut
from kcdo.datasets.pems import fetch_pems_sf
from kcdo.datasets.pems_files import PemsDays, read_pems_sf
from kcdo.datasets.regression import fetch_uci_regression, standard_splits
from kcdo.datasets.sources import data_folder
from kcdo.datasets.terrain import fetch_mount_st_helens
from kcdo.datasets.traffic import (
    fetch_caltrans_hourly,
    fetch_dodgers_loop,
    fetch_metro_interstate,
)

__all__ = [
    "Donut",
    "PemsDays",
    "data_folder",
    "fetch_bone",
    "fetch_caltrans_hourly",
    "fetch_dodgers_loop",
    "fetch_geyser",
    "fetch_lidar",
    "fetch_mcycle",
    "fetch_metro_interstate",
    "fetch_mount_st_helens",
    "fetch_pems_sf",
    "fetch_uci_regression",
    "make_donut",
    "read_pems_sf",
    "standard_splits",
]
