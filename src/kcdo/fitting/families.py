"""The kernel families that an automatic kernel is chosen from."""

from dataclasses import replace

from kcdo.kernels import (
    Automatic,
    Gaussian,
    Kernel,
    Laplace,
    Matern,
    OnColumns,
    Product,
    Remembering,
    Sum,
    Warped,
)

FAMILIES: tuple[Kernel, ...] = (
    Matern(smoothness=1.5),
    Matern(smoothness=2.5),
    Gaussian(),
    Matern(smoothness=0.5),
    Laplace(),
)


def families(template: Kernel) -> list[Kernel]:
    """Return the kernels that an :class:`Automatic` part may become; the kernel itself if none."""
    made = [_with_family(template, family) for family in FAMILIES]
    return made if made[0] != made[1] else [template]


def _with_family(kernel: Kernel, family: Kernel) -> Kernel:
    if isinstance(kernel, Product | Sum):
        return type(kernel)(tuple(_with_family(part, family) for part in kernel.kernels))
    if isinstance(kernel, Remembering | Warped):
        return replace(kernel, kernel=_with_family(kernel.kernel, family))
    if isinstance(kernel, OnColumns):
        return OnColumns(_with_family(kernel.kernel, family), kernel.columns)
    return family if isinstance(kernel, Automatic) and not kernel.fitted else kernel
