"""Ops that move, repeat, cut or join elements; shapes."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.bounds import bounds_of
from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.types import CODES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import shape as s


def export_identity(node: Node, t: Target) -> None:
    """RESHAPE to the same shape: TFLite has no identity."""
    x = node.operand(0)
    if x.type.is_static or x.shape is None or sum(not isinstance(d, int) for d in x.shape) == 1:
        extents = [d if isinstance(d, int) else -1 for d in x.shape or ()]
        _reshape(t, t.tensor(x), node.outputs[0], t.ints(extents))
        return
    shape = t.result(
        "SHAPE",
        [t.tensor(x)],
        TensorType(DType.INT32, (len(x.shape),)),
        ("ShapeOptions", {"out_type": CODES[DType.INT32]}),
    )
    _reshape(t, t.tensor(x), node.outputs[0], shape)


def _reshape(t: Target, x: int, y: Value, shape: int) -> None:
    t.emit("RESHAPE", [x, shape], y, ("ReshapeOptions", {}))


def export_reshape(node: Node, t: Target) -> None:
    """RESHAPE; the shape as a constant of int32."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Reshape)
    if op.shape is None:
        target = node.operand(1)
        _reshape(t, t.tensor(x), node.outputs[0], t.index(target))
        return
    _reshape(t, t.tensor(x), node.outputs[0], t.ints(op.shape))


def export_squeeze(node: Node, t: Target) -> None:
    """SQUEEZE of rank 8 and less; Unsqueeze as RESHAPE where that follows an open extent."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Squeeze | s.Unsqueeze)
    if y.shape is not None and sum(not isinstance(d, int) for d in y.shape) <= 1:
        extents = [d if isinstance(d, int) else -1 for d in y.shape]
        if -1 not in extents or 0 not in extents:
            _reshape(t, t.tensor(x), y, t.ints(extents))
            return
    if isinstance(op, s.Squeeze):
        options = ("SqueezeOptions", {"squeeze_dims": op.axes})
        t.emit("SQUEEZE", [t.tensor(x)], y, options)
        return
    tensor, dims = t.tensor(x), None if x.shape is None else list(x.shape)
    for axis in op.axes[:-1]:
        if dims is not None:
            dims.insert(axis, 1)
        kind = TensorType(x.dtype, None if dims is None else tuple(dims), x.quant)
        tensor = t.result("EXPAND_DIMS", [tensor, t.ints([axis])], kind, ("ExpandDimsOptions", {}))
    t.emit("EXPAND_DIMS", [tensor, t.ints([op.axes[-1]])], y, ("ExpandDimsOptions", {}))


def export_transpose(node: Node, t: Target) -> None:
    """TRANSPOSE, which LiteRT has no kernel of for strings."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    if x.dtype is DType.STRING:
        raise t.refused(f"operand `{x.name}` is {x.type}")
    assert isinstance(op, s.Transpose)
    if op.perm is None:
        given = node.operand(1)
        perm = t.index(given)
    else:
        perm = t.ints(op.perm)
    t.emit("TRANSPOSE", [t.tensor(x), perm], y, ("TransposeOptions", {}))


_JOINED = frozenset(
    {
        DType.BOOL,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.INT32,
        DType.UINT32,
        DType.INT64,
        DType.FLOAT16,
        DType.FLOAT32,
    }
)
_DELEGATED = frozenset({DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.UINT8})
MOST_DELEGATED = 6
"""XNNPACK refuses a file in which it should join or split tensors of more dimensions."""


def too_deep(value: Value) -> bool:
    """Whether XNNPACK would refuse the file for this operand's rank."""
    rank = value.type.rank
    return value.dtype in _DELEGATED and rank is not None and rank > MOST_DELEGATED


def export_concat(node: Node, t: Target) -> None:
    """CONCATENATION; int8 kernels want all operands under the result's parameters."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Concat)
    t.require(node, plain=_JOINED, codes=_JOINED)
    if too_deep(y):
        raise t.refused(f"CONCATENATION of rank {y.type.rank}")
    parts = [
        t.tensor(v) if y.quant is None or v is None else t.requantized(v, y.quant)
        for v in node.inputs
    ]
    options = (
        "ConcatenationOptions",
        {"axis": op.axis, "fused_activation_function": t.activation(op.activation)},
    )
    t.emit("CONCATENATION", parts, y, options)


_PACKED = frozenset(
    {
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.INT32,
        DType.UINT32,
        DType.INT64,
        DType.FLOAT32,
    }
)


def export_stack(node: Node, t: Target) -> None:
    """PACK."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Stack)
    t.require(node, plain=_PACKED, codes=_PACKED)
    parts = [t.tensor(v) for v in node.inputs]
    t.emit("PACK", parts, y, ("PackOptions", {"values_count": len(parts), "axis": op.axis}))


_UNPACKED = frozenset(
    {
        DType.BOOL,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.INT32,
        DType.FLOAT16,
        DType.FLOAT32,
    }
)


def export_unstack(node: Node, t: Target) -> None:
    """UNPACK."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Unstack)
    if x.dtype not in _UNPACKED:
        raise t.refused(f"UNPACK of {x.dtype}")
    t.operator(
        "UNPACK",
        [t.tensor(x)],
        [t.declare(v) for v in node.outputs],
        ("UnpackOptions", {"num": op.count, "axis": op.axis}),
    )


CUT = frozenset(
    {DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32},
)


def export_split(node: Node, t: Target) -> None:
    """SPLIT into equal parts, which XNNPACK takes; else SPLIT_V."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Split)
    t.require(node, plain=CUT, codes=CUT)
    if too_deep(x):
        raise t.refused(f"SPLIT of rank {x.type.rank}")
    count = len(op.sizes)
    extent = x.shape[op.axis] if x.shape is not None else None
    whole = isinstance(extent, int) and extent == sum(op.sizes) and extent > 0
    outputs = [t.declare(v) for v in node.outputs]
    if whole and len(set(op.sizes)) == 1:
        options = ("SplitOptions", {"num_splits": count})
        t.operator("SPLIT", [t.scalar(op.axis), t.tensor(x)], outputs, options)
        return
    operands = [t.tensor(x), t.ints(op.sizes), t.scalar(op.axis)]
    t.operator("SPLIT_V", operands, outputs, ("SplitVOptions", {"num_splits": count}))


def either(t: Target, value: Value) -> int:
    """An index operand of a kernel that takes int64 as well as int32."""
    return t.tensor(value) if value.dtype is DType.INT64 and not value.is_const else t.index(value)


def as_scalar(t: Target, value: Value | None, dtype: DType | None = None) -> int:
    """A value of one element as rank 0; with ``dtype`` int32 an index operand as that."""
    assert value is not None, "a required operand is missing"
    tensor = t.tensor(value) if dtype is None else t.index(value)
    if value.shape == ():
        return tensor
    kind = TensorType(dtype or value.dtype, (), value.quant)
    return t.result("RESHAPE", [tensor, t.ints(())], kind, ("ReshapeOptions", {}))


def export_tile(node: Node, t: Target) -> None:
    """TILE."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, s.Tile)
    repeats = either(t, node.operand(1)) if op.repeats is None else t.ints(op.repeats)
    t.emit("TILE", [t.tensor(x), repeats], node.outputs[0], ("TileOptions", {}))


def export_broadcast_to(node: Node, t: Target) -> None:
    """TILE, which takes a fraction of the time, where all extents are known; else BROADCAST_TO."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.BroadcastTo)
    if op.shape is None:
        shape = either(t, node.operand(1))
    else:
        own = static_shape(x.shape)
        if own is not None and op.shape and 0 not in op.shape:
            _tile(t, x, y, (1,) * (len(op.shape) - len(own)) + own, op.shape)
            return
        shape = t.ints(op.shape)
    operands = [t.tensor(x), shape]
    t.emit("BROADCAST_TO", operands, y, ("BroadcastToOptions", {}), version=2)


def _tile(t: Target, x: Value, y: Value, own: tuple[int, ...], target: tuple[int, ...]) -> None:
    tensor = t.tensor(x)
    if x.shape != own:
        kind = TensorType(x.dtype, own, x.quant)
        tensor = t.result("RESHAPE", [tensor, t.ints(own)], kind, ("ReshapeOptions", {}))
    repeats = [size if dim == 1 else 1 for dim, size in zip(own, target, strict=True)]
    t.emit("TILE", [tensor, t.ints(repeats)], y, ("TileOptions", {}))


_MEASURED = frozenset(DType) - {DType.UINT64, DType.COMPLEX64, DType.COMPLEX128, DType.BFLOAT16}


def export_shape_of(node: Node, t: Target) -> None:
    """SHAPE, then GATHER where not all extents are wanted in order."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.ShapeOf)
    dtype = op.dtype if op.dtype is DType.INT64 else DType.INT32
    options = ("ShapeOptions", {"out_type": CODES[dtype]})
    tensor = t.tensor(x)
    if x.dtype not in _MEASURED:
        same = {16: DType.INT16, 64: DType.INT64, 128: DType.INT64}[x.dtype.bits]
        if x.dtype.bits > 64:
            raise t.refused(f"SHAPE of {x.dtype}")
        tensor = t.result("BITCAST", [tensor], TensorType(same, x.shape))
    if op.dims is None and dtype is op.dtype:
        t.emit("SHAPE", [tensor], y, options)
        return
    made = t.result("SHAPE", [tensor], TensorType(dtype, (x.type.rank,)), options)
    if op.dims is not None:
        operands = [made, t.ints(op.dims)]
        fields = ("GatherOptions", {"axis": 0})
        if dtype is op.dtype:
            t.emit("GATHER", operands, y, fields)
            return
        made = t.result("GATHER", operands, TensorType(dtype, (len(op.dims),)), fields)
    fields = ("CastOptions", {"in_data_type": CODES[dtype], "out_data_type": CODES[op.dtype]})
    t.emit("CAST", [made], y, fields)


def export_rank(node: Node, t: Target) -> None:
    """RANK."""
    t.emit("RANK", [t.tensor(node.operand(0))], node.outputs[0], ("RankOptions", {}))


def export_fill(node: Node, t: Target) -> None:
    """FILL: the value of rank 0."""
    op, value, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.Fill)
    shape = either(t, node.operand(1)) if op.shape is None else t.ints(op.shape)
    t.emit("FILL", [shape, as_scalar(t, value)], y, ("FillOptions", {}))


def export_broadcast_args(node: Node, t: Target) -> None:
    """BROADCAST_ARGS."""
    y = node.outputs[0]
    types = frozenset({DType.INT32, DType.INT64})
    t.require(node, plain=types)
    t.emit("BROADCAST_ARGS", [t.tensor(v) for v in node.inputs], y)


def export_range(node: Node, t: Target) -> None:
    """RANGE: of scalars. LiteRT fails where the limit lies behind the start; ours is empty."""
    y = node.outputs[0]
    start, limit, step = (node.operand(i) for i in range(3))
    t.require(node, plain=frozenset({DType.FLOAT32, DType.INT32, DType.INT64}))
    own = node.origin.format == "tflite"
    if step.data is None and not own:
        raise t.refused("LiteRT fails where the step leads away from the limit")
    places = [as_scalar(t, v) for v in node.inputs]
    back = step.data is not None and bool(np.all(step.data < 0))
    behind, before = (limit, start) if back else (start, limit)
    if not own and bounds_of(behind).high > bounds_of(before).low:
        name, kind = "MINIMUM" if back else "MAXIMUM", TensorType(y.dtype, ())
        places[1] = t.result(name, places[:2], kind, ("MaximumMinimumOptions", {}))
    t.emit("RANGE", places, y, ("RangeOptions", {}))


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
    s.ShapeOf: export_shape_of,
    s.Rank: export_rank,
    s.Fill: export_fill,
    s.BroadcastArgs: export_broadcast_args,
    s.Range: export_range,
}
