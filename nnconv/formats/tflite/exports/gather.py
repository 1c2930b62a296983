"""Ops that pick elements by index, or put them at indices."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.places import never_negative, stretch
from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.exports.shape import as_scalar
from nnconv.formats.tflite.types import CODES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Shape, TensorType
from nnconv.ops import gather as g
from nnconv.ops.shape import Fill

_PICKED = frozenset(
    {
        DType.BOOL,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.INT32,
        DType.INT64,
        DType.FLOAT16,
        DType.FLOAT32,
    }
)
_DELEGATED = frozenset({DType.INT8, DType.UINT8, DType.FLOAT32})
"""Types that XNNPACK cuts, while it doesn't pick."""

_PLACES = frozenset({DType.INT16, DType.INT32, DType.INT64})
"""Types that GATHER and GATHER_ND take indices in."""


def _both(node: Node) -> tuple[Value, Value]:
    x, indices = node.operand(0), node.operand(1)
    return x, indices


def _from_front(indices: Value, extents: Shape) -> np.ndarray | None:
    """Constant indices, those counted from the end brought to the front.

    None where they aren't constant or their extents not known.
    """
    if indices.data is None or extents is None:
        return None
    data = indices.data.astype(np.int64)
    columns = data.reshape(-1, len(extents)) if len(extents) else data.reshape(0, 0)
    for column, extent in enumerate(extents):
        if not columns.size or columns[:, column].min() >= 0:
            continue
        if not isinstance(extent, int):
            return None
        columns[:, column] += extent * (columns[:, column] < 0)
    if columns.size and columns.min() < 0:
        return None
    return data.astype(np.int32)


def _places(t: Target, indices: Value, extents: Shape, *, from_end: bool) -> int:
    """Indices as kernels take them: they refuse negative ones.

    Raises:
        Refused: when some may be negative.
    """
    known = _from_front(indices, extents)
    if known is not None:
        return t.const(known, name=indices.name)
    if from_end and not never_negative(indices):
        raise t.refused("indices may count from the end")
    return t.tensor(indices) if indices.dtype in _PLACES else t.index(indices)


def export_gather(node: Node, t: Target) -> None:
    """GATHER."""
    op, (x, indices), y = node.op, _both(node), node.outputs[0]
    assert isinstance(op, g.Gather)
    t.require(node, plain=_PICKED, codes=_PICKED | {DType.INT4}, operands=(0,))
    extents = None if x.shape is None else x.shape[op.axis : op.axis + 1]
    if x.dtype in _DELEGATED and stretch(op, x, indices) is not None:
        raise t.refused("a SLICE takes a fraction of the time")
    places = _places(t, indices, extents, from_end=op.from_end)
    fields = {"axis": op.axis, "batch_dims": op.batch_dims}
    t.emit("GATHER", [t.tensor(x), places], y, ("GatherOptions", fields))


def export_gather_nd(node: Node, t: Target) -> None:
    """GATHER_ND, which has no batch dimensions."""
    op, (x, indices), y = node.op, _both(node), node.outputs[0]
    assert isinstance(op, g.GatherNd)
    t.require(node, plain=_PICKED, codes=_PICKED, operands=(0,))
    depth = indices.shape[-1] if indices.shape else None
    if op.batch_dims:
        raise t.refused("GATHER_ND has no batch dimensions")
    extents = x.shape[:depth] if isinstance(depth, int) and x.shape is not None else None
    places = _places(t, indices, extents, from_end=op.from_end)
    t.emit("GATHER_ND", [t.tensor(x), places], y, ("GatherNdOptions", {}))


_SCATTERED = frozenset({DType.INT8, DType.INT32, DType.INT64, DType.FLOAT32})
_DENSE = frozenset({DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32})


def export_scatter_nd(node: Node, t: Target) -> None:
    """SCATTER_ND into zeros; SPARSE_TO_DENSE into one number all over."""
    op, (x, indices), y = node.op, _both(node), node.outputs[0]
    assert isinstance(op, g.ScatterNd)
    updates = node.operand(2)
    filled = _filled(t, x)
    if filled is None or op.reduction not in (g.Reduction.ADD, g.Reduction.NONE):
        raise t.refused("SCATTER_ND adds to zeros")
    shape, number = filled
    depth = indices.shape[-1] if indices.shape else None
    extents = x.shape[:depth] if isinstance(depth, int) and x.shape is not None else None
    if op.reduction is g.Reduction.NONE:
        if depth is None or depth != x.type.rank or updates.type.rank != 1:
            raise t.refused("SPARSE_TO_DENSE takes single elements")
        t.require(node, plain=_DENSE, operands=(0, 2))
        places = _places(t, indices, extents, from_end=op.from_end)
        operands = [places, shape, t.tensor(updates), t.tensor(number)]
        t.emit("SPARSE_TO_DENSE", operands, y, ("SparseToDenseOptions", {}))
        return
    if number.data is None or number.data.any():
        raise t.refused("SCATTER_ND adds to zeros")
    t.require(node, plain=_SCATTERED, codes=_SCATTERED, operands=(0, 2))
    known = _from_front(indices, extents)
    if known is None and op.from_end and not never_negative(indices):
        raise t.refused("indices may count from the end")
    places = t.index(indices) if known is None else t.const(known)
    t.emit("SCATTER_ND", [places, t.tensor(updates), shape], y, ("ScatterNdOptions", {}))


def _filled(t: Target, x: Value) -> tuple[int, Value] | None:
    """The shape and the number that a tensor is full of; None if it isn't."""
    if x.data is not None:
        first = x.data.reshape(-1)[:1]
        if not first.size or not (x.data == first).all():
            return None
        kind = TensorType(x.dtype, (), x.quant)
        return t.ints(x.data.shape), Value("", kind, data=first.reshape(()))
    node = x.producer
    if node is None or not isinstance(node.op, Fill):
        return None
    number = node.inputs[0]
    if number is None or number.shape != ():
        return None
    if node.op.shape is not None:
        return t.ints(node.op.shape), number
    shape = node.inputs[1]
    return None if shape is None else (t.index(shape), number)


_ONE_HOT = frozenset({DType.BOOL, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32})


def export_one_hot(node: Node, t: Target) -> None:
    """ONE_HOT."""
    op, y = node.op, node.outputs[0]
    indices, on, off, depth = node.operand(0), node.optional(1), node.optional(2), node.optional(3)
    assert isinstance(op, g.OneHot)
    t.require(node, plain=_ONE_HOT, codes=_ONE_HOT, operands=(1, 2))
    if op.from_end and not never_negative(indices):
        raise t.refused("ONE_HOT doesn't count from the end")
    places = t.tensor(indices) if indices.dtype is DType.INT64 else t.index(indices)
    count = as_scalar(t, depth, DType.INT32) if op.depth is None else t.scalar(op.depth)
    operands = [places, count, as_scalar(t, on), as_scalar(t, off)]
    t.emit("ONE_HOT", operands, y, ("OneHotOptions", {"axis": op.axis}))


_SORTED = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32})


def export_top_k(node: Node, t: Target) -> None:
    """TOPK_V2: the greatest along the last dimension."""
    op, x = node.op, node.operand(0)
    values, places = node.outputs
    assert isinstance(op, g.TopK)
    if x.dtype is DType.UINT64:
        raise t.refused("TOPK_V2 of uint64")
    if op.last_first:
        raise t.refused("of equals TOPK_V2 takes the first first")
    t.require(node, plain=_SORTED, codes=_SORTED, operands=(0,))
    if not op.largest or x.shape is None or op.axis != len(x.shape) - 1:
        raise t.refused("TOPK_V2 gives the greatest along the last dimension")
    k = as_scalar(t, node.inputs[1], DType.INT32) if op.k is None else t.scalar(op.k)
    found = t.declare(values)
    direct = op.index_dtype in (DType.INT16, DType.INT32)
    indices = t.declare(places) if direct else t.temp(TensorType(DType.INT32, places.shape))
    t.operator("TOPK_V2", [t.tensor(x), k], [found, indices], ("TopKV2Options", {}))
    if not direct:
        _cast(t, indices, DType.INT32, places)


def _cast(t: Target, tensor: int, old: DType, value: Value) -> None:
    fields = {"in_data_type": CODES[old], "out_data_type": CODES[value.dtype]}
    t.emit("CAST", [tensor], value, ("CastOptions", fields))


_TESTED = frozenset({DType.BOOL, DType.INT32, DType.UINT32, DType.INT64, DType.FLOAT32})
_TESTED_CODES = frozenset({DType.INT8, DType.UINT8})


def export_non_zero(node: Node, t: Target) -> None:
    """WHERE, then TRANSPOSE for coordinates by axis."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, g.NonZero)
    t.require(node, plain=_TESTED | _TESTED_CODES, codes=_TESTED_CODES)
    if not op.by_axis:
        t.emit("WHERE", [t.tensor(x)], y, ("WhereOptions", {}))
        return
    kind = TensorType(DType.INT64, (None, x.type.rank))
    found = t.result("WHERE", [t.tensor(x)], kind, ("WhereOptions", {}))
    t.emit("TRANSPOSE", [found, t.ints((1, 0))], y, ("TransposeOptions", {}))


def export_unique(node: Node, t: Target) -> None:
    """UNIQUE."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.Unique)
    t.require(node, plain=_SORTED, codes=_SORTED)
    dtype = op.index_dtype if op.index_dtype is DType.INT64 else DType.INT32
    values, places = node.outputs
    made = t.declare(values)
    direct = dtype is op.index_dtype
    found = t.declare(places) if direct else t.temp(TensorType(dtype, places.shape))
    options = ("UniqueOptions", {"idx_out_type": CODES[dtype]})
    t.operator("UNIQUE", [t.tensor(x)], [made, found], options)
    if not direct:
        _cast(t, found, dtype, places)


EXPORTERS: dict[type[Op], Exporter] = {
    g.Gather: export_gather,
    g.GatherNd: export_gather_nd,
    g.ScatterNd: export_scatter_nd,
    g.OneHot: export_one_hot,
    g.TopK: export_top_k,
    g.NonZero: export_non_zero,
    g.Unique: export_unique,
}
