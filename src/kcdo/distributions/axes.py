"""Matrices on grids that are products over the axes: applied one axis after the other."""

from collections.abc import Sequence

from kcdo.arrays import Array


class AxisProduct:
    """The Kronecker product of one matrix (m_i, k_i) per axis: (M, K), never formed.

    ``masses @ product`` and ``product @ values`` work as with a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    >>> AxisProduct([a, b]) @ np.array([[1.0], [1.0]])
    array([[ 9.],
           [12.]])
    >>> np.kron(a, b) @ np.array([[1.0], [1.0]])
    array([[ 9.],
           [12.]])
    """

    __array_ufunc__ = None  # numpy leaves ``masses @ product`` to this class

    def __init__(self, factors: Sequence[Array]) -> None:
        self._factors = list(factors)

    def __matmul__(self, values: Array) -> Array:
        """Return the product with values (K, k), (M, k)."""
        return _contracted(values, [factor.T for factor in self._factors]).T

    def __rmatmul__(self, masses: Array) -> Array:
        """Return the product of masses (Q, M) with it, (Q, K)."""
        return _contracted(masses.T, self._factors)


def _contracted(tensor: Array, factors: list[Array]) -> Array:
    """Contract the leading axes of a tensor (all of them x n) with factors: (n, the new axes)."""
    n = tensor.shape[1]
    for factor in factors:  # contract the first axis, append the new one
        tensor = tensor.reshape(len(factor), -1).T @ factor
    return tensor.reshape(n, -1)
