"""Moves of int32 and of truth values, for which NNAPI has few operations: by those that it has."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.formats.nnapi.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, static_shape

_LEVEL = 6
"""RESHAPE and PACK take int32 from here on."""

_MOST = 1 << 16
"""So many places are written as a constant: others are moved as floats, which is no larger."""


def transpose(t: Target, x: Value, y: Value, perm: Sequence[int]) -> bool:
    """A GATHER of all elements in a row; whether that can be."""
    shape = static_shape(x.shape)
    if x.dtype is not DType.INT32 or t.level < _LEVEL or shape is None:
        return False
    count = math.prod(shape)
    if not 0 < count <= _MOST:
        return False
    places = np.arange(count, dtype=np.int32).reshape(shape).transpose(perm)
    kind = TensorType(x.dtype, (count,))
    flat = t.result("RESHAPE", {"input": x, "shape": t.ints([count])}, kind)
    picks = {"input": flat, "axis": 0, "indices": t.const(places.reshape(-1))}
    moved = t.result("GATHER", picks, kind)
    t.emit("RESHAPE", {"input": moved, "shape": t.ints(places.shape)}, y)
    return True


def concat(t: Target, parts: Sequence[Value], y: Value, axis: int) -> bool:
    """A PACK of slices of one extent, whose dimensions a RESHAPE joins; whether that can be."""
    shape, shapes = static_shape(y.shape), [static_shape(part.shape) for part in parts]
    if y.dtype is not DType.INT32 or t.level < _LEVEL or shape is None:
        return False
    extents = [own[axis] for own in shapes if own is not None]
    step = math.gcd(*extents)
    if len(extents) < len(parts) or 0 in extents or shape[axis] // step > _MOST_PACKED:
        return False
    pieces = []
    for part, extent in zip(parts, extents, strict=True):
        if extent == step:
            pieces.append(t.operand(part))
            continue
        kind = TensorType(part.dtype, (*shape[:axis], step, *shape[axis + 1 :]))
        cut = [t.temp(kind) for _ in range(extent // step)]
        t.operation("SPLIT", {"input": part, "axis": axis, "count": len(cut)}, cut)
        pieces += cut
    packed = TensorType(y.dtype, (*shape[:axis], len(pieces), step, *shape[axis + 1 :]))
    whole = t.result("PACK", {"axis": axis, "inputs": pieces}, packed)
    t.emit("RESHAPE", {"input": whole, "shape": t.ints(shape)}, y)
    return True


_MOST_PACKED = 64
"""A PACK of more inputs costs more than moving the numbers as floats."""


def reshape_truths(t: Target, x: Value, y: Value, extents: Sequence[int]) -> None:
    """Truth values of known extents as the bytes 0 and 1, and back."""
    shape = t.static(x) or (1,)
    quant = Quant.per_tensor(1.0)
    one, zero = (t.const(np.full(shape, n, np.uint8), quant=quant) for n in (1, 0))
    choice: dict[str, object] = {"condition": x, "input0": one, "input1": zero}
    numbers = t.result("SELECT", choice, TensorType(DType.UINT8, shape, quant))
    kind = TensorType(DType.UINT8, static_shape(y.shape) or (1,), quant)
    moved = t.result("RESHAPE", {"input": numbers, "shape": t.ints(extents)}, kind)
    nothing = t.const(np.zeros(1, np.uint8), quant=quant)
    t.emit("NOT_EQUAL", {"input0": moved, "input1": nothing}, y)
