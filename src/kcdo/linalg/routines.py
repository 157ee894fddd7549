"""BLAS and LAPACK routines that work in place and let other threads run.

SciPy's own wrappers hold Python's lock while a routine runs, so that threads that factor matrices
wait for one another. These call the same routines, through the pointers that SciPy gives to
compiled code, without the lock. Matrices are in Fortran's order: columns lie together in memory.
"""

from ctypes import (
    CFUNCTYPE,
    PYFUNCTYPE,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_void_p,
    py_object,
    pythonapi,
)
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from kcdo.arrays import Array

_NAME_OF = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
_POINTER_OF = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_REALS = {np.dtype(np.float64): ("d", c_double), np.dtype(np.float32): ("s", c_float)}


def potrf(matrix: Array) -> int:
    """Write U, with UᵀU the symmetric matrix, over its upper triangle; return 0 if it exists.

    Else return the order of the first leading minor that is not positive.
    """
    _need(_is_square(matrix), "potrf", matrix)
    return _info("potrf", b"U", len(matrix), matrix, _stride(matrix))


def potri(upper: Array) -> None:
    """Write the upper triangle of (UᵀU)⁻¹ over that of U."""
    _need(_is_square(upper), "potri", upper)
    _info("potri", b"U", len(upper), upper, _stride(upper))


def trtri(upper: Array) -> None:
    """Write the upper triangle of U⁻¹ over that of U."""
    _need(_is_square(upper), "trtri", upper)
    _info("trtri", b"U", b"N", len(upper), upper, _stride(upper))


def potrs(upper: Array, right: Array) -> None:
    """Write (UᵀU)⁻¹ B over B, (n,) or (n, k)."""
    fits = _is_square(upper) and right.ndim <= 2 and len(right) == len(upper)
    _need(fits, "potrs", upper, right)
    columns = 1 if right.ndim == 1 else right.shape[1]
    _info("potrs", b"U", len(upper), columns, upper, _stride(upper), right, _stride(right))


def trsm_right(upper: Array, right: Array, *, transposed: bool) -> None:
    """Write B U⁻¹, or B U⁻ᵀ, over B, (k, n)."""
    fits = _is_square(upper) and right.ndim == 2 and right.shape[1] == len(upper)
    _need(fits, "trsm", upper, right)
    trans = b"T" if transposed else b"N"
    scaled = 1.0, upper, _stride(upper), right, _stride(right)
    _call(cython_blas, "trsm", b"R", b"U", trans, b"N", *right.shape, *scaled)


def syrk(factor: float, matrix: Array, total: Array, *, lower: bool) -> None:
    """Add factor · A Aᵀ, A (n, k), to one triangle of a matrix (n, n)."""
    _need(_is_square(total) and len(matrix) == len(total), "syrk", matrix, total)
    uplo = b"L" if lower else b"U"
    added = float(factor), matrix, _stride(matrix), 1.0, total, _stride(total)
    _call(cython_blas, "syrk", uplo, b"N", *matrix.shape, *added)


def _is_square(matrix: Array) -> bool:
    return matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]


def _need(fits: bool, name: str, *arrays: Array) -> None:
    """Raise where arrays do not belong together: a routine would write beyond them."""
    if not fits:
        raise ValueError(f"{name}: arrays of shapes {', '.join(str(a.shape) for a in arrays)}.")


def _stride(matrix: Array) -> int:
    """Return how many numbers lie between the columns; at least one, as routines insist."""
    return max(1, len(matrix))


def _info(name: str, *arguments: Any) -> int:
    """Call a routine of LAPACK; return what its last argument says."""
    info = _integer(cython_lapack)()
    _call(cython_lapack, name, *arguments, info)
    if info.value < 0:
        raise ValueError(f"{name}: argument {-info.value} has an illegal value.")
    return int(info.value)


def _call(library: ModuleType, name: str, *arguments: Any) -> None:
    """Call the routine for the kind of numbers in its arrays, the last of which it writes to."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    kind = arrays[-1].dtype
    in_order = all(each.flags.f_contiguous and each.flags.aligned for each in arrays)
    if not in_order or kind not in _REALS or any(each.dtype != kind for each in arrays):
        raise ValueError(f"{name}: arrays of other orders or kinds of numbers.")
    if not arrays[-1].flags.writeable:
        raise ValueError(f"{name}: the array to be written to is read-only.")
    letter, real = _REALS[kind]
    held = [_pointer(each, real, _integer(library)) for each in arguments]
    _routine(library, letter + name, len(held))(*held)


def _pointer(argument: Any, real: type, integer: type) -> Any:
    """Return where an argument lies: routines take everything by reference."""
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    if isinstance(argument, bytes):
        return byref(c_char(argument))
    if isinstance(argument, int):
        return byref(integer(argument))
    return byref(real(argument)) if isinstance(argument, float) else byref(argument)


@cache
def _integer(library: ModuleType) -> Any:
    """Return the kind of whole numbers that the routines of this SciPy take."""
    signature = _NAME_OF(library.__pyx_capi__["dsyrk" if library is cython_blas else "dpotrf"])
    return c_int64 if b"int64_t" in signature else c_int


@cache
def _routine(library: ModuleType, name: str, n_arguments: int) -> Any:
    """Return a routine as a function of pointers, which runs without Python's lock."""
    capsule = library.__pyx_capi__[name]
    return CFUNCTYPE(None, *[c_void_p] * n_arguments)(_POINTER_OF(capsule, _NAME_OF(capsule)))
