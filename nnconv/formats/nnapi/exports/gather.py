"""Picking elements by index."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import MOST_DIMENSIONS, TensorType
from nnconv.ops.gather import Gather, TopK


def export_gather(node: Node, t: Target) -> None:
    """GATHER, at level 3; EMBEDDING_LOOKUP of float32 rows. Indices count from the front."""
    op, x, indices, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, Gather)
    if op.batch_dims:
        raise t.refused("GATHER has no batch dimensions")
    if (op.from_end and indices.data is None) or _is_negative(indices):
        extent = (x.shape or ())[op.axis] if x.shape else None
        if indices.data is None or not isinstance(extent, int):
            raise t.refused("its indices may count from the end")
        t.emit("GATHER", _inputs(node, t.const(_front(indices.data, extent))), y)
        return
    if t.level < _GATHERS and op.axis == 0 and len(indices.shape or ()) == 1:
        _look_up(t, x, indices, y)
        return
    if indices.shape == () and len(x.shape or ()) > 1:
        # a scalar is a vector of one element here, so a dimension is left
        shape = None if x.shape is None else (*x.shape[: op.axis], 1, *x.shape[op.axis + 1 :])
        kind = TensorType(x.dtype, shape, x.quant)
        row = t.result("GATHER", _inputs(node, t.index(indices)), kind)
        t.take_out(row, op.axis, y)
        return
    t.emit("GATHER", _inputs(node, t.index(indices)), y)


def _look_up(t: Target, x: Value, indices: Value, y: Value) -> None:
    """EMBEDDING_LOOKUP of rows; a vector's elements are rows of one element."""
    if x.type.rank != 1:
        t.emit("EMBEDDING_LOOKUP", {"lookups": t.index(indices), "values": x}, y)
        return
    column = t.result("RESHAPE", {"input": x, "shape": t.ints([-1, 1])}, _column(x))
    found = {"lookups": t.index(indices), "values": column}
    picked = t.result("EMBEDDING_LOOKUP", found, _column(y))
    t.emit("RESHAPE", {"input": picked, "shape": t.ints([-1])}, y)


def _column(vector: Value) -> TensorType:
    return TensorType(vector.dtype, (*(vector.shape or ()), 1), vector.quant)


def _is_negative(indices: Value) -> bool:
    return indices.data is not None and bool((indices.data < 0).any())


def _inputs(node: Node, indices: int) -> dict[str, object]:
    op = node.op
    assert isinstance(op, Gather)
    return {"input": node.operand(0), "axis": op.axis, "indices": indices}


def _front(indices: np.ndarray, extent: int) -> np.ndarray:
    numbers = indices.astype(np.int64)
    return np.where(numbers < 0, numbers + extent, numbers).astype(np.int32)


_GATHERS = 3


def export_top_k(node: Node, t: Target) -> None:
    """TOPK_V2: the greatest along the last dimension, of equals the last first.

    Where the first is to be, and it shows, it looks at the elements in reverse.
    """
    op, x = node.op, node.operand(0)
    assert isinstance(op, TopK)
    if op.k is None or not op.largest or t.stored(op.index_dtype) is not DType.INT32:
        raise t.refused("TOPK_V2 gives a known number of the greatest, with int32 indices")
    if op.k < 1:
        raise t.refused("TOPK_V2 gives one number at least")
    if op.axis != t.rank(x, MOST_DIMENSIONS) - 1:
        raise t.refused("TOPK_V2 works along the last dimension")
    values, places = node.outputs
    if op.last_first or not places.is_wanted:
        t.emit("TOPK_V2", {"input": x, "k": op.k}, [values, places])
        return
    extent = (x.shape or ())[op.axis]
    if not isinstance(extent, int):
        raise t.refused("of equals TOPK_V2 takes the last first")
    backward = t.ints(range(extent - 1, -1, -1))
    turned = {"input": x, "axis": op.axis, "indices": backward}
    numbers = t.result("GATHER", turned, TensorType(x.dtype, x.shape, x.quant))
    found = t.temp(TensorType(DType.INT32, places.shape))
    t.operation("TOPK_V2", {"input": numbers, "k": op.k}, [t.declare(values), found])
    t.emit("GATHER", {"input": backward, "axis": 0, "indices": found}, places)


EXPORTERS: dict[type[Op], Exporter] = {Gather: export_gather, TopK: export_top_k}
