"""Reductions, and indices of the greatest."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.formats.nnrt.exports.quantize import emit_cast
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
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
    if isinstance(op, r.ReduceMean) and x.type.has_codes and _is_image_mean(t, op, x):
        _mean_of_image(t, op, x, y)
        return
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


def _is_image_mean(t: Target, op: r.Reduction, x: Value) -> bool:
    """Whether it is the mean over the height and width of an image."""
    extents = t.shape(x)
    return len(extents) == 4 and op.axes == (1, 2) and None not in extents[1:3]


def _mean_of_image(t: Target, op: r.Reduction, x: Value, y: Value) -> None:
    """AVG_POOL, which REDUCE_MEAN is not for codes."""
    batch, height, width, channels = t.shape(x)
    params = {"kernelSize": [height, width], "strides": [1, 1], "padList": [0, 0, 0, 0]}
    if op.keep_dims:
        t.emit("AVG_POOL", {"input": x}, y, params)
        return
    kind = TensorType(y.dtype, (batch, 1, 1, channels), y.quant)
    mean = t.result("AVG_POOL", {"input": x}, kind, params)
    t.emit("SQUEEZE", {"input": mean}, y, {"axis": [1, 2]})


def export_arg_max(node: Node, t: Target) -> None:
    """ARG_MAX gives int32."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.ArgMax)
    if op.last:
        raise t.refused("of equals the first counts")
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
