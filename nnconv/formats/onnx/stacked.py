"""Weights of several parts in one ONNX tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import real_values
from nnconv.ops.rewrite import constant_behind

Signed: TypeAlias = "Sequence[tuple[Value, int]]"
"""Weights with the signs that they are taken with."""


def stacked(t: Target, parts: Signed, like: Value, *, transpose: bool = False) -> str:
    """Rows (or vectors) of several weights in one tensor, of ``like``'s real type.

    Constants keep their small type in the file: int8 codes become float by Cast and Mul, which a
    runtime does once.
    """
    real = t.real_type(like)
    found = [constant_behind(v) for v, _ in parts]
    sources = [v for v in found if v is not None and v.data is not None]
    if len(sources) < len(parts):
        names = [t.real(v) if sign > 0 else t.node("Neg", [t.real(v)]) for v, sign in parts]
        name = t.node("Concat", names, axis=0) if len(names) > 1 else names[0]
        return t.node("Transpose", [name], perm=(1, 0)) if transpose else name
    signs = [sign for _, sign in parts]
    if all(v.quant is not None and v.dtype.bits <= 8 and v.type.rank == 2 for v in sources):
        return _stacked_codes(t, sources, signs, real, transpose=transpose)
    arrays = [_real_data(v, real) * sign for v, sign in zip(sources, signs, strict=True)]
    data = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    name = t.const(data.T if transpose else data)
    return name if data.dtype == real.numpy else t.cast(name, real)


def _real_data(value: Value, real: DType) -> np.ndarray:
    data = value.data
    assert data is not None, "a constant is expected"
    if value.quant is not None:
        return real_values(data, value.quant, real, wide=np.float64)
    return data


def _stacked_codes(
    t: Target, sources: Sequence[Value], signs: Sequence[int], real: DType, *, transpose: bool
) -> str:
    codes, scales, points = [], [], []
    for value, sign in zip(sources, signs, strict=True):
        assert value.data is not None
        assert value.quant is not None
        column = (len(value.data), 1)
        scale, point = value.quant.broadcast(value.data.shape)
        codes.append(value.data)
        scales.append(np.broadcast_to(scale * sign, column))
        points.append(np.broadcast_to(point, column))
    data, scale, point = (np.concatenate(a) for a in (codes, scales, points))
    if transpose:
        data, scale, point = data.T, scale.T, point.T
    name = t.cast(t.const(data), real)
    if point.any():
        name = t.node("Sub", [name, t.const(point.astype(real.numpy))])
    return t.node("Mul", [name, t.const(scale.astype(real.numpy))])
