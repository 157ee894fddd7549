"""The kernel families that an automatic kernel is chosen from."""

from kcdo.kernels import Gaussian, Kernel, Laplace, Matern, transformed

FAMILIES: tuple[Kernel, ...] = (
    Matern(smoothness=1.5),
    Matern(smoothness=2.5),
    Gaussian(),
    Matern(smoothness=0.5),
    Laplace(),
)


def families(template: Kernel) -> list[Kernel]:
    """Return the kernels that a template may become, one per family; itself if none is open.

    The family of a :class:`kcdo.Automatic` part without a scale is open.
    """
    made = [
        transformed(template, lambda part, family=family: family if part.family_open else None)
        for family in FAMILIES
    ]
    return made if made[0] != made[1] else [template]
