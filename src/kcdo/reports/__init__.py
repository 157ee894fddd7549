"""A fitted model as one HTML file that anybody can open."""

from kcdo.reports.page import write_report

__all__ = ["write_report"]
