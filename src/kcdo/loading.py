"""``kcdo.load``: what every package of kcdo can save, its import registers."""

from kcdo import conformal, estimators  # noqa: F401
from kcdo.persistence.models import load

__all__ = ["load"]
