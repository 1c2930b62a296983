"""Reductions, and indices of the greatest."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.formats.nnrt.exports.quantize import emit_cast
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops import reduce as r

NAMES: dict[type[Op], str] = {
    r.ReduceAll: "REDUCE_ALL",
    r.ReduceL2: "REDUCE_L2",
    r.ReduceMax: "REDUCE_MAX",
    r.ReduceMean: "REDUCE_MEAN",
    r.ReduceMin: "REDUCE_MIN",
    r.ReduceProd: "REDUCE_PROD",
    r.ReduceSum: "REDUCE_SUM",
}


def export_reduction(node: Node, t: Target) -> None:
    """REDUCE_*: the axes are an input, of which there is at least one."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.Reduction)
    if op.axes is None:
        if op.all_if_empty:
            raise t.refused("its axes are computed at run time, none may mean all")
        axes: Input = node.operand(1)
    else:
        chosen = op.axes or (tuple(range(len(t.shape(x)))) if op.all_if_empty else ())
        if not chosen:
            t.keep(x, y)
            return
        axes = t.ints(chosen)
    t.emit(NAMES[type(op)], {"input": x, "axis": axes}, y, {"keepDims": op.keep_dims})


def export_arg_max(node: Node, t: Target) -> None:
    """ARG_MAX gives int32."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.ArgMax)
    if op.last:
        raise t.refused("of equals the first counts")
    if x.type.has_codes:
        raise t.to_floats("an index of codes has parameters")
    params = {"axis": op.axis, "keepDims": op.keep_dims}
    if op.dtype is DType.INT32:
        t.emit("ARG_MAX", {"input": x}, y, params)
        return
    kind = TensorType(DType.INT32, y.shape)
    emit_cast(t, t.result("ARG_MAX", {"input": x}, kind, params), y)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_reduction),
    r.ArgMax: export_arg_max,
}
