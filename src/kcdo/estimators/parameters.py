"""Checks of the parameters that users give to estimators."""

from typing import Any

import numpy as np

from kcdo.components import Combination
from kcdo.distributions import POSITIVITY
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.fitting import RULES
from kcdo.kernels import Kernel
from kcdo.linalg import Filter
from kcdo.measures import Reference
from kcdo.missing import MISSING
from kcdo.parallel import thread_count
from kcdo.regularisation import Scheme
from kcdo.systems import Solver

_SELECTIONS = ("auto", *RULES)
_JOINT_FORMS = ("auto", "chain", "grid")


def check_parameters(model: Any) -> None:
    """Raise unless the parameters of a conditional density operator are of the right kinds."""
    if model.selection not in _SELECTIONS:
        raise InvalidInputError(
            f"selection must be one of {sorted(_SELECTIONS)}; got {model.selection!r}."
        )
    if model.solver != "auto" and not isinstance(model.solver, Solver):
        raise InvalidTypeError(
            'solver must be "auto", kcdo.Exact(), kcdo.Nystrom() or kcdo.Iterative(); got '
            f"{model.solver!r}."
        )
    if model.combination is not None and not isinstance(model.combination, Combination):
        raise InvalidTypeError(f"combination must be a Combination; got {model.combination!r}.")
    if model.output_transform not in (None, "auto"):
        raise InvalidInputError(
            f'output_transform must be None or "auto"; got {model.output_transform!r}.'
        )
    if model.missing not in MISSING:
        raise InvalidInputError(f"missing must be one of {list(MISSING)}; got {model.missing!r}.")
    check_seconds(model.max_seconds)
    if model.joint not in _JOINT_FORMS:
        raise InvalidInputError(f"joint must be one of {list(_JOINT_FORMS)}; got {model.joint!r}.")
    check_positivity(model.positivity)
    check_ridge(model.alpha, "alpha")
    check_output_options(model.kernel_y, model.reference, model.alpha_prime, model.filter)
    thread_count(model.n_jobs)
    checked_seed(model.random_state)


def check_chain(model: Any) -> None:
    """Raise if options of one joint density are set beside ``joint="chain"``."""
    for_grids = {
        "selection": model.selection != "auto",
        "kernel_y": model.kernel_y is not None,
        "reference": model.reference is not None,
        "alpha_prime": model.alpha_prime is not None,
        "positivity": model.positivity == "signed",
    }
    set_so = [f"{name}={getattr(model, name)!r}" for name, is_set in for_grids.items() if is_set]
    if set_so:
        raise InvalidInputError(
            f'joint="chain" fits each output by its own automatic choice, so that {set_so[0]} is '
            'not for it. Leave one of them out, or take joint="grid".'
        )


def check_ridge(value: Any, name: str) -> None:
    """Raise unless ``value`` is None, a scheme or a positive number."""
    if value is None or isinstance(value, Scheme):
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidTypeError(f"{name} must be a positive number or a scheme; got {value!r}.")
    if not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be positive and finite; got {value!r}.")


def check_seconds(value: Any) -> None:
    """Raise unless ``value`` is None or a positive time."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidTypeError(f"max_seconds must be a positive number or None; got {value!r}.")
    if not value > 0:
        raise InvalidInputError(f"max_seconds must be positive; got {value!r}.")


def check_positivity(value: Any) -> None:
    """Raise unless ``value`` names a way to make densities positive."""
    if value not in POSITIVITY:
        raise InvalidInputError(f"positivity must be one of {list(POSITIVITY)}; got {value!r}.")


def check_output_options(kernel_y: Any, reference: Any, alpha_prime: Any, filter: Any) -> None:
    """Raise unless the options of the output side are of the right kinds."""
    check_ridge(alpha_prime, "alpha_prime")
    kinds = (
        ("kernel_y", kernel_y, Kernel, "a kcdo kernel such as kcdo.Gaussian(0.1)"),
        ("reference", reference, Reference, "a kcdo.UniformBox, QuasiRandomBox or Sample"),
        ("filter", filter, Filter, "a filter object such as kcdo.Tikhonov()"),
    )
    for name, value, kind, hint in kinds:
        if value is not None and not isinstance(value, kind):
            raise InvalidTypeError(f"{name} must be {hint}; got {value!r}.")


def checked_seed(random_state: Any) -> int:
    """Return a seed; None counts as 0, so that every fit can be repeated."""
    if random_state is None:
        return 0
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise InvalidTypeError(f"random_state must be a whole number; got {random_state!r}.")
    return int(random_state)
