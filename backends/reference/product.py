"""Products of matrices and tensors, and determinants, in numpy's own functions."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.product import Det, Einsum, Gemm, MatMulInteger


def gemm(op: Gemm, a: Array, b: Array, c: Array | None = None) -> list[Array]:
    """Gemm."""
    product = (a.T if op.transpose_a else a) @ (b.T if op.transpose_b else b)
    if np.issubdtype(a.dtype, np.floating):
        result = product * a.dtype.type(op.alpha)
        return [result if c is None else result + c * a.dtype.type(op.beta)]
    wide = product if op.alpha == 1 else product * op.alpha
    return [wide if c is None else wide + (c if op.beta == 1 else c * op.beta)]


def matmul_integer(
    op: MatMulInteger,
    a: Array,
    b: Array,
    a_zero_point: Array | None = None,
    b_zero_point: Array | None = None,
) -> list[Array]:
    """MatMulInteger."""
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero_point is not None:
        points = a_zero_point.astype(np.int32)
        left = left - (points[..., None] if points.ndim == 1 and points.size > 1 else points)
    if b_zero_point is not None:
        right = right - b_zero_point.astype(np.int32)
    return [np.matmul(left, right)]


def einsum(op: Einsum, *terms: Array) -> list[Array]:
    """Einsum: numpy's, by numbers in place of labels; extents of 1 broadcast by any label."""
    labels, result = op.labels([term.ndim for term in terms])
    assert labels is not None
    assert result is not None
    numbers = {label: i for i, label in enumerate(dict.fromkeys(chain(*labels)))}
    pairs: list[Any] = []
    for term, names in zip(terms, labels, strict=True):
        pairs += [term, [numbers[label] for label in names]]
    return [np.asarray(np.einsum(*pairs, [numbers[label] for label in result]))]


def det(op: Det, x: Array) -> list[Array]:
    """Det."""
    return [np.asarray(np.linalg.det(x))]


KERNELS: dict[type[Op], Kernel] = {
    Gemm: gemm,
    MatMulInteger: matmul_integer,
    Einsum: einsum,
    Det: det,
}
