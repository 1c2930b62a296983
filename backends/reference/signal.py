"""Fourier transforms in numpy's own functions."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.signal import RFFT2D


def rfft2d(op: RFFT2D, x: Array, length: Array | None = None) -> list[Array]:
    """RFFT2D."""
    size = op.length or tuple(np.asarray(length).reshape(-1).tolist())
    return [np.fft.rfft2(x.astype(np.float64), size)]


KERNELS: dict[type[Op], Kernel] = {RFFT2D: rfft2d}
