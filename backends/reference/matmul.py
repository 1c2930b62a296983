"""Products of matrices."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.elementwise import activate
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.matmul import FullyConnected, MatMul


def fully_connected(
    op: FullyConnected, x: Array, weights: Array, bias: Array | None = None
) -> list[Array]:
    """FullyConnected."""
    result = x @ weights.T
    if bias is not None:
        result = result + bias
    return [activate(result, op.activation)]


def matmul(op: MatMul, a: Array, b: Array) -> list[Array]:
    """MatMul."""
    left = np.swapaxes(a, -1, -2) if op.transpose_a else a
    right = np.swapaxes(b, -1, -2) if op.transpose_b else b
    return [np.matmul(left, right)]


KERNELS: dict[type[Op], Kernel] = {FullyConnected: fully_connected, MatMul: matmul}
