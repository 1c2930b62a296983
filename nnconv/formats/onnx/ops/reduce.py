"""Reductions, running sums, and indices of extremes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import reduce as r

NAMES: dict[type[Op], str] = {
    r.ReduceMean: "ReduceMean",
    r.ReduceSum: "ReduceSum",
    r.ReduceProd: "ReduceProd",
    r.ReduceMax: "ReduceMax",
    r.ReduceMin: "ReduceMin",
    r.ReduceAny: "ReduceMax",
    r.ReduceAll: "ReduceMin",
}

_COMPARING = (r.ReduceMax, r.ReduceMin, r.ReduceAny, r.ReduceAll)

_COMPARED_AS = {
    DType.BOOL: DType.UINT8,
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.UINT32: DType.INT64,
    DType.UINT64: DType.INT64,
}
"""For types that onnxruntime doesn't compare: a wider one that it does."""

_ADDED_AS = {
    DType.INT8: DType.INT64,
    DType.UINT8: DType.INT64,
    DType.INT16: DType.INT64,
    DType.UINT16: DType.INT64,
    DType.INT32: DType.INT64,
    DType.UINT32: DType.INT64,
    DType.UINT64: DType.INT64,
}
"""A type to add and multiply in, whose low bits are the result.

onnxruntime's kernels for int32 saturate; those for int64 are exact to 2**53 (they use float64).
"""


def reduced(
    t: Target, op_type: str, name: str, axes: Sequence[int] | str, *, keep_dims: bool
) -> str:
    """A Reduce node; ``axes`` are numbers or the name of an int64 tensor, and not empty.

    They are an input from opset 18 on (ReduceSum: 13), an attribute before.
    """
    keep = int(keep_dims)
    if t.opset >= 18 or op_type == "ReduceSum":
        given = axes if isinstance(axes, str) else t.const(list(axes))
        return t.node(op_type, [name, given], keepdims=keep)
    if isinstance(axes, str):
        t.require_opset(18, f"{op_type} axes computed at run time")
    return t.node(op_type, [name], axes=tuple(axes), keepdims=keep)


def _is_global(op: r.Reduction, x: Value) -> bool:
    """Whether it is a mean over the spatial dimensions of NCHW data."""
    return (
        isinstance(op, r.ReduceMean)
        and op.axes == (2, 3)
        and x.type.rank == 4
        and (x.quant is not None or x.dtype is DType.FLOAT32)
    )


def _export_global_mean(node: Node, op: r.Reduction, t: Target) -> None:
    """GlobalAveragePool: it stays in the layout of convolutions and has an integer kernel.

    Dimensions go behind the QuantizeLinear, on codes.
    """
    x, y = node.inputs[0], node.outputs[0]
    name = t.node("GlobalAveragePool", [t.real(x)])
    if t.is_quantized(y):
        name = t.quantize(name, t.inner_quant(y), t.inner_type(y))
    if not op.keep_dims:
        name = t.node("Squeeze", [name, t.const([2, 3])])
    t.set_codes(y, name)


def _run_time_axes(axes: Value | None, t: Target) -> str:
    assert axes is not None
    name = t.int64(axes)
    return name if axes.type.rank == 1 else t.reshape(name, (-1,))


def export_reduction(node: Node, t: Target) -> None:
    """All reductions: extremes on codes of equal parameters, integers in a type with a kernel."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, r.Reduction)
    assert x is not None
    axes = op.axes if op.axes is not None else _run_time_axes(node.inputs[1], t)
    kind = NAMES[type(op)]
    comparing = isinstance(op, _COMPARING)
    if comparing and x.quant == y.quant and x.dtype is y.dtype:
        dtype = t.inner_type(x)
        t.set_codes(y, _in_kernel(t, kind, t.codes(x), dtype, _COMPARED_AS, axes, op))
    elif x.quant is not None or y.quant is not None or x.dtype.is_float:
        if not axes:
            t.set_real(y, t.real(x))
        elif _is_global(op, x):
            _export_global_mean(node, op, t)
        else:
            t.set_real(y, reduced(t, kind, t.real(x), axes, keep_dims=op.keep_dims))
    else:
        t.set_codes(y, _in_kernel(t, kind, t.codes(x), x.dtype, _ADDED_AS, axes, op))


def _in_kernel(
    t: Target,
    kind: str,
    name: str,
    dtype: DType,
    table: dict[DType, DType],
    axes: Sequence[int] | str,
    op: r.Reduction,
) -> str:
    """A reduction in the type that ``table`` gives for ``dtype``, and back."""
    if not axes:
        return name
    wider = table.get(dtype, dtype)
    if wider is dtype:
        return reduced(t, kind, name, axes, keep_dims=op.keep_dims)
    return t.cast(reduced(t, kind, t.cast(name, wider), axes, keep_dims=op.keep_dims), dtype)


def export_extreme(node: Node, t: Target) -> None:
    """ArgMax, ArgMin: on codes, whose order is the real values'."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, r.ArgMax | r.ArgMin)
    assert x is not None
    dtype = t.inner_type(x)
    name, wider = t.codes(x), _COMPARED_AS.get(dtype, dtype)
    if wider is not dtype:
        name = t.cast(name, wider)
    result = t.node(type(op).__name__, [name], axis=op.axis, keepdims=int(op.keep_dims))
    t.set_codes(y, result if y.dtype is DType.INT64 else t.cast(result, y.dtype))


def export_cumsum(node: Node, t: Target) -> None:
    """CumSum."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, r.CumSum)
    assert x is not None
    if op.axis is not None:
        axis = t.const(np.asarray(op.axis, np.int64))
    else:
        axis = t.node("Reshape", [t.int64(node.inputs[1]), t.const(np.zeros(0, np.int64))])
    flags = {"exclusive": int(op.exclusive) or None, "reverse": int(op.reverse) or None}
    if x.quant is not None or y.quant is not None or x.dtype.is_float:
        t.set_real(y, t.node("CumSum", [t.real(x), axis], **flags))
        return
    kernels = (DType.INT32, DType.INT64)
    wider = x.dtype if x.dtype in kernels else _ADDED_AS[x.dtype]
    name = t.codes(x) if wider is x.dtype else t.cast(t.codes(x), wider)
    result = t.node("CumSum", [name, axis], **flags)
    t.set_codes(y, result if wider is x.dtype else t.cast(result, y.dtype))


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_reduction),
    r.ArgMax: export_extreme,
    r.ArgMin: export_extreme,
    r.CumSum: export_cumsum,
}
