"""Ops that pick elements by index, or put them at indices."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exact import select
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import extent, extent_name
from nnconv.formats.onnx.scatter import (
    FAR,
    LEAST_OPSET,
    SCATTERED_BY_WAY,
    counted,
    cut,
    rank_of,
    scatter,
)
from nnconv.formats.onnx.spelled import export_in_parts
from nnconv.formats.onnx.types import UNPACKED
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Dim
from nnconv.ops import gather as g

_NO_TOP_K = {
    DType.UINT16: DType.INT32,
    DType.UINT32: DType.INT64,
    DType.INT4: DType.INT8,
    DType.UINT4: DType.UINT8,
    DType.BFLOAT16: DType.FLOAT32,
}
"""Types without a kernel of TopK, and the type to go through."""

_NO_COMPRESS = {**UNPACKED, DType.BFLOAT16: DType.FLOAT32}
"""Types without a kernel of Compress, and the type to go through."""

_UNIQUE_TYPES = frozenset({DType.INT8, DType.INT64, DType.FLOAT32, DType.FLOAT64})
_NON_ZERO_TYPES = frozenset({DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL})


def _indices(t: Target, value: Value) -> str:
    """Indices as Gather takes them: int32 or int64."""
    return t.stored(value) if value.dtype is DType.INT32 else t.int64(value)


def _picked(node: Node, t: Target, op_type: str, indices: str, **attributes: int | None) -> str:
    """A node that picks codes of the first operand."""
    x = node.operand(0)
    dtype, name = t.inner_type(x), t.codes(x)
    wide = UNPACKED.get(dtype)
    if wide is None:
        return t.node(op_type, [name, indices], **attributes)
    return t.cast(t.node(op_type, [t.cast(name, wide), indices], **attributes), dtype)


def _even_steps(indices: Value, extent: Dim) -> tuple[int, int, int] | None:
    """Start, end and step of a Slice that picks the same, on the last axis in 1/30 of the time.

    Where all are known to lie within the extent: a Slice gives less than was asked for without a
    word.
    """
    if indices.data is None or indices.data.ndim != 1 or not indices.data.size:
        return None
    picks = indices.data.astype(np.int64)
    gaps = np.unique(np.diff(picks))
    step = int(gaps[0]) if gaps.size else 1
    if gaps.size > 1 or step < 1 or picks[0] < 0 <= picks[-1]:
        return None
    if not isinstance(extent, int) or picks[0] < -extent or picks[-1] >= extent:
        return None
    end = int(picks[-1]) + 1
    return int(picks[0]), end or FAR, step


def export_gather(node: Node, t: Target) -> None:
    """Gather; a Slice where the indices are evenly spaced.

    With batch dimensions it is GatherND, which wants the axis right behind them.
    """
    op, x, indices, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, g.Gather)
    steps = _even_steps(indices, x.shape[op.axis] if x.shape else None)
    if steps is not None and not op.batch_dims and t.inner_type(x) not in UNPACKED:
        start, end, step = steps
        bounds = [t.const([bound]) for bound in (start, end, op.axis, step)]
        t.set_codes(y, t.node("Slice", [t.codes(x), *bounds]))
        return
    if not op.batch_dims:
        t.set_codes(y, _picked(node, t, "Gather", _indices(t, indices), axis=op.axis))
        return
    batch, rank, moved = op.batch_dims, rank_of(t, x), op.axis - op.batch_dims
    name, dtype = t.codes(x), t.inner_type(x)
    if moved:
        lead, middle = list(range(batch)), list(range(batch, op.axis))
        name = t.node(
            "Transpose", [name], perm=[*lead, op.axis, *middle, *range(op.axis + 1, rank)]
        )
    places = t.node("Unsqueeze", [t.int64(indices), t.const([-1])])
    wide = UNPACKED.get(dtype)
    name = name if wide is None else t.cast(name, wide)
    name = t.node("GatherND", [name, places], batch_dims=batch)
    name = name if wide is None else t.cast(name, dtype)
    if (
        moved
    ):  # behind the batch now: the indices' dimensions, then those that stood before the axis
        inner = rank_of(t, indices) - batch
        total = rank - 1 + inner
        middle = list(range(batch + inner, batch + inner + moved))
        picked = list(range(batch, batch + inner))
        rest = range(batch + inner + moved, total)
        name = t.node("Transpose", [name], perm=[*range(batch), *middle, *picked, *rest])
    t.set_codes(y, name)


def export_gather_nd(node: Node, t: Target) -> None:
    """GatherNd."""
    op, indices, y = node.op, node.inputs[1], node.outputs[0]
    assert isinstance(op, g.GatherNd)
    batch = op.batch_dims or None
    t.set_codes(y, _picked(node, t, "GatherND", t.int64(indices), batch_dims=batch))


def export_scatter_nd(node: Node, t: Target) -> None:
    """ScatterNd: on the stored numbers."""
    op, y = node.op, node.outputs[0]
    x, indices, updates = (node.operand(i) for i in range(3))
    assert isinstance(op, g.ScatterNd)
    depth = indices.shape[-1] if indices.shape else None
    if not isinstance(depth, int):
        raise t.unsupported("how many indices a place has isn't known")
    result = scatter(
        t,
        t.stored(x),
        t.int64(indices),
        t.stored(updates),
        reduction=op.reduction,
        dtype=x.dtype,
        start=t.const(np.asarray(op.reduction.start(x.dtype), x.dtype.numpy)),
        depth=depth,
    )
    t.set_stored(y, result)


def export_gather_elements(node: Node, t: Target) -> None:
    """GatherElements."""
    op, indices, y = node.op, node.operand(1), node.outputs[0]
    assert isinstance(op, g.GatherElements)
    t.set_codes(y, _picked(node, t, "GatherElements", _indices(t, indices), axis=op.axis))


def export_scatter_elements(node: Node, t: Target) -> None:
    """ScatterElements; ScatterND at opsets whose ScatterElements lacks the reduction."""
    op, y = node.op, node.outputs[0]
    x, indices, updates = (node.operand(i) for i in range(3))
    assert isinstance(op, g.ScatterElements)
    names = [t.stored(x), t.stored(updates)]
    places = _indices(t, indices)
    wide = SCATTERED_BY_WAY.get(x.dtype) if op.reduction is not g.Reduction.NONE else None
    wide = wide or UNPACKED.get(x.dtype)
    if t.opset >= LEAST_OPSET[op.reduction]:
        if wide is not None:
            names = [t.cast(name, wide) for name in names]
        reduction = None if op.reduction is g.Reduction.NONE else op.reduction.value
        operands = [names[0], places, names[1]]
        result = t.node("ScatterElements", operands, axis=op.axis, reduction=reduction)
        t.set_stored(y, result if wide is None else t.cast(result, x.dtype))
        return
    rank = rank_of(t, x)
    every = t.node("NonZero", [t.node("Expand", [t.const([1]), t.node("Shape", [places])])])
    own = t.node("Transpose", [every], perm=[1, 0])
    column = t.reshape(t.int64(indices), [-1, 1])
    parts = [cut(t, own, 0, op.axis, axis=1)] if op.axis else []
    parts.append(column)
    if op.axis + 1 < rank:
        parts.append(cut(t, own, op.axis + 1, axis=1))
    result = scatter(
        t,
        names[0],
        parts[0] if len(parts) == 1 else t.node("Concat", parts, axis=1),
        t.reshape(names[1], [-1]),
        reduction=op.reduction,
        dtype=x.dtype,
        start=t.const(np.asarray(op.reduction.start(x.dtype), x.dtype.numpy)),
        depth=rank,
    )
    t.set_stored(y, result)


def export_tensor_scatter(node: Node, t: Target) -> None:
    """TensorScatter; before opset 24 ScatterElements."""
    op, y = node.op, node.outputs[0]
    x, update, starts = node.operand(0), node.operand(1), node.optional(2)
    assert isinstance(op, g.TensorScatter)
    names = [t.stored(x), t.stored(update)]
    if t.opset >= 24:
        if starts is not None:
            names.append(t.int64(starts))
        mode = "circular" if op.circular else "linear"
        t.set_stored(y, t.node("TensorScatter", names, axis=op.axis, mode=mode))
        return
    rank = rank_of(t, x)
    places = counted(t, extent(t, update, op.axis))
    if starts is not None:
        column = t.reshape(t.int64(starts), [-1, *[1] * op.axis])
        places = t.node("Add", [column, places])
    if op.circular:
        places = t.node("Mod", [places, extent_name(t, extent(t, x, op.axis))])
    behind = list(range(-1, -rank + op.axis, -1))
    if behind:
        places = t.node("Unsqueeze", [places, t.const(sorted(behind))])
    places = t.node("Expand", [places, t.node("Shape", [names[1]])])
    wide = UNPACKED.get(x.dtype)
    if wide is not None:
        names = [t.cast(name, wide) for name in names]
    result = t.node("ScatterElements", [names[0], places, names[1]], axis=op.axis)
    t.set_stored(y, result if wide is None else t.cast(result, x.dtype))


def export_compress(node: Node, t: Target) -> None:
    """Compress."""
    op, x, condition = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.Compress)
    dtype, name = t.inner_type(x), t.codes(x)
    wide = _NO_COMPRESS.get(dtype)
    name = name if wide is None else t.cast(name, wide)
    result = t.node("Compress", [name, t.stored(condition)], axis=op.axis)
    t.set_codes(node.outputs[0], result if wide is None else t.cast(result, dtype))


_ONE_HOT = {
    DType.FLOAT32: DType.FLOAT32,
    DType.INT32: DType.INT32,
    DType.INT64: DType.INT64,
    DType.BOOL: DType.INT64,
    DType.INT8: DType.INT64,
    DType.UINT8: DType.INT64,
    DType.INT16: DType.INT64,
    DType.UINT16: DType.INT64,
    DType.UINT32: DType.INT64,
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
}
"""Types that onnxruntime's OneHot gives, or what it is done in instead."""


def _one_hot(node: Node, t: Target, wide: DType) -> None:
    """OneHot as ONNX has it, with the type that onnxruntime does it in."""
    op, y = node.op, node.outputs[0]
    indices, on, off = (node.operand(i) for i in range(3))
    depth = node.optional(3)
    assert isinstance(op, g.OneHot)
    if on.data is not None and off.data is not None:
        pair = np.concatenate([off.data.reshape(1), on.data.reshape(1)])
        values = t.const(pair.astype(wide.numpy))
    else:
        parts = [t.stored(v) if v.shape == (1,) else t.reshape(t.stored(v), [1]) for v in (off, on)]
        values = t.node("Concat", parts, axis=0)
        values = values if y.dtype is wide else t.cast(values, wide)
    count = t.const([op.depth]) if op.depth is not None else t.int64(depth)
    if wide is DType.INT32:  # onnxruntime has it with a depth of float32 alone
        known = None if op.depth is None else np.asarray([op.depth], np.float32)
        count = t.cast(count, DType.FLOAT32) if known is None else t.const(known)
    result = t.node("OneHot", [t.int64(indices), count, values], axis=op.axis)
    t.set_stored(y, result if y.dtype is wide else t.cast(result, y.dtype))


def export_one_hot(node: Node, t: Target) -> None:
    """OneHot with ``from_end``, else Equal and Where, or Cast for 1 and 0."""
    op, y = node.op, node.outputs[0]
    indices, on, off = (node.operand(i) for i in range(3))
    depth = node.optional(3)
    assert isinstance(op, g.OneHot)
    if op.from_end and y.dtype in _ONE_HOT:
        _one_hot(node, t, _ONE_HOT[y.dtype])
        return
    behind = rank_of(t, indices) - op.axis
    count = op.depth if op.depth is not None else t.reshape(t.int64(depth), [1])
    places = counted(t, count)
    if behind:
        places = t.reshape(places, [-1, *[1] * behind])
    picks = t.int64(indices)
    if op.from_end:
        below = t.node("Less", [picks, t.const(np.int64(0))])
        moved = t.node("Add", [picks, extent_name(t, count)])
        picks = t.node("Where", [below, moved, picks])
    spread = t.node("Unsqueeze", [picks, t.const([op.axis])])
    hit = t.node("Equal", [spread, places])
    if _is(on, 1) and _is(off, 0):
        t.set_stored(y, hit if y.dtype is DType.BOOL else t.cast(hit, y.dtype))
        return
    names = [t.stored(on), t.stored(off)]
    flat = [
        name if v.shape == () else t.reshape(name, [])
        for name, v in zip(names, (on, off), strict=True)
    ]
    t.set_stored(y, select(t, hit, flat[0], flat[1], dtype=y.dtype))


def _is(value: Value, number: int) -> bool:
    """Whether a constant of one element is ``number``, as a stored number."""
    return value.data is not None and bool(np.all(value.data == number))


def _vector(t: Target, value: Value | None) -> str:
    """A value of one element as an int64 vector."""
    assert value is not None
    name = t.int64(value)
    return name if value.shape == (1,) else t.reshape(name, [1])


def export_top_k(node: Node, t: Target) -> None:
    """TopK: on codes, whose order is that of what they stand for."""
    op, x = node.op, node.operand(0)
    values, indices = node.outputs
    assert isinstance(op, g.TopK)
    if op.last_first:
        export_in_parts(node, t)
        return
    count = t.const([op.k]) if op.k is not None else _vector(t, node.inputs[1])
    dtype, name = t.inner_type(x), t.codes(x)
    wide = _NO_TOP_K.get(dtype)
    name = name if wide is None else t.cast(name, wide)
    attributes = {} if op.largest else {"largest": 0}
    if not op.sorted:
        attributes["sorted"] = 0
    found, places = t.nodes_of("TopK", [name, count], 2, axis=op.axis, **attributes)
    t.set_codes(values, found if wide is None else t.cast(found, dtype))
    t.set_stored(
        indices, places if op.index_dtype is DType.INT64 else t.cast(places, op.index_dtype)
    )


def export_non_zero(node: Node, t: Target) -> None:
    """NonZero: ONNX has a column for each element."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, g.NonZero)
    name = t.stored(x)
    if x.dtype not in _NON_ZERO_TYPES:
        name = t.cast(name, DType.BOOL)
    found = t.node("NonZero", [name])
    t.set_stored(y, found if op.by_axis else t.node("Transpose", [found], perm=[1, 0]))


def export_unique(node: Node, t: Target) -> None:
    """Unique; integers go through int64 where onnxruntime lacks a kernel."""
    op, x = node.op, node.operand(0)
    values, places = node.outputs
    assert isinstance(op, g.Unique)
    dtype, name = t.inner_type(x), t.codes(x)
    wide = None
    if dtype not in _UNIQUE_TYPES:
        wide = DType.FLOAT32 if dtype.is_float else DType.INT64
        name = t.cast(name, wide)
    found, _, inverse = t.nodes_of("Unique", [name], 3, sorted=0)
    t.set_codes(values, found if wide is None else t.cast(found, dtype))
    t.set_stored(
        places, inverse if op.index_dtype is DType.INT64 else t.cast(inverse, op.index_dtype)
    )


def export_unique_slices(node: Node, t: Target) -> None:
    """Unique, with the results that are read."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.UniqueSlices)
    dtype, name = t.inner_type(x), t.codes(x)
    wide = None
    if dtype not in _UNIQUE_TYPES:
        wide = DType.FLOAT32 if dtype.is_float else DType.INT64
        name = t.cast(name, wide)
    wanted = [True, *(v.is_wanted for v in node.outputs[1:])]
    attributes = {} if op.sorted else {"sorted": 0}
    names = t.nodes_with("Unique", [name], wanted, axis=op.axis, **attributes)
    t.set_codes(node.outputs[0], names[0] if wide is None else t.cast(names[0], dtype))
    for value, found in zip(node.outputs[1:], names[1:], strict=False):
        if found:
            t.set_stored(value, found)


EXPORTERS: dict[type[Op], Exporter] = {
    g.Gather: export_gather,
    g.GatherNd: export_gather_nd,
    g.ScatterNd: export_scatter_nd,
    g.OneHot: export_one_hot,
    g.TopK: export_top_k,
    g.NonZero: export_non_zero,
    g.Unique: export_unique,
    g.GatherElements: export_gather_elements,
    g.ScatterElements: export_scatter_elements,
    g.TensorScatter: export_tensor_scatter,
    g.Compress: export_compress,
    g.UniqueSlices: export_unique_slices,
}
