"""SVDF."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.stacked import stacked
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.svdf import QuantizedSvdf, Svdf, fixed_point

_EXACT_SUM = 2**24 // (255 * 128)
"""How many products of 8-bit codes float32 adds up exactly."""


def _svdf_extents(node: Node, t: Target) -> tuple[int, int]:
    times = node.inputs[2]
    shape = times.shape if times is not None else None
    if shape is None or not isinstance(shape[0], int) or not isinstance(shape[1], int):
        raise t.unsupported("the number of filters isn't known")
    return shape[0], shape[1]


def _remembered(t: Target, state: str, newest: str, filters: int, memory: int) -> str:
    """The state [B,F*M] without its oldest column and with ``newest`` [B,F]: [B,F,M]."""
    column = t.node("Unsqueeze", [newest, t.const([2])])
    if memory == 1:
        return column
    past = t.node(
        "Slice",
        [t.reshape(state, (-1, filters, memory)), t.const([1]), t.const([memory]), t.const([2])],
    )
    return t.node("Concat", [past, column], axis=2)


def _summed(t: Target, name: str, filters: int, rank: int) -> str:
    """Sums over time and over the filters of each unit: [B,F,M] to [B,F / rank]."""
    total = t.node("ReduceSum", [name, t.const([2])], keepdims=0)
    if rank == 1:
        return total
    units = t.reshape(total, (-1, filters // rank, rank))
    return t.node("ReduceSum", [units, t.const([2])], keepdims=0)


def export_svdf(node: Node, t: Target) -> None:
    """Svdf: a product for the newest column, a sum of products over time."""
    op = node.op
    x, features, times, bias, state = node.inputs
    assert isinstance(op, Svdf)
    assert x is not None
    assert features is not None
    assert times is not None
    assert state is not None
    filters, memory = _svdf_extents(node, t)
    weights = stacked(t, [(features, 1)], x, transpose=True)
    newest = t.node("MatMul", [t.real(x), weights])
    current = _remembered(t, t.real(state), newest, filters, memory)
    weighted = t.node("Mul", [current, stacked(t, [(times, 1)], x)])
    result = _summed(t, weighted, filters, op.rank)
    if bias is not None:
        result = t.node("Add", [result, t.real(bias)])
    t.set_real(node.outputs[0], result, op.activation)
    t.set_real(node.outputs[1], t.reshape(current, (-1, filters * memory)))


def export_quantized_svdf(node: Node, t: Target) -> None:
    """QuantizedSvdf: all sums in integers, or in floats that hold them exactly."""
    op, y = node.op, node.outputs[0]
    x, features, times, bias, state = node.inputs
    assert isinstance(op, QuantizedSvdf)
    assert x is not None
    assert state is not None
    assert features is not None
    assert times is not None
    filters, memory = _svdf_extents(node, t)
    depth = features.shape[1] if features.shape is not None else None
    wide = DType.FLOAT32 if isinstance(depth, int) and depth <= _EXACT_SUM else DType.FLOAT64
    data = t.cast(t.codes(x), wide)
    point = op.x_zero_point + (128 if t.is_resigned(x) else 0)
    if point:
        data = t.node("Sub", [data, t.const(np.asarray(point, wide.numpy))])
    weights = t.cast(_code_matrix(t, features, transpose=True), wide)
    sums = t.cast(t.node("MatMul", [data, weights]), DType.INT64)
    newest = _fixed(t, sums, op.state_scale)
    if op.state_zero_point:
        newest = t.node("Add", [newest, _integer(t, op.state_zero_point)])
    newest = _saturated(t, newest, state.dtype)
    current = _remembered(t, t.stored(state), t.cast(newest, state.dtype), filters, memory)
    t.set_stored(node.outputs[1], t.reshape(current, (-1, filters * memory)))
    codes = t.cast(current, DType.INT64)
    if op.state_zero_point:
        codes = t.node("Sub", [codes, _integer(t, op.state_zero_point)])
    weighted = t.node("Mul", [codes, t.cast(_code_matrix(t, times), DType.INT64)])
    total = _summed(t, weighted, filters, op.rank)
    if bias is not None:
        total = t.node("Add", [total, t.int64(bias)])
    result = _fixed(t, total, op.output_scale)
    if op.zero_point:
        result = t.node("Add", [result, _integer(t, op.zero_point)])
    t.set_stored(y, t.cast(_saturated(t, result, y.dtype), y.dtype))


def _code_matrix(t: Target, value: Value, *, transpose: bool = False) -> str:
    """The stored numbers of weights, in their own type whatever that of activations is."""
    if value.data is not None:
        return t.const(value.data.T if transpose else value.data, value.dtype)
    name = t.stored(value)
    return t.node("Transpose", [name], perm=(1, 0)) if transpose else name


def _integer(t: Target, value: int) -> str:
    return t.const(np.asarray(value, np.int64))


def _saturated(t: Target, name: str, dtype: DType) -> str:
    low, high = dtype.int_range
    return t.node("Clip", [name, _integer(t, low), _integer(t, high)])


def _fixed(t: Target, name: str, scale: float) -> str:
    """int64 ``name`` times ``scale`` in TFLite's fixed point: the product is rounded twice.

    First, half up, to the multiplier's 31 bits (a division that truncates, made to round down by an
    offset that keeps everything positive), then, half away from zero, by the exponent.
    """
    multiplier, exponent = fixed_point(scale)
    left, right = max(exponent, 0), max(-exponent, 0)
    product = t.node("Mul", [name, _integer(t, multiplier << left)])
    shifted = t.node("Add", [product, _integer(t, (1 << 62) + (1 << 30))])
    high = t.node("Div", [shifted, _integer(t, 1 << 31)])
    high = t.node("Sub", [high, _integer(t, 1 << 31)])
    if not right:
        return high
    half = t.node("Mul", [t.node("Sign", [high]), _integer(t, 1 << (right - 1))])
    return t.node("Div", [t.node("Add", [high, half]), _integer(t, 1 << right)])


EXPORTERS: dict[type[Op], Exporter] = {
    Svdf: export_svdf,
    QuantizedSvdf: export_quantized_svdf,
}
