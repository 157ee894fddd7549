"""Arrays of other libraries: read as NumPy's, and answered in kind."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_numpy", "in_kind"]


def as_numpy(data: Any) -> Any:
    """Return an array of another library as one of NumPy; anything else as it is.

    Arrays of another library are those of the array API standard and tensors of PyTorch, also on
    a device or with gradients, which end here.
    """
    if _is_tensor(data):
        return data.detach().cpu().numpy()
    if not _is_foreign(data):
        return data
    try:
        return np.asarray(data)
    except (TypeError, ValueError, RuntimeError):  # on a device: its own way to the host
        return np.from_dlpack(data, device="cpu")


def in_kind(answer: NDArray, asked: Any) -> Any:
    """Return an answer as an array of the library, device and precision of what was asked."""
    if _is_tensor(asked):
        tensor = asked.new_tensor(answer, dtype=None if asked.is_floating_point() else float)
        return tensor.to(asked.dtype) if asked.is_floating_point() else tensor
    if not _is_foreign(asked):
        return answer
    space = asked.__array_namespace__()
    floating = space.isdtype(asked.dtype, "real floating")
    dtype = asked.dtype if floating else space.float64
    return space.asarray(answer, dtype=dtype, device=asked.device)


def _is_tensor(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "torch" and hasattr(data, "detach")


def _is_foreign(data: Any) -> bool:
    return hasattr(data, "__array_namespace__") and not isinstance(data, np.ndarray | np.generic)
