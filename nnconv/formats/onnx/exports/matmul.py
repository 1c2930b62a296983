"""Products of matrices."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.weights import (
    bias,
    is_integer,
    is_large,
    kept_apart,
    large_weights,
    product_operand,
    turned,
    weights,
)
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op, Perm
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.shape import Transpose


def export_fully_connected(node: Node, t: Target) -> None:
    """FullyConnected: Gemm with the weights as they are; MatMul, Add where the input isn't rank 2.

    On codes, other ranks are brought to 2 first: only Gemm's integer kernel adds a bias.
    """
    op, y = node.op, node.outputs[0]
    x, filters, bias_value = node.operand(0), node.operand(1), node.optional(2)
    assert isinstance(op, FullyConnected)
    if is_large(t, x, filters):
        product = t.node("MatMul", [t.real(x), large_weights(t, filters, x=x)])
        offset = bias(t, bias_value, x=x, weights=filters, integer=False)
        t.set_real(y, t.node("Add", [product, offset]) if offset else product, op.activation)
        return
    integer = is_integer(t, x, filters, bias_value)
    offset = bias(t, bias_value, x=x, weights=filters, integer=integer)
    rows = _row_shape(x, y) if integer else None
    if rows is not None or x.type.rank == 2:
        if rows is None:
            data = product_operand(t, x, integer=integer)
        else:
            codes = t.reshape(t.codes(x), (-1, rows[0]))
            data = t.dequantize(codes, t.inner_quant(x), t.inner_type(x))
        inputs = [data, weights(t, filters, (0, 1), x=x, integer=integer)]
        result = t.node("Gemm", [*inputs, offset] if offset else inputs, transB=1)
        t.set_real(y, result, op.activation)
        if rows is not None:
            t.set_codes(y, t.reshape(t.codes(y), rows[1]))
        return
    data = _left(t, product_operand(t, x, integer=integer), x)
    turned_filters = weights(t, filters, (1, 0), x=x, integer=integer)
    product = t.node("MatMul", [data, turned_filters])
    t.set_real(y, t.node("Add", [product, offset]) if offset else product, op.activation)


def _row_shape(x: Value, y: Value) -> tuple[int, tuple[int, ...]] | None:
    """Depth and result shape (one -1) of an input that goes through rank 2; None if it can't."""
    if x.shape is None or y.shape is None or len(x.shape) == 2 or 0 in (*x.shape, *y.shape):
        return None
    shape = tuple(d if isinstance(d, int) else -1 for d in y.shape)
    depth = x.shape[-1]
    return (depth, shape) if isinstance(depth, int) and shape.count(-1) <= 1 else None


def export_matmul(node: Node, t: Target) -> None:
    """MatMul; operands by Transpose, which onnxruntime fuses, constants turned beforehand.

    Codes to int32 are MatMulInteger.
    """
    op, y = node.op, node.outputs[0]
    a, b = node.operand(0), node.operand(1)
    assert isinstance(op, MatMul)
    if t.is_quantized(a) and t.is_quantized(b) and y.dtype is DType.INT32:
        t.set_codes(y, _sums(op, a, b, t))
        return
    integer = is_integer(t, a, b)
    left = turned(t, a, _order(t, a, transpose=op.transpose_a))
    left = _left(t, left, a)
    order = _order(t, b, transpose=op.transpose_b)
    if b.data is not None:
        right = weights(t, b, order, x=a, integer=integer)
    else:
        right = turned(t, b, order)
    t.set_real(y, t.node("MatMul", [left, right]))


def _left(t: Target, name: str, value: Value) -> str:
    """A left factor, kept apart from the Transpose that makes it where it must be."""
    node = value.producer
    if value.dtype is not DType.FLOAT16 or node is None or not isinstance(node.op, Transpose):
        return name
    perm = node.op.perm
    is_fused = perm is not None and len(perm) > 2 and perm[0] != 0
    return kept_apart(t, name) if is_fused else name


def _order(t: Target, value: Value, *, transpose: bool) -> Perm:
    """The order of an operand's dimensions, the last two exchanged on request."""
    rank = value.type.rank
    if not transpose:
        return tuple(range(rank or 0))
    if rank is None:
        raise t.unsupported("the rank of a transposed operand isn't known")
    return (*range(rank - 2), rank - 1, rank - 2)


def _sums(op: MatMul, a: Value, b: Value, t: Target) -> str:
    """The integer product of codes less their zero points."""
    names, points = [], []
    for value, transpose in ((a, op.transpose_a), (b, op.transpose_b)):
        order = _order(t, value, transpose=transpose)
        codes = t.codes(value)
        names.append(t.node("Transpose", [codes], perm=order) if transpose else codes)
        point = np.asarray(t.inner_quant(value).zero_point[0], t.inner_type(value).numpy)
        points.append(t.const(point))
    return t.node("MatMulInteger", [*names, *points])


EXPORTERS: dict[type[Op], Exporter] = {
    FullyConnected: export_fully_connected,
    MatMul: export_matmul,
}
