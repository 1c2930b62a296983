"""Products of matrices."""

from __future__ import annotations

from typing import Any

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.formats.tflite.exports.conv import bias_tensor, bias_type, needs_wide_bias, weighted
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.matmul import FullyConnected, MatMul

_CODES = frozenset({DType.INT8, DType.INT16})

MOST_RANK = 5
"""Up to this rank every set of kernels multiplies matrices."""


def export_fully_connected(node: Node, t: Target) -> None:
    """FULLY_CONNECTED, whose bias may be absent; weights [O, I] as they are."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, FullyConnected)
    w = weighted(node, t, narrow=True, hybrid=True)
    if x.type.rank is None:
        raise t.refused(f"the rank of `{x.name}` isn't known")
    fields: dict[str, Any] = {
        "keep_num_dims": x.type.rank != 2,
        "fused_activation_function": t.activation(op.activation),
    }
    if weights.shape is not None and weights.shape[1] == 0:
        raise t.refused("FULLY_CONNECTED over no elements leaves out its bias")
    filters = weights.shape[0] if weights.shape is not None else None
    bias = -1
    if w.bias is not None:
        if w.integer and not isinstance(filters, int):
            raise t.refused("the extents of its weights aren't known")
        wide = needs_wide_bias(node, w)
        bias = bias_tensor(t, w, filters if isinstance(filters, int) else 0, wide=wide)
        fields |= bias_type(w, wide=wide)
    version = max(
        5 if fields["keep_num_dims"] else 1,
        1 if w.bias is not None else 6,
        _version_of(w.x, w.weights, integer=w.integer),
    )
    operands = [t.tensor(x), t.tensor(weights), bias]
    options = ("FullyConnectedOptions", fields)
    t.emit("FULLY_CONNECTED", operands, node.outputs[0], options, version=version)


def _version_of(x: Value, weights: Value, *, integer: bool) -> int:
    """The version of FULLY_CONNECTED that brought the types."""
    if not integer:
        return 1 if weights.quant is None else 3
    if weights.dtype is DType.INT4:
        return 10
    return {DType.UINT8: 1, DType.INT8: 4, DType.INT16: 7}[x.dtype]


def export_matmul(node: Node, t: Target) -> None:
    """BATCH_MATMUL of two matrices or more."""
    op, y = node.op, node.outputs[0]
    a, b = node.operand(0), node.operand(1)
    assert isinstance(op, MatMul)
    t.require(node, plain=FLOAT32, codes=_CODES)
    ranks = [v.type.rank for v in (a, b)]
    if any(rank is None or not 2 <= rank <= MOST_RANK for rank in ranks):
        raise t.refused(f"BATCH_MATMUL takes ranks from 2 to {MOST_RANK}")
    if any(0 in (v.shape or ())[-2:] for v in (a, b)):
        raise t.refused("BATCH_MATMUL takes no matrices without elements")
    for value in (a, b, y):
        _check_codes(value, a, t)
    options = ("BatchMatMulOptions", {"adj_x": op.transpose_a, "adj_y": op.transpose_b})
    version = {DType.FLOAT32: 1, DType.INT8: 2, DType.INT16: 3}[a.dtype]
    t.emit("BATCH_MATMUL", [t.tensor(a), t.tensor(b)], y, options, version=version)


def _check_codes(value: Value, like: Value, t: Target) -> None:
    if value.quant is None:
        if like.quant is not None:
            raise t.to_floats("some of its operands are codes, others floats")
        return
    wide = like.dtype is DType.INT8 and value.dtype is DType.INT32
    if value.dtype is not like.dtype and not wide:
        raise t.to_floats(f"`{value.name}` is {value.type}, another operand {like.type}")
    if not value.quant.is_per_tensor:
        raise t.to_floats(f"`{value.name}` has a scale for each channel")
    if value.dtype is DType.INT16 and not value.quant.is_symmetric:
        raise t.to_floats(f"`{value.name}` has a zero point, which 16-bit kernels don't take")


EXPORTERS: dict[type[Op], Exporter] = {
    FullyConnected: export_fully_connected,
    MatMul: export_matmul,
}
