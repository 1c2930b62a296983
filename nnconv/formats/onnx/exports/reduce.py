"""Reductions, running sums, and indices of extremes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.onnx.bounds import bounded_elements
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
    r.ReduceL1: "ReduceL1",
    r.ReduceL2: "ReduceL2",
    r.ReduceSumSquare: "ReduceSumSquare",
    r.ReduceLogSum: "ReduceLogSum",
    r.ReduceLogSumExp: "ReduceLogSumExp",
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


_OF_ONE: dict[type[Op], str] = {r.ReduceL1: "Abs", r.ReduceL2: "Abs", r.ReduceLogSum: "Log"}
"""What reductions do to an element where there is nothing to reduce; others leave it as it is."""


def reduced(
    t: Target,
    op_type: str,
    name: str,
    axes: Sequence[int] | str,
    *,
    keep_dims: bool,
    none_if_empty: bool = False,
) -> str:
    """A Reduce node; ``axes`` are numbers, not none of them, or the name of an int64 tensor.

    They are an input from opset 18 on (ReduceSum: 13), an attribute before. ``none_if_empty`` says
    what a tensor without elements means; else it is all.
    """
    keep = int(keep_dims)
    if t.opset >= 18 or op_type == "ReduceSum":
        given = axes if isinstance(axes, str) else t.const(list(axes))
        noop = 1 if none_if_empty else None
        return t.node(op_type, [name, given], keepdims=keep, noop_with_empty_axes=noop)
    if isinstance(axes, str):
        t.require_opset(18, f"{op_type} axes computed at run time")
    return t.node(op_type, [name], axes=tuple(axes), keepdims=keep)


def _is_global(op: r.Reduction, x: Value, t: Target) -> bool:
    """Whether it is a mean over the spatial dimensions of NCHW data."""
    return (
        isinstance(op, r.ReduceMean)
        and op.axes == (2, 3)
        and (op.keep_dims or not t.plain)
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
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.Reduction)
    axes = op.axes if op.axes is not None else _run_time_axes(node.inputs[1], t)
    kind = NAMES[type(op)]
    comparing = isinstance(op, _COMPARING)
    if comparing and x.quant == y.quant and x.dtype is y.dtype:
        dtype = t.inner_type(x)
        t.set_codes(y, _in_kernel(t, kind, t.codes(x), dtype, _COMPARED_AS, axes, op))
    elif x.quant is not None or y.quant is not None or x.dtype.is_float:
        if not axes:
            t.set_real(y, _of_one(op, t.real(x), t))
        elif _is_global(op, x, t):
            _export_global_mean(node, op, t)
        else:
            t.set_real(y, _reduced(t, kind, t.real(x), axes, op))
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
        return _of_one(op, name, t)
    wider = table.get(dtype, dtype)
    if wider is dtype or (t.plain and _is_defined(dtype, kind, t)):
        return _reduced(t, kind, name, axes, op)
    return t.cast(_reduced(t, kind, t.cast(name, wider), axes, op), dtype)


def _is_defined(dtype: DType, kind: str, t: Target) -> bool:
    """Whether ONNX defines a reduction for a type, be there kernels or not."""
    if dtype is DType.BOOL:
        return t.opset >= 20 and kind in ("ReduceMax", "ReduceMin")
    return dtype.bits >= 32


def _reduced(t: Target, kind: str, name: str, axes: Sequence[int] | str, op: r.Reduction) -> str:
    """A Reduce node with what ``op`` says of empty axes."""
    none = isinstance(axes, str) and not op.all_if_empty
    return reduced(t, kind, name, axes, keep_dims=op.keep_dims, none_if_empty=none)


def _of_one(op: r.Reduction, name: str, t: Target) -> str:
    """A reduction of single elements."""
    if isinstance(op, r.ReduceSumSquare):
        return t.node("Mul", [name, name])
    kind = _OF_ONE.get(type(op))
    return t.node(kind, [name]) if kind else name


def export_extreme(node: Node, t: Target) -> None:
    """ArgMax, ArgMin: on codes, whose order is the real values'."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.ArgMax | r.ArgMin)
    dtype = t.inner_type(x)
    name, wider = t.codes(x), _COMPARED_AS.get(dtype, dtype)
    if wider is not dtype and not (t.plain and dtype is not DType.BOOL):
        name = t.cast(name, wider)
    last, keep = int(op.last) or None, int(op.keep_dims)
    result = t.node(op.name, [name], axis=op.axis, keepdims=keep, select_last_index=last)
    t.set_codes(y, result if y.dtype is DType.INT64 else t.cast(result, y.dtype))


def export_cumsum(node: Node, t: Target) -> None:
    """CumSum."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.CumSum)
    axis, flags = _axis(node, op, t), _flags(op)
    if x.quant is not None or y.quant is not None or x.dtype.is_float:
        kind = t.real_type(x)
        halves = kind in (DType.FLOAT16, DType.BFLOAT16)  # no kernel, and no type before opset 14
        wide = DType.FLOAT32 if halves and not (t.plain and t.opset >= 14) else kind
        name = t.real(x) if wide is kind else t.cast(t.real(x), wide)
        result = t.node("CumSum", [name, axis], **flags)
        t.set_real(y, result if wide is kind else t.cast(result, kind))
        return
    fits = x.dtype in (DType.INT32, DType.INT64) or (t.plain and x.dtype.bits >= 32)
    wider = x.dtype if fits else _ADDED_AS[x.dtype]
    name = t.codes(x) if wider is x.dtype else t.cast(t.codes(x), wider)
    result = t.node("CumSum", [name, axis], **flags)
    t.set_codes(y, result if wider is x.dtype else t.cast(result, y.dtype))


def _axis(node: Node, op: r.CumSum, t: Target) -> str:
    if op.axis is not None:
        return t.const(np.asarray(op.axis, np.int64))
    given = node.operand(1)
    name = t.stored(given) if given.dtype is DType.INT32 else t.int64(given)
    return name if given.shape == () else t.node("Reshape", [name, t.const(np.zeros(0, np.int64))])


def _flags(op: r.CumSum) -> dict[str, int | None]:
    return {"exclusive": int(op.exclusive) or None, "reverse": int(op.reverse) or None}


def export_cumprod(node: Node, t: Target) -> None:
    """CumProd; before opset 26 the products of triangles.

    That takes as many times the memory as there are elements along the axis. No runtime has a
    kernel of the op so far.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.CumProd)
    if t.plain and t.opset >= 26:
        t.set_real(y, t.node("CumProd", [t.real(x), _axis(node, op, t)], **_flags(op)))
        return
    extent = x.shape[op.axis] if op.axis is not None and x.shape is not None else None
    if not isinstance(extent, int) or x.shape is None or op.axis is None:
        why, hint = "the axis or its extent isn't known", "Choose --opset 26."
        raise t.unsupported(why, hint=hint, opset=26)
    bounded_elements(t, extent * extent)
    rest = len(x.shape) - op.axis
    order = np.tri(extent, k=-int(op.exclusive), dtype=bool)
    order = order.T if op.reverse else order
    mask = t.const(order.reshape(extent, extent, *(1,) * (rest - 1)))
    kind = t.real_type(x)
    wide = _ADDED_AS.get(kind, kind)
    name = t.real(x) if wide is kind else t.cast(t.real(x), wide)
    # [..., 1, n, ...] spread over the results [..., n, n, ...]
    spread = t.node("Unsqueeze", [name, t.const([op.axis])])
    factors = t.node("Where", [mask, spread, t.const(np.ones((), wide.numpy))])
    product = reduced(t, "ReduceProd", factors, (op.axis + 1,), keep_dims=False)
    t.set_real(y, product if wide is kind else t.cast(product, kind))


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_reduction),
    r.ArgMax: export_extreme,
    r.ArgMin: export_extreme,
    r.CumSum: export_cumsum,
    r.CumProd: export_cumprod,
}
