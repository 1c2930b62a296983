"""Diagonals of matrices."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel, flat

from nnconv.ir.op import Op
from nnconv.ops.diagonal import EyeLike, MatrixDiag, MatrixSetDiag, Trilu


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


def trilu(op: Trilu, x: Array, k: Array | None = None) -> list[Array]:
    """Trilu."""
    shift = flat(k)[0] if op.k is None else op.k
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    kept = columns - rows >= shift if op.upper else columns - rows <= shift
    return [np.where(kept, x, x.dtype.type(0))]


def eye_like(op: EyeLike, x: Array) -> list[Array]:
    """EyeLike."""
    return [np.eye(x.shape[0], x.shape[1], k=op.k, dtype=op.dtype.numpy)]


KERNELS: dict[type[Op], Kernel] = {
    MatrixDiag: matrix_diag,
    MatrixSetDiag: matrix_set_diag,
    Trilu: trilu,
    EyeLike: eye_like,
}
