"""Ops that move, repeat or join elements: on codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.turn import turn
from nnconv.formats.onnx.weights import is_turned_back
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import static_shape
from nnconv.ops import shape as s
from nnconv.ops.conv import Conv2D
from nnconv.ops.pool import AveragePool2D
from nnconv.ops.reduce import ReduceMean


def codes_as(t: Target, value: Value | None, like: Value) -> str:
    """The codes of ``value`` in the form that those of ``like`` have inside."""
    assert value is not None
    if t.is_resigned(value) == t.is_resigned(like):
        return t.codes(value)
    return t.resigned(t.stored(value)) if t.is_resigned(like) else t.stored(value)


def scalar(t: Target, value: Value) -> str:
    """The codes of a value of one element, as a scalar."""
    name = t.codes(value)
    return name if value.shape == () else t.reshape(name, [])


def index(t: Target, place: int) -> str:
    """An int64 scalar."""
    return t.const(np.asarray(place, np.int64))


# -------------------------------------------------------------------- extents at run time

Extent = int | str
"""A number, or the name of an int64 tensor of one element."""


def extent(t: Target, value: Value, axis: int) -> Extent:
    """An extent of a value, read at run time where it isn't known."""
    dim = value.shape[axis] if value.shape is not None else None
    return dim if isinstance(dim, int) else extent_of(t, t.codes(value), axis)


def extent_of(t: Target, name: str, axis: int) -> str:
    """An extent of an ONNX value, as a rank-1 tensor of one element."""
    sizes = t.node("Shape", [name])
    return t.node("Slice", [sizes, t.const([axis]), t.const([axis + 1])])


def extent_name(t: Target, size: Extent) -> str:
    """An extent as a rank-1 tensor of one element."""
    return t.const([size]) if isinstance(size, int) else size


def combine(t: Target, op_type: str, a: Extent, b: Extent) -> Extent:
    """``a + b``, ``a - b``, ``a * b`` or ``a // b`` (ONNX Add, Sub, Mul, Div)."""
    if isinstance(a, int) and isinstance(b, int):
        rules = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Div": a // b if b else 0}
        return rules[op_type]
    if b == (0 if op_type in ("Add", "Sub") else 1):
        return a
    if (op_type, a) in (("Add", 0), ("Mul", 1)):
        return b
    return t.node(op_type, [extent_name(t, a), extent_name(t, b)])


def extents(t: Target, sizes: Sequence[Extent]) -> str:
    """A shape: a constant where it can be one, with at most one -1 for what isn't known."""
    unknown = [i for i, size in enumerate(sizes) if isinstance(size, str)]
    if len(unknown) <= 1 and 0 not in sizes:
        return t.const([size if isinstance(size, int) else -1 for size in sizes])
    return t.node("Concat", [extent_name(t, size) for size in sizes], axis=0)


# -------------------------------------------------------------------- shapes of one tensor


def export_identity(node: Node, t: Target) -> None:
    """Identity."""
    t.set_codes(node.outputs[0], t.node("Identity", [t.codes(node.inputs[0])]))


def _allowzero(t: Target, sizes: Value) -> int | None:
    """What says that 0 is 0, where a Reshape's shape is an input: a program may give any.

    Of computed shapes onnxruntime makes constants, with 0 for an extent that stays: older versions
    even where 0 is 0, which newer ones leave as they are.
    """
    return 1 if sizes.producer is None and t.opset >= 14 else None


def export_reshape(node: Node, t: Target) -> None:
    """Reshape.

    8-bit codes [N, C, 1, 1] become [N, C] from NHWC, where onnxruntime's integer kernels have them:
    its own transpose and this one go, while it leaves the one before a Reshape.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Reshape)
    if is_turned_back(node):
        return
    if _drops_extents_of_conv(x, y) and op.shape is not None:
        last = t.node("Transpose", [t.codes(x)], perm=(0, 2, 3, 1))
        t.set_codes(y, t.node("Squeeze", [last, t.const([1, 2])]))
        return
    if op.shape is None:
        sizes = node.operand(1)
        inputs = [t.codes(x), t.int64(sizes)]
        t.set_codes(y, t.node("Reshape", inputs, allowzero=_allowzero(t, sizes)))
        return
    if 0 not in op.shape:
        t.set_codes(y, t.reshape(t.codes(x), op.shape))
        return
    fixed = [max(d, 0) for d in op.shape]  # without elements any extent will do for -1
    if t.opset >= 14:
        result = t.node("Reshape", [t.codes(x), t.const(fixed)], allowzero=1)
    else:
        empty = t.node("ConstantOfShape", [t.const(fixed)])
        result = t.cast(empty, t.inner_type(y))
    t.set_codes(y, result)


def _drops_extents_of_conv(x: Value, y: Value) -> bool:
    """Whether ``y`` is [N, C] of an integer kernel's 8-bit codes [N, C, 1, 1]."""
    if x.quant is None or x.dtype.bits != 8 or x.shape is None or x.producer is None:
        return False
    if x.type.rank != 4 or x.shape[2:] != (1, 1) or y.shape != x.shape[:2] or None in x.shape:
        return False
    return isinstance(x.producer.op, Conv2D | AveragePool2D | ReduceMean)


def export_squeeze(node: Node, t: Target) -> None:
    """Squeeze, Unsqueeze."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, s.Squeeze | s.Unsqueeze)
    name = t.codes(x)
    if op.axes:
        name = t.node(op.name, [name, t.const(list(op.axes))])
    t.set_codes(node.outputs[0], name)


def export_transpose(node: Node, t: Target) -> None:
    """Transpose; with a permutation known at run time a Gather of the elements by their places."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Transpose)
    if is_turned_back(node):
        return
    if op.perm is not None:
        t.set_codes(y, turn(t, t.codes(x), op.perm, static_shape(x.shape)))
        return
    if x.shape is None:
        raise t.unsupported("the permutation is computed at run time, and the rank isn't known")
    rank = len(x.shape)
    perm = t.int64(node.inputs[1])
    steps: list[Extent] = [1]
    for axis in range(rank - 1, 0, -1):
        steps.insert(0, combine(t, "Mul", extent(t, x, axis), steps[0]))
    step_of = t.node("Gather", [_vector(t, steps), perm])
    dims = t.node("Gather", [t.node("Shape", [t.codes(x)]), perm])
    places = t.const([0])
    for axis in range(rank):
        here = index(t, axis)
        count = t.node("Gather", [dims, here])
        along = t.node("Range", [index(t, 0), count, index(t, 1)])
        offsets = t.node("Mul", [along, t.node("Gather", [step_of, here])])
        column = t.node("Unsqueeze", [places, t.const([-1])]) if axis else places
        places = t.node("Add", [column, offsets])
    flat = t.reshape(t.codes(x), [-1])
    t.set_codes(y, t.node("Gather", [flat, places]))


def _vector(t: Target, sizes: Sequence[Extent]) -> str:
    if all(isinstance(size, int) for size in sizes):
        return t.const([size for size in sizes if isinstance(size, int)])
    return t.node("Concat", [extent_name(t, size) for size in sizes], axis=0)


# -------------------------------------------------------------------- several tensors


def export_concat(node: Node, t: Target) -> None:
    """Concat: of codes where all parameters agree, else of real values (six times slower)."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Concat)
    parts = [v for v in node.inputs if v is not None]
    if t.is_quantized(y) and any(v.type.quant != y.quant or v.dtype is not y.dtype for v in parts):
        real = t.node("Concat", [t.real(v) for v in parts], axis=op.axis)
        t.set_real(y, real, op.activation)
        return
    names = [codes_as(t, v, y) for v in parts]
    joined = names[0] if len(names) == 1 else t.node("Concat", names, axis=op.axis)
    if op.activation is Activation.NONE:
        t.set_codes(y, joined)
    elif t.is_quantized(y) and op.activation.bounds is not None and y.dtype.bits == 8:
        bounds = op.activation.bounds
        t.set_codes(y, t.clip_codes(joined, t.inner_quant(y), t.inner_type(y), bounds))
    elif t.is_quantized(y):
        t.set_real(y, t.dequantize(joined, t.inner_quant(y), t.inner_type(y)), op.activation)
    else:
        t.set_codes(y, t.activate(joined, op.activation, y))


def export_stack(node: Node, t: Target) -> None:
    """Stack: Unsqueeze each, Concat."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Stack)
    axes = t.const([op.axis])
    parts = [t.node("Unsqueeze", [codes_as(t, v, y), axes]) for v in node.inputs]
    t.set_codes(y, parts[0] if len(parts) == 1 else t.node("Concat", parts, axis=op.axis))


def export_unstack(node: Node, t: Target) -> None:
    """Unstack: Split, Squeeze each."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, s.Unstack)
    axes, parts = t.const([op.axis]), [t.codes(x)]
    if op.count > 1:
        sizes = t.const([1] * op.count)
        parts = t.nodes_of("Split", [*parts, sizes], op.count, axis=op.axis)
    for value, part in zip(node.outputs, parts, strict=True):
        t.set_codes(value, t.node("Squeeze", [part, axes]))


def export_split(node: Node, t: Target) -> None:
    """Split."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Split)
    if len(op.sizes) == 1:
        t.set_codes(node.outputs[0], t.codes(x))
        return
    sizes: list[Extent] = list(op.sizes)
    if -1 in op.sizes:
        given = sum(size for size in op.sizes if size >= 0)
        sizes[op.sizes.index(-1)] = combine(t, "Sub", extent(t, x, op.axis), given)
    results = t.nodes_of("Split", [t.codes(x), _vector(t, sizes)], len(sizes), axis=op.axis)
    for value, name in zip(node.outputs, results, strict=True):
        t.set_codes(value, name)


# -------------------------------------------------------------------- repeating


def export_tile(node: Node, t: Target) -> None:
    """Tile."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, s.Tile)
    repeats = t.int64(node.inputs[1]) if op.repeats is None else t.const(list(op.repeats))
    through(node, t, "Tile", [t.codes(x), repeats])


def export_broadcast_to(node: Node, t: Target) -> None:
    """BroadcastTo."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, s.BroadcastTo)
    shape = t.int64(node.inputs[1]) if op.shape is None else t.const(list(op.shape))
    through(node, t, "Expand", [t.codes(x), shape])


def export_fill(node: Node, t: Target) -> None:
    """Fill: Expand of the scalar."""
    op, value, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Fill)
    if op.shape == ():
        t.set_codes(y, scalar(t, value))
        return
    shape = t.int64(node.inputs[1]) if op.shape is None else t.const(list(op.shape))
    through(node, t, "Expand", [scalar(t, value), shape])


_NO_REPEAT = {DType.BFLOAT16: DType.FLOAT32, DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}
"""Types that onnxruntime doesn't repeat, and what does in their place."""


def through(node: Node, t: Target, op_type: str, inputs: list[str]) -> None:
    """A node that repeats codes, by way of a type that onnxruntime repeats."""
    y = node.outputs[0]
    detour = _NO_REPEAT.get(t.inner_type(y))
    if detour is None:
        t.set_codes(y, t.node(op_type, inputs))
        return
    name = t.node(op_type, [t.cast(inputs[0], detour), *inputs[1:]])
    t.set_codes(y, t.cast(name, t.inner_type(y)))


_RANGE_TYPES = frozenset(
    {DType.FLOAT32, DType.FLOAT64, DType.INT16, DType.INT32, DType.INT64},
)


def export_range(node: Node, t: Target) -> None:
    """Range."""
    y = node.outputs[0]
    names = []
    for value in node.inputs:
        assert value is not None
        name = t.stored(value)
        names.append(name if value.shape == () else t.reshape(name, []))
    if y.dtype in _RANGE_TYPES:
        t.set_stored(y, t.node("Range", names))
        return
    wide = DType.FLOAT32 if y.dtype.is_float else DType.INT64
    result = t.node("Range", [t.cast(name, wide) for name in names])
    t.set_stored(y, t.cast(result, y.dtype))


# -------------------------------------------------------------------- about shapes


def export_shape_of(node: Node, t: Target) -> None:
    """ShapeOf."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.ShapeOf)
    known = None
    if x.shape is not None:
        dims = range(len(x.shape)) if op.dims is None else op.dims
        known = static_shape(tuple(x.shape[d] for d in dims))
    if known is not None:
        t.set_stored(y, t.const(np.asarray(known, op.dtype.numpy)))
        return
    first = op.dims[0] if op.dims else 0
    if op.dims is not None and op.dims == tuple(range(first, first + len(op.dims))):
        sizes = _stretch(t, t.codes(x), first, first + len(op.dims))
    else:
        sizes = t.node("Shape", [t.codes(x)])
        if op.dims is not None:
            sizes = t.node("Gather", [sizes, t.const(list(op.dims))])
    t.set_stored(y, sizes if op.dtype is DType.INT64 else t.cast(sizes, op.dtype))


def _stretch(t: Target, name: str, start: int, end: int) -> str:
    """Some neighbouring extents."""
    if t.opset >= 15:
        return t.node("Shape", [name], start=start or None, end=end)
    return t.node("Slice", [t.node("Shape", [name]), t.const([start]), t.const([end])])


def export_rank(node: Node, t: Target) -> None:
    """Rank."""
    x = node.operand(0)
    if x.shape is not None:
        t.set_stored(node.outputs[0], t.const(np.asarray(len(x.shape), np.int32)))
        return
    size = t.node("Size", [t.node("Shape", [t.codes(x)])])
    t.set_stored(node.outputs[0], t.cast(size, DType.INT32))


def export_size(node: Node, t: Target) -> None:
    """Size."""
    t.set_stored(node.outputs[0], t.node("Size", [t.codes(node.inputs[0])]))


def export_broadcast_args(node: Node, t: Target) -> None:
    """BroadcastArgs: ones before the shorter shape, then a's extent, or b's where a's is 1."""
    a, b = (node.operand(i) for i in range(2))
    y = node.outputs[0]
    counts = [extent(t, v, 0) for v in (a, b)]
    sides = [t.int64(a), t.int64(b)]
    for i in (0, 1):
        missing = combine(t, "Sub", counts[1 - i], counts[i])
        if isinstance(missing, str):
            missing = t.node("Max", [missing, t.const([0])])
        elif missing <= 0:
            continue
        ones = t.node("Expand", [t.const([1]), extent_name(t, missing)])
        sides[i] = t.node("Concat", [ones, sides[i]], axis=0)
    is_one = t.node("Equal", [sides[0], t.const([1])])
    result = t.node("Where", [is_one, sides[1], sides[0]])
    t.set_stored(y, result if y.dtype is DType.INT64 else t.cast(result, y.dtype))


EXPORTERS: dict[type[Op], Exporter] = {
    s.Identity: export_identity,
    s.Reshape: export_reshape,
    s.Squeeze: export_squeeze,
    s.Unsqueeze: export_squeeze,
    s.Transpose: export_transpose,
    s.Concat: export_concat,
    s.Stack: export_stack,
    s.Unstack: export_unstack,
    s.Split: export_split,
    s.Tile: export_tile,
    s.BroadcastTo: export_broadcast_to,
    s.Fill: export_fill,
    s.Range: export_range,
    s.ShapeOf: export_shape_of,
    s.Rank: export_rank,
    s.Size: export_size,
    s.BroadcastArgs: export_broadcast_args,
}
