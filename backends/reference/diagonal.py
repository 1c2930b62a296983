"""Diagonals of matrices."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.diagonal import MatrixDiag, MatrixSetDiag


def matrix_diag(op: MatrixDiag, x: Array) -> list[Array]:
    """MatrixDiag."""
    extent = x.shape[-1]
    result = np.zeros((*x.shape, extent), x.dtype)
    result[..., np.arange(extent), np.arange(extent)] = x
    return [result]


def matrix_set_diag(op: MatrixSetDiag, x: Array, diagonal: Array) -> list[Array]:
    """MatrixSetDiag."""
    result = x.copy()
    along = np.arange(min(x.shape[-2:]))
    result[..., along, along] = diagonal
    return [result]


KERNELS: dict[type[Op], Kernel] = {MatrixDiag: matrix_diag, MatrixSetDiag: matrix_set_diag}
