"""Windows and grids over every dimension."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel
from nnconv.backends.reference.gather import COMBINE

from nnconv.ir.op import Op
from nnconv.ops.window import Dilate, ReduceWindow


def reduce_window(op: ReduceWindow, x: Array, init: Array) -> list[Array]:
    """ReduceWindow: what meets each place of the window, one after the other."""
    places = zip(x.shape, op.window, op.stride, op.dilation, strict=True)
    counts = [max((n - (w - 1) * d - 1) // s + 1, 0) for n, w, s, d in places]
    result = np.full(counts, init.reshape(()), x.dtype)
    for place in np.ndindex(*op.window):
        starts = [p * d for p, d in zip(place, op.dilation, strict=True)]
        cut = tuple(
            slice(start, start + (count - 1) * stride + 1, stride) if count else slice(0)
            for start, count, stride in zip(starts, counts, op.stride, strict=True)
        )
        result = np.asarray(COMBINE[op.reduction](result, x[cut])).astype(x.dtype, copy=False)
    return [result]


def dilate(op: Dilate, x: Array, value: Array, factors: Array | None = None) -> list[Array]:
    """Dilate."""
    steps = op.dilations if factors is None else tuple(factors.reshape(-1).tolist())
    assert steps is not None
    extents = [max((n - 1) * step + 1, 0) for n, step in zip(x.shape, steps, strict=True)]
    result = np.full(extents, value.reshape(()), x.dtype)
    result[tuple(slice(None, None, step) for step in steps)] = x
    return [result]


KERNELS: dict[type[Op], Kernel] = {ReduceWindow: reduce_window, Dilate: dilate}
