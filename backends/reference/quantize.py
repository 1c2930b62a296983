"""Ops between number types."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ops.quantize import (
    Bitcast,
    Cast,
    Dequantize,
    DynamicQuantize,
    FakeQuant,
    LooseCast,
    Quantize,
)


def keep(op: Op, x: Array) -> list[Array]:
    """Quantize, Dequantize: the executor converts by the operand's and the result's type."""
    return [x]


def cast(op: Cast, x: Array) -> list[Array]:
    """Cast."""
    target = op.dtype.numpy
    if np.iscomplexobj(x) and target.kind != "c":
        x = x.real
    if op.dtype is DType.BOOL:
        return [x != 0]
    if DType.of(x).is_float and op.dtype.is_integer:
        low, high = op.dtype.int_range
        wide = x.astype(np.float64)
        inside = wide < float(high + 1)  # NaN isn't
        whole = np.maximum(np.where(inside, wide, 0), low)
        integers = whole.astype(np.int64 if low < 0 else np.uint64)
        return [np.where(inside, integers, integers.dtype.type(high)).astype(target)]
    if op.dtype in (DType.INT4, DType.UINT4, DType.INT2):
        bits = op.dtype.bits
        codes = x.astype(np.int64) & ((1 << bits) - 1)
        if op.dtype.is_signed:
            codes = np.where(codes >> (bits - 1), codes - (1 << bits), codes)
        return [codes.astype(target)]
    return [x.astype(target)]


def loose_cast(op: LooseCast, x: Array) -> list[Array]:
    """LooseCast: what isn't told saturates, as in Cast."""
    if op.dtype.bits >= 8:
        return cast(op, x)
    return cast(op, np.trunc(x.astype(np.float64)).astype(np.int64))


def bitcast(op: Bitcast, x: Array) -> list[Array]:
    """Bitcast."""
    target, size = op.dtype.numpy, x.dtype.itemsize
    data = np.ascontiguousarray(x)
    if target.itemsize == size:
        return [data.view(target).reshape(x.shape)]
    if target.itemsize < size:
        return [data.reshape(*x.shape, 1).view(target)]
    return [data.view(target)[..., 0]]


def dynamic_quantize(op: DynamicQuantize, x: Array) -> list[Array]:
    """DynamicQuantize, in float32."""
    least, greatest = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
    scale = np.float32((greatest - least) / np.float32(255))
    scale = scale if scale > 0 else np.float32(1)
    point = np.clip(np.rint(-least / scale), 0, 255)
    codes = np.clip(np.rint(x / scale) + point, 0, 255)
    return [codes.astype(np.uint8), np.asarray(scale), np.asarray(point.astype(np.uint8))]


def fake_quant(op: FakeQuant, x: Array) -> list[Array]:
    """FakeQuant."""
    scale, low, high = op.grid()
    steps = np.floor((np.clip(x, low, high) - low) / scale + 0.5)
    return [steps * scale + low]


KERNELS: dict[type[Op], Kernel] = {
    Quantize: keep,
    Dequantize: keep,
    Cast: cast,
    LooseCast: loose_cast,
    Bitcast: bitcast,
    FakeQuant: fake_quant,
    DynamicQuantize: dynamic_quantize,
}
