"""Ops that normalize along an axis."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.onnx.bounds import bounded_nodes
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.reduce import reduced
from nnconv.formats.onnx.floats import WITH_DOUBLE, narrowed, widened
from nnconv.formats.onnx.single import one_node
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import static_shape
from nnconv.ops import norm as n


def _is_last(axis: int, x: Value) -> bool:
    return x.type.rank is None or axis == x.type.rank - 1


FEW = 256
"""Up to so many codes, one node counts more than what it does."""


def _scaled(x: Value, factor: float, t: Target) -> str:
    """``factor`` times the real values, up to a constant that is the same for all elements.

    For many 8-bit codes the zero point drops out: Cast and Mul take less time than
    DequantizeLinear, and 0.3 to 0.75 of onnxruntime's Softmax of codes, which takes a
    DequantizeLinear in where types agree. That one is the fastest for few.
    """
    if not (t.is_quantized(x) and x.quant is not None and x.quant.is_per_tensor):
        name = t.real(x)
        return name if factor == 1 else t.node("Mul", [name, t.floats(factor, x)])
    step = float(np.float32(np.float64(x.quant.scale[0]) * factor))
    count = math.prod(dim for dim in x.shape or (FEW + 1,) if isinstance(dim, int))
    if x.dtype.bits != 8 or count <= FEW:
        scaled = Quant.per_tensor(step, t.inner_quant(x).zero_point[0])
        return t.real(x) if factor == 1 else t.dequantize(t.codes(x), scaled, t.inner_type(x))
    return t.node("Mul", [t.cast(t.codes(x), t.real_type(x)), t.const(np.float32(step))])


def export_softmax(node: Node, t: Target) -> None:
    """Softmax: the op along the last dimension; along others its parts take a fifth of its time."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.Softmax)
    name = t.real(x) if t.plain and op.beta == 1 else _scaled(x, op.beta, t)
    if t.plain or _is_last(op.axis, x):
        t.set_plain_real(y, t.node("Softmax", [name], axis=op.axis))
        return
    powers = t.node("Exp", [_shifted(name, op.axis, t)])
    t.set_plain_real(y, t.node("Div", [powers, _along(t, "ReduceSum", powers, op.axis)]))


def export_log_softmax(node: Node, t: Target) -> None:
    """LogSoftmax, like Softmax."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.LogSoftmax)
    name = t.real(x) if t.plain and op.beta == 1 else _scaled(x, op.beta, t)
    if t.plain or _is_last(op.axis, x):
        t.set_plain_real(y, t.node("LogSoftmax", [name], axis=op.axis))
        return
    shifted = _shifted(name, op.axis, t)
    total = _along(t, "ReduceSum", t.node("Exp", [shifted]), op.axis)
    t.set_plain_real(y, t.node("Sub", [shifted, t.node("Log", [total])]))


def export_hardmax(node: Node, t: Target) -> None:
    """Hardmax."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.Hardmax)
    t.set_real(y, one_node(t, "Hardmax", x, narrow=13, axis=op.axis))


def _along(t: Target, op_type: str, name: str, axis: int) -> str:
    return reduced(t, op_type, name, (axis,), keep_dims=True)


def _shifted(name: str, axis: int, t: Target) -> str:
    return t.node("Sub", [name, _along(t, "ReduceMax", name, axis)])


def export_l2_normalization(node: Node, t: Target) -> None:
    """L2Normalization: x / Sqrt(Max(sum of squares, epsilon**2)).

    ONNX's LpNormalization has no epsilon.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.L2Normalization)
    name, kind = t.real(x), t.real_type(x)
    half = kind is DType.FLOAT16  # which has no number as small as epsilon**2
    name = t.cast(name, DType.FLOAT32) if half else name
    if _is_last(op.axis, x):
        squares = _along(t, "ReduceSum", t.node("Mul", [name, name]), op.axis)
    else:
        squares = _along(t, "ReduceSumSquare", name, op.axis)
    least = t.const(np.asarray(op.epsilon**2, np.float32)) if half else t.floats(op.epsilon**2, x)
    result = t.node("Div", [name, t.node("Sqrt", [t.node("Max", [squares, least])])])
    t.set_real(y, t.cast(result, kind) if half else result, op.activation)


def export_local_response(node: Node, t: Target) -> None:
    """LocalResponseNormalization: LRN, which works along dimension 1.

    It divides alpha by the window's size; onnxruntime takes alpha and beta above 0.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.LocalResponseNormalization)
    if op.alpha == 0 or op.beta == 0:  # the same divisor for all
        with np.errstate(invalid="ignore"):
            divisor = np.float64(op.bias) ** op.beta
        t.set_real(y, t.node("Div", [t.real(x), t.floats(divisor, x)]))
        return
    name, rank = narrowed(t, x), x.type.rank
    by_parts = op.behind > 0 or min(op.alpha, op.beta) < 0
    size = 2 * op.radius + 1
    if rank != 4 or op.axis == 0:
        dims = static_shape(x.shape)
        if dims is None or 0 in dims or by_parts:
            raise t.unsupported(f"it works on rank 4, behind the first dimension, this is {x.type}")
        around = (math.prod(dims[: op.axis]), dims[op.axis], math.prod(dims[op.axis + 1 :]), 1)
        factors = {"size": size, "alpha": op.alpha * size, "beta": op.beta, "bias": op.bias}
        result = t.node("LRN", [t.reshape(name, around)], **factors)
        t.set_real(y, widened(t, t.reshape(result, dims), y))
        return
    if by_parts:
        t.set_real(y, _by_parts(t, op, x))
        return
    there = (0, op.axis, *(i for i in range(1, 4) if i != op.axis))
    turned = op.axis != 1
    if turned:
        name = t.node("Transpose", [name], perm=there)
    result = t.node("LRN", [name], size=size, alpha=op.alpha * size, beta=op.beta, bias=op.bias)
    if turned:
        back = tuple(there.index(i) for i in range(4))
        result = t.node("Transpose", [result], perm=back)
    t.set_real(y, widened(t, result, y))


def _by_parts(t: Target, op: n.LocalResponseNormalization, x: Value) -> str:
    """The op with more neighbours behind than before, or factors below 0: its parts."""
    name = t.real(x)
    pads = [0] * 8
    pads[op.axis], pads[4 + op.axis] = op.radius, op.radius + op.behind
    squares = t.node("Pad", [t.node("Mul", [name, name]), t.const(pads)])
    size = bounded_nodes(t, 2 * op.radius + op.behind + 1)
    total, end = "", x.shape[op.axis] if x.shape is not None else None
    if not isinstance(end, int):
        raise t.unsupported(f"the extent of dimension {op.axis} isn't known")
    for i in range(size):
        bounds = [t.const([i]), t.const([i + end]), t.const([op.axis])]
        part = t.node("Slice", [squares, *bounds])
        total = t.node("Add", [total, part]) if total else part
    scaled = t.node("Mul", [total, t.floats(op.alpha, x)])
    base = t.node("Add", [scaled, t.floats(op.bias, x)])
    return t.node("Div", [name, t.node("Pow", [base, t.floats(op.beta, x)])])


def export_lp_normalization(node: Node, t: Target) -> None:
    """LpNormalization."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, n.LpNormalization)
    result = t.node("LpNormalization", [narrowed(t, x, WITH_DOUBLE)], axis=op.axis, p=op.p)
    t.set_real(y, widened(t, result, y, WITH_DOUBLE))


EXPORTERS: dict[type[Op], Exporter] = {
    n.Softmax: export_softmax,
    n.Hardmax: export_hardmax,
    n.LogSoftmax: export_log_softmax,
    n.L2Normalization: export_l2_normalization,
    n.LpNormalization: export_lp_normalization,
    n.LocalResponseNormalization: export_local_response,
}
