"""Ops that cut, pad, turn round or overwrite: on codes."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.onnx.bounds import bounded_elements
from nnconv.formats.onnx.channels import adds_channels, more_channels
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import (
    Extent,
    codes_as,
    combine,
    extent,
    extent_name,
    extents,
    index,
)
from nnconv.formats.onnx.types import UNPACKED
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import quantize
from nnconv.ir.types import static_shape
from nnconv.ops.slices import (
    DynamicUpdateSlice,
    Pad,
    PadMode,
    Reverse,
    ReverseSequence,
    Slice,
)

_AXES_OPSET, _WRAP_OPSET = 18, 19

_FAR = int(np.iinfo(np.int64).max)
"""Behind every end; its negative lies before every start."""


def export_slice(node: Node, t: Target) -> None:
    """Slice: dimensions taken whole are left out where all bounds are known."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, Slice)
    if op.starts is not None and op.ends is not None and op.strides is not None:
        bounds = [
            (axis, *_bounds(start, end, stride), stride)
            for axis, (start, end, stride) in enumerate(
                zip(op.starts, op.ends, op.strides, strict=True)
            )
            if (start or 0, end, stride) != (0, None, 1)
        ]
        t.set_codes(y, _cut(t, t.codes(x), bounds))
        return
    operands = [*node.inputs, None, None, None]
    rank = next(len(v) for v in (op.starts, op.ends, op.strides, y.shape) if v is not None)
    pairs = [
        _bounds(
            op.starts[i] if op.starts is not None else None,
            op.ends[i] if op.ends is not None else None,
            op.strides[i] if op.strides is not None else 1,
        )
        for i in range(rank)
    ]
    starts = t.const([p[0] for p in pairs]) if op.starts is not None else t.int64(operands[1])
    ends = t.const([p[1] for p in pairs]) if op.ends is not None else t.int64(operands[2])
    steps = t.const(list(op.strides)) if op.strides is not None else t.int64(operands[3])
    axes = t.const(list(range(rank)))
    t.set_codes(y, t.node("Slice", [t.codes(x), starts, ends, axes, steps]))


def _bounds(start: int | None, end: int | None, stride: int) -> tuple[int, int]:
    if stride > 0:
        return (0 if start is None else start), (_FAR if end is None else end)
    return (_FAR if start is None else start), (-_FAR if end is None else end)


def _cut(t: Target, name: str, bounds: list[tuple[int, int, int, int]]) -> str:
    """A Slice by (axis, start, end, stride) each; the value itself if there is none."""
    if not bounds:
        return name
    axes, starts, ends, strides = (t.const(list(column)) for column in zip(*bounds, strict=True))
    return t.node("Slice", [name, starts, ends, axes, strides])


# -------------------------------------------------------------------- padding

_PAD_THROUGH = {
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.INT4: DType.INT8,
    DType.UINT4: DType.UINT8,
    DType.BFLOAT16: DType.FLOAT32,
}
"""Types that onnxruntime doesn't pad, and what does in their place."""


def export_pad(node: Node, t: Target) -> None:
    """Pad: of codes with the zero point, so that real zero is meant."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Pad)
    if op.before is not None and not any((*op.before, *(op.after or ()))):
        t.set_codes(y, t.codes(x))
        return
    if not t.plain and adds_channels(op, node):
        t.set_codes(y, more_channels(t, x, op))
        return
    inner = t.inner_type(y)
    through = _PAD_THROUGH.get(inner)
    name = t.codes(x) if through is None else t.cast(t.codes(x), through)
    if op.mode is PadMode.SYMMETRIC:
        name = _symmetric(op, node, t, name)
    elif op.mode is PadMode.WRAP and t.opset < _WRAP_OPSET:
        name = _wrapped(op, x, t, name)
    else:
        named = op.before is None and op.axes is not None and op.flat and t.opset >= _AXES_OPSET
        inputs = [name, t.int64(node.inputs[1]) if named else _pads(op, node, t)]
        if op.mode is PadMode.CONSTANT:
            value = _pad_value(op, node, t)
            inputs.append(value if through is None else t.cast(value, through))
        if named and op.axes is not None:
            inputs += [*[""] * (3 - len(inputs)), t.const(list(op.axes))]
        name = t.node("Pad", inputs, mode=op.mode.value)
    t.set_codes(y, name if through is None else t.cast(name, inner))


def _pads(op: Pad, node: Node, t: Target) -> str:
    if op.before is not None and op.after is not None:
        return t.const([*op.before, *op.after])
    pairs = t.int64(node.inputs[1])
    if not op.flat:
        pairs = t.reshape(t.node("Transpose", [pairs], perm=(1, 0)), [-1])
    if op.axes is None:
        return pairs
    x = node.operand(0)
    if x.shape is None:
        raise t.unsupported("the rank isn't known")
    count, places = len(op.axes), [2 * len(op.axes)] * (2 * len(x.shape))
    for i, axis in enumerate(op.axes):
        places[axis], places[len(x.shape) + axis] = i, count + i
    with_zero = t.node("Concat", [pairs, t.const([0])], axis=0)
    return t.node("Gather", [with_zero, t.const(places)])


def _wrapped(op: Pad, x: Value, t: Target, name: str) -> str:
    """Each dimension anew, over and over, by Gathers."""
    shape = static_shape(x.shape)
    if op.before is None or op.after is None or shape is None:
        t.require_opset(_WRAP_OPSET, "wrapping pads of extents that aren't known")
        return name
    for axis, (head, tail, n) in enumerate(zip(op.before, op.after, shape, strict=True)):
        if head or tail:
            places = np.arange(-head, n + tail, dtype=np.int64) % max(n, 1)
            name = t.node("Gather", [name, t.const(places)], axis=axis)
    return name


def pad_with_zero(t: Target, name: str, x: Value, pads: list[tuple[int, int]] | str) -> str:
    """The codes ``name`` of x with real zeros around.

    ``pads`` is one (before, after) pair a dimension, or the ONNX operand.
    """
    if not isinstance(pads, str):
        if not any(any(pair) for pair in pads):
            return name
        pads = t.const([before for before, _ in pads] + [after for _, after in pads])
    through = _PAD_THROUGH.get(t.inner_type(x))
    zero = _real_constant(t, 0.0, x)
    if through is None:
        return t.node("Pad", [name, pads, zero])
    padded = t.node("Pad", [t.cast(name, through), pads, t.cast(zero, through)])
    return t.cast(padded, t.inner_type(x))


def _pad_value(op: Pad, node: Node, t: Target) -> str:
    y = node.outputs[0]
    value = node.optional(2)
    if value is not None:
        name = codes_as(t, value, y)
        return name if value.shape == () else t.reshape(name, [])
    return _real_constant(t, op.value, y)


def _real_constant(t: Target, value: float, like: Value) -> str:
    """The code of a real number in the type and parameters of ``like``."""
    dtype = t.inner_type(like)
    if t.is_quantized(like):
        code = quantize(np.asarray(value, np.float64), t.inner_quant(like), dtype)
        return t.const(np.asarray(code), dtype)
    return t.const(np.asarray(value).astype(dtype.numpy), dtype)


def _symmetric(op: Pad, node: Node, t: Target, name: str) -> str:
    """The edges mirrored with their own element: reversed Slices, joined; at run time a Gather."""
    x = node.operand(0)
    if op.before is not None and op.after is not None:
        for axis, (head, tail) in enumerate(zip(op.before, op.after, strict=True)):
            parts = [name]
            if head:
                parts.insert(0, _cut(t, name, [(axis, head - 1, -_FAR, -1)]))
            if tail:
                parts.append(_cut(t, name, [(axis, -1, -tail - 1, -1)]))
            if len(parts) > 1:
                name = t.node("Concat", parts, axis=axis)
        return name
    if x.shape is None:
        raise t.unsupported("the pads are computed at run time, and the rank isn't known")
    if op.flat or op.axes is not None:
        raise t.unsupported("symmetric pads of that form")
    pairs = t.reshape(t.int64(node.inputs[1]), [-1])
    for axis in range(len(x.shape)):
        length = t.reshape(extent_name(t, extent(t, x, axis)), [])
        before, after = (t.node("Gather", [pairs, index(t, 2 * axis + i)]) for i in (0, 1))
        places = t.node(
            "Range",
            [t.node("Neg", [before]), t.node("Add", [length, after]), index(t, 1)],
        )
        # -1 - i before the start, i inside, 2 n - 1 - i behind the end
        minus_one = index(t, -1)
        inside = t.node("Max", [places, t.node("Sub", [minus_one, places])])
        twice = t.node("Add", [t.node("Add", [length, length]), minus_one])
        places = t.node("Min", [inside, t.node("Sub", [twice, inside])])
        name = t.node("Gather", [name, places], axis=axis)
    return name


# -------------------------------------------------------------------- turning round, overwriting


def export_reverse(node: Node, t: Target) -> None:
    """Reverse: a Slice backward."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Reverse)
    bounds = [(axis, _FAR, -_FAR, -1) for axis in sorted(op.axes)]
    t.set_codes(node.outputs[0], _cut(t, t.codes(x), bounds))


_NO_REVERSE_SEQUENCE = {**UNPACKED, DType.BFLOAT16: DType.FLOAT32}
"""Types without a kernel of ReverseSequence, and the type to go through."""


def export_reverse_sequence(node: Node, t: Target) -> None:
    """ReverseSequence: ONNX has it for the first two dimensions."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, ReverseSequence)
    if x.shape is None:
        raise t.unsupported("the rank isn't known")
    name, lengths = t.codes(x), t.int64(node.inputs[1])
    dtype = t.inner_type(x)
    wide = _NO_REVERSE_SEQUENCE.get(dtype)
    name = name if wide is None else t.cast(name, wide)
    rank = len(x.shape)
    if {op.axis, op.batch_axis} == {0, 1}:
        result = t.node(
            "ReverseSequence", [name, lengths], time_axis=op.axis, batch_axis=op.batch_axis
        )
        t.set_codes(node.outputs[0], result if wide is None else t.cast(result, dtype))
        return
    rest = [i for i in range(rank) if i not in (op.axis, op.batch_axis)]
    perm = (op.batch_axis, op.axis, *rest)
    inverse = tuple(perm.index(i) for i in range(rank))
    moved = t.node("Transpose", [name], perm=perm)
    turned = t.node("ReverseSequence", [moved, lengths], time_axis=1, batch_axis=0)
    result = t.node("Transpose", [turned], perm=inverse)
    t.set_codes(node.outputs[0], result if wide is None else t.cast(result, dtype))


def export_dynamic_update_slice(node: Node, t: Target) -> None:
    """DynamicUpdateSlice: ScatterND; dimensions at the end that the update fills need no index."""
    x, update, starts = (node.operand(i) for i in range(3))
    y = node.outputs[0]
    if x.shape is None or update.shape is None:
        raise t.unsupported("the rank isn't known")
    data, new = codes_as(t, x, y), codes_as(t, update, y)
    if x.shape == ():
        t.set_codes(y, new)
        return
    depth = len(x.shape)
    while depth > 1 and _equal(x.shape[depth - 1], update.shape[depth - 1]):
        depth -= 1
    indices = t.node("Add", [_grid(t, update, depth), _clamped(t, x, update, starts, depth)])
    if static_shape(update.shape) is None:
        tail = [extent(t, update, axis) for axis in range(depth, len(update.shape))]
        count: Extent = extent(t, update, 0)
        for axis in range(1, depth):
            count = combine(t, "Mul", count, extent(t, update, axis))
        new = t.node("Reshape", [new, extents(t, [count, *tail])])
    dtype = t.inner_type(y)
    wide = UNPACKED.get(dtype, dtype)
    if wide is not dtype:
        data, new = t.cast(data, wide), t.cast(new, wide)
    result = t.node("ScatterND", [data, indices, new])
    t.set_codes(y, result if wide is dtype else t.cast(result, dtype))


def _equal(a: object, b: object) -> bool:
    return a is not None and a == b


def _grid(t: Target, update: Value, depth: int) -> str:
    """The place of each element (or stretch) of the update in the update itself."""
    dims = static_shape(update.shape)
    if dims is not None:
        bounded_elements(t, depth * math.prod(dims[:depth]))
        grid = np.indices(dims[:depth], np.int64)
        return t.const(np.ascontiguousarray(np.moveaxis(grid, 0, -1)))
    sizes = [extent_name(t, extent(t, update, axis)) for axis in range(depth)]
    shape = sizes[0] if depth == 1 else t.node("Concat", sizes, axis=0)
    ones = t.node("Expand", [t.const([1]), shape])
    return t.node("Transpose", [t.node("NonZero", [ones])], perm=(1, 0))


def _clamped(t: Target, x: Value, update: Value, starts: Value, depth: int) -> str:
    """The first ``depth`` starts, moved so that the update fits."""
    rooms = [
        combine(t, "Sub", extent(t, x, axis), extent(t, update, axis)) for axis in range(depth)
    ]
    if all(isinstance(room, int) for room in rooms):
        last = t.const([room for room in rooms if isinstance(room, int)])
    else:
        last = t.node("Concat", [extent_name(t, room) for room in rooms], axis=0)
    first = t.int64(starts)
    if starts.shape is None or starts.shape != (depth,):
        first = _cut(t, first, [(0, 0, depth, 1)])
    return t.node("Max", [t.node("Min", [first, last]), t.const([0])])


EXPORTERS: dict[type[Op], Exporter] = {
    Slice: export_slice,
    Pad: export_pad,
    Reverse: export_reverse,
    ReverseSequence: export_reverse_sequence,
    DynamicUpdateSlice: export_dynamic_update_slice,
}
