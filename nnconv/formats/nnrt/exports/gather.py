"""Picking elements by index, and putting them there."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import gather as g


def _counted(node: Node, t: Target, extents: tuple[int | None, ...]) -> Input:
    """Index operand 1 as NNRt has it: none counts from the end, where ``extents`` are known."""
    indices = node.operand(1)
    if not getattr(node.op, "from_end", False):
        return indices
    if indices.data is None or None in extents:
        raise t.refused("its indices may count from the end, and are computed at run time")
    sizes = np.asarray(extents, np.int64)
    data = np.where(indices.data < 0, indices.data + sizes, indices.data)
    data = data.reshape(indices.data.shape)  # of one index without dimensions, too
    return t.const(data.astype(indices.dtype.numpy), name=indices.name)


def export_gather(node: Node, t: Target) -> None:
    """GATHER."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.Gather)
    if op.batch_dims:
        raise t.refused("GATHER has no dimensions in common")
    indices = _counted(node, t, t.shape(x)[op.axis : op.axis + 1])
    inputs: dict[str, Input] = {"input": x, "inputIndices": indices, "axis": t.single(op.axis)}
    t.emit("GATHER", inputs, node.outputs)


def export_gather_nd(node: Node, t: Target) -> None:
    """GATHER_ND."""
    op, x, indices = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, g.GatherNd)
    if op.batch_dims:
        raise t.refused("GATHER_ND has no dimensions in common")
    depth = t.static(indices)[-1] if op.from_end else 0
    inputs: dict[str, Input] = {"input": x, "indices": _counted(node, t, t.shape(x)[:depth])}
    t.emit("GATHER_ND", inputs, node.outputs)


def export_scatter_nd(node: Node, t: Target) -> None:
    """SCATTER_ND into zeros, which adds; where no place is met twice, that is setting."""
    op, base, indices, updates = node.op, node.operand(0), node.operand(1), node.operand(2)
    assert isinstance(op, g.ScatterNd)
    shape = static_shape(base.shape)
    if base.data is None or base.data.any() or shape is None or not shape:
        raise t.refused("SCATTER_ND puts numbers into zeros")
    adds = op.reduction is g.Reduction.ADD and updates.dtype is not DType.BOOL
    if not adds and not (op.reduction is g.Reduction.NONE and _is_unique(indices)):
        raise t.refused("SCATTER_ND adds what meets at one place")
    inputs: dict[str, Input] = {
        "indices": _counted(node, t, shape[: t.static(indices)[-1]]),
        "updates": updates,
        "shape": t.const(np.asarray(shape, indices.dtype.numpy)),
    }
    t.emit("SCATTER_ND", inputs, node.outputs)


def _is_unique(indices: Value) -> bool:
    if indices.data is None:
        return False
    rows = indices.data.reshape(-1, indices.data.shape[-1])
    return len(np.unique(rows, axis=0)) == len(rows)


def export_one_hot(node: Node, t: Target) -> None:
    """ONE_HOT."""
    op, indices, on, off = node.op, node.operand(0), node.operand(1), node.operand(2)
    assert isinstance(op, g.OneHot)
    if op.from_end:
        raise t.refused("ONE_HOT doesn't count from the end")
    depth = node.operand(3) if op.depth is None else t.const(np.asarray(op.depth, np.int32))
    inputs: dict[str, Input] = {
        "indices": indices, "depth": depth, "onValue": on, "offValue": off,
    }  # fmt: skip
    axis = -1 if op.axis == len(t.shape(indices)) else op.axis
    t.emit("ONE_HOT", inputs, node.outputs, {"axis": axis})


def export_top_k(node: Node, t: Target) -> None:
    """TOP_K: the greatest in falling order."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, g.TopK)
    if not op.largest or op.last_first or op.index_dtype is not DType.INT32:
        raise t.refused("TOP_K is of the greatest, the first of equals first, with int32 indices")
    k = node.operand(1) if op.k is None else t.const(np.asarray(op.k, np.int32))
    if op.axis and t.api == 1:
        _top_along_first(node, t, op, k)
        return
    params = {"sorted": True, "axis": op.axis}
    t.emit("TOP_K", {"input": x, "k": k}, node.outputs, params)


def _top_along_first(node: Node, t: Target, op: g.TopK, k: Input) -> None:
    """TOP_K of version 1, which knows no other dimension: that goes to the front and back."""
    x = node.operand(0)
    others = [i for i in range(len(t.shape(x))) if i != op.axis]
    perm = (op.axis, *others)

    def turned(value: Value) -> TensorType:
        shape = value.shape or ()
        return TensorType(value.dtype, tuple(shape[i] for i in perm), value.quant)

    source = t.result("TRANSPOSE", {"input": x, "permutation": t.ints(perm)}, turned(x))
    found = [t.temp(turned(value)) for value in node.outputs]
    t.operate("TOP_K", {"input": source, "k": k}, found, {"sorted": True, "axis": 0})
    back = t.ints([perm.index(i) for i in range(len(perm))])
    for made, value in zip(found, node.outputs, strict=True):
        t.emit("TRANSPOSE", {"input": made, "permutation": back}, value)


EXPORTERS: dict[type[Op], Exporter] = {
    g.Gather: export_gather,
    g.GatherNd: export_gather_nd,
    g.OneHot: export_one_hot,
    g.ScatterNd: export_scatter_nd,
    g.TopK: export_top_k,
}
