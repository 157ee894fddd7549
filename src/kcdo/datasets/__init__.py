"""Synthetic data whose true densities are known in closed form."""

from kcdo.datasets.donut import Donut, make_donut

__all__ = ["Donut", "make_donut"]
