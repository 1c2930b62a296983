"""ScatterND, also for opsets and types that lack a form of it; counting along dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.hints import GIVE_SHAPES
from nnconv.formats.onnx.bounds import bounded_elements
from nnconv.formats.onnx.exact import extreme, select
from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.exports.shape import Extent, extent, extent_name
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops.gather import Reduction

FAR = int(np.iinfo(np.int64).max)
"""Behind every end of a dimension."""

LEAST_OPSET = {
    Reduction.NONE: 11,
    Reduction.ADD: 16,
    Reduction.MUL: 16,
    Reduction.MIN: 18,
    Reduction.MAX: 18,
}
"""Since when ScatterND has each reduction."""

_REDUCERS = {
    Reduction.ADD: "ReduceSum",
    Reduction.MUL: "ReduceProd",
    Reduction.MIN: "ReduceMin",
    Reduction.MAX: "ReduceMax",
}
_EXTREMES = {Reduction.MIN: "Min", Reduction.MAX: "Max"}
SCATTERED_BY_WAY = {
    DType.BOOL: DType.INT32,  # a sum of bools is whether any is true
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
}
"""Types without a kernel of ScatterND's reductions, and the type to go through."""

_WIDE = {
    DType.INT8: DType.INT32,
    DType.UINT8: DType.INT32,
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.UINT32: DType.INT64,
    DType.UINT64: DType.INT64,
}
"""Types without kernels of reductions along axes."""


def rank_of(t: Target, value: Value) -> int:
    """The rank of a value.

    Raises:
        NotExportable: when it isn't known.
    """
    if value.shape is None:
        raise t.unsupported(f"the rank of `{value.name}` isn't known", hint=GIVE_SHAPES)
    return len(value.shape)


def cut(t: Target, name: str, start: int, end: int = FAR, *, axis: int = 0) -> str:
    """The entries ``start`` ... ``end`` (as in Python's slices) along an axis."""
    return t.node("Slice", [name, t.const([start]), t.const([end]), t.const([axis])])


def vector(t: Target, sizes: Sequence[Extent]) -> str:
    """Extents as an int64 tensor of rank 1."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == len(sizes):
        return t.const(numbers)
    return t.node("Concat", [extent_name(t, size) for size in sizes], axis=0)


def shape_of(t: Target, value: Value, start: int = 0) -> list[Extent]:
    """The extents from dimension ``start`` on."""
    return [extent(t, value, axis) for axis in range(start, rank_of(t, value))]


def counted(t: Target, count: Extent) -> str:
    """0, 1, ... as int64 of rank 1, as many as ``count``."""
    if isinstance(count, int):
        return t.const(np.arange(bounded_elements(t, count), dtype=np.int64))
    last = t.reshape(count, [])
    return t.node("Range", [t.const(np.int64(0)), last, t.const(np.int64(1))])


def full(t: Target, number: float, sizes: Sequence[Extent], dtype: DType) -> str:
    """A tensor of ``dtype`` and of the given extents that holds one number."""
    return t.node("Expand", [t.const(np.asarray(number, dtype.numpy)), vector(t, sizes)])


def scatter(
    t: Target,
    base: str,
    indices: str,
    updates: str,
    *,
    reduction: Reduction,
    dtype: DType,
    start: str,
    depth: int,
) -> str:
    """ScatterND of ``dtype`` tensors.

    ``indices`` are int64, ``depth`` of them a place; ``start`` is a scalar that changes nothing.
    """
    wide = SCATTERED_BY_WAY.get(dtype) if reduction is not Reduction.NONE else None
    if wide is not None:
        base, updates, start = (t.cast(name, wide) for name in (base, updates, start))
        inner = scatter(
            t, base, indices, updates, reduction=reduction, dtype=wide, start=start, depth=depth
        )
        return t.cast(inner, dtype)
    if t.opset < LEAST_OPSET[reduction]:
        return _dense(
            t, base, indices, updates, reduction=reduction, dtype=dtype, start=start, depth=depth
        )
    attribute = None if reduction is Reduction.NONE else reduction.value
    return t.node("ScatterND", [base, indices, updates], reduction=attribute)


def _dense(
    t: Target,
    base: str,
    indices: str,
    updates: str,
    *,
    reduction: Reduction,
    dtype: DType,
    start: str,
    depth: int,
) -> str:
    """Each place of ``base`` looks through all updates for its own: exact, but large."""
    wide = _WIDE.get(dtype, dtype)
    if wide is not dtype:
        base, updates, start = (t.cast(name, wide) for name in (base, updates, start))
    shape = t.node("Shape", [base])
    zero = t.const([0])
    lead = t.node("Slice", [shape, zero, t.const([depth]), zero])
    rest = cut(t, shape, depth)
    # places [1, updates, 1]; values [1, updates, rest]; the mask [base places, updates, 1]
    places = t.reshape(_linear(t, indices, lead, depth), [1, -1, 1])
    size = t.node("ReduceProd", [rest], axes=[0], keepdims=1)
    values = t.node("Reshape", [updates, vector(t, [1, -1, size])])
    every = counted(t, t.node("ReduceProd", [lead], axes=[0], keepdims=1))
    mask = t.node("Equal", [t.reshape(every, [-1, 1, 1]), places])
    chosen = select(t, mask, values, start, dtype=wide)
    reducer = _REDUCERS[reduction]
    if reducer == "ReduceSum":
        reduced = t.node(reducer, [chosen, t.const([1])], keepdims=0)
    else:
        reduced = t.node(reducer, [chosen], axes=[1], keepdims=0)
    other = t.node("Reshape", [reduced, shape])
    if reduction in _EXTREMES:
        together = extreme(t, _EXTREMES[reduction], [base, other], wide)
    else:
        together = t.node("Add" if reduction is Reduction.ADD else "Mul", [base, other])
    return together if wide is dtype else t.cast(together, dtype)


def _linear(t: Target, indices: str, lead: str, depth: int) -> str:
    """Each place as one number, row-major."""
    result = ""
    for axis in range(depth):
        part = t.node("Gather", [indices, t.const(np.int64(axis))], axis=-1)
        if result:
            extent = t.node("Gather", [lead, t.const(np.int64(axis))])
            part = t.node("Add", [t.node("Mul", [result, extent]), part])
        result = part
    return result
