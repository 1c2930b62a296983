"""Reductions along axes, and indices of extremes. Results have at least one dimension."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops import reduce as r

NAMES: dict[type[Op], str] = {
    r.ReduceMean: "MEAN",
    r.ReduceAll: "REDUCE_ALL",
    r.ReduceAny: "REDUCE_ANY",
    r.ReduceMax: "REDUCE_MAX",
    r.ReduceMin: "REDUCE_MIN",
    r.ReduceProd: "REDUCE_PROD",
    r.ReduceSum: "REDUCE_SUM",
}

_ADDING = frozenset({r.ReduceMean, r.ReduceProd, r.ReduceSum})
_WHOLE = frozenset({DType.INT32})

EXTREMES: dict[type[Op], str] = {r.ArgMax: "ARGMAX", r.ArgMin: "ARGMIN"}


def export_reduction(node: Node, t: Target) -> None:
    """MEAN, REDUCE_*."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.Reduction)
    if op.axes == ():
        if x.quant != y.quant:
            raise t.to_floats("it reduces along no axis")
        t.keep(x, y)
        return
    t.rank(x)
    if type(op) in _ADDING and x.dtype.is_integer and not x.type.has_codes:
        t.require(node, plain=_WHOLE)  # no codes of scale 1: sums wrap, and means aren't rounded
    if op.axes is None:
        if op.all_if_empty:
            raise t.refused("its axes are computed at run time, and all are meant by none")
        axes = t.index(node.operand(1))
    else:
        axes = t.ints(op.axes)
    t.emit(NAMES[type(op)], {"input": x, "axes": axes, "keep_dims": op.keep_dims}, y)


def export_extreme(node: Node, t: Target) -> None:
    """ARGMAX, ARGMIN: the dimension goes."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.ArgMax | r.ArgMin)
    if op.last:
        raise t.refused("of equals the first one is meant in NNAPI, here the last")
    if y.dtype is not DType.INT32:
        raise t.refused(f"ARGMAX gives int32, not {y.dtype}")
    name, inputs = EXTREMES[type(op)], {"input": x, "axis": op.axis}
    if not op.keep_dims or len(x.shape or ()) == 1:
        t.emit(name, inputs, y)
        return
    rest = tuple(d for i, d in enumerate(x.shape or ()) if i != op.axis)
    flat = t.result(name, inputs, TensorType(y.dtype, None if x.shape is None else rest))
    t.emit("EXPAND_DIMS", {"input": flat, "axis": op.axis}, y)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_reduction),
    **dict.fromkeys(EXTREMES, export_extreme),
}
