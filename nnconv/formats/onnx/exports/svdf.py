"""SVDF."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.stacked import stacked
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ops.svdf import QuantizedSvdf, Svdf, fixed_point

_EXACT_SUM = 2**24 // (255 * 128)
"""How many products of 8-bit codes float32 adds up exactly."""

_MOST_HIGH = 2**22
"""Below this, sums times a 31-bit multiplier are exact in float64.

Whole numbers are rounded right with ``_BELOW_ONE``.
"""

_BELOW_ONE = 1 - 2.0**-23
"""Times a power of two, a scale by which QuantizeLinear rounds halves of whole numbers away from 0.

They come to lie just beyond the half then. All whole numbers below 2**22 are rounded right.
"""


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
    x, features, times = (node.operand(i) for i in range(3))
    bias, state = node.optional(3), node.operand(4)
    assert isinstance(op, Svdf)
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
    """QuantizedSvdf, bit by bit: in float64 where that is exact, which takes half as many nodes."""
    op, y = node.op, node.outputs[0]
    x, features, times = (node.operand(i) for i in range(3))
    bias, state = node.optional(3), node.operand(4)
    assert isinstance(op, QuantizedSvdf)
    filters, memory = _svdf_extents(node, t)
    newest = _quick_newest(op, x, features, state, t) or _newest(op, x, features, state, t)
    current = _remembered(t, t.stored(state), newest, filters, memory)
    t.set_stored(node.outputs[1], t.reshape(current, (-1, filters * memory)))
    if not _quick_result(node, op, current, t):
        _result(op, current, times, bias, y, t)


def _newest(op: QuantizedSvdf, x: Value, features: Value, state: Value, t: Target) -> str:
    """The newest column [B,F] in integers."""
    depth = features.shape[1] if features.shape is not None else None
    wide = DType.FLOAT32 if isinstance(depth, int) and depth <= _EXACT_SUM else DType.FLOAT64
    data = t.cast(t.codes(x), wide)
    point = _inner_point(t, x, op.x_zero_point)
    if point:
        data = t.node("Sub", [data, t.const(np.asarray(point, wide.numpy))])
    weights = t.cast(_code_matrix(t, features, transpose=True), wide)
    sums = t.cast(t.node("MatMul", [data, weights]), DType.INT64)
    newest = fixed(t, sums, op.state_scale)
    if op.state_zero_point:
        newest = t.node("Add", [newest, integer(t, op.state_zero_point)])
    return t.cast(saturated(t, newest, state.dtype), state.dtype)


def _result(
    op: QuantizedSvdf, current: str, times: Value, bias: Value | None, y: Value, t: Target
) -> None:
    """The result of the new state [B,F,M] in integers."""
    assert times.shape is not None
    filters = times.shape[0]
    assert isinstance(filters, int)
    codes = t.cast(current, DType.INT64)
    if op.state_zero_point:
        codes = t.node("Sub", [codes, integer(t, op.state_zero_point)])
    weighted = t.node("Mul", [codes, t.cast(_code_matrix(t, times), DType.INT64)])
    total = _summed(t, weighted, filters, op.rank)
    if bias is not None:
        total = t.node("Add", [total, t.int64(bias)])
    result = fixed(t, total, op.output_scale)
    if op.zero_point:
        result = t.node("Add", [result, integer(t, op.zero_point)])
    t.set_stored(y, t.cast(saturated(t, result, y.dtype), y.dtype))


def _quick_newest(op: QuantizedSvdf, x: Value, features: Value, state: Value, t: Target) -> str:
    """The newest column in float64; "" where that might not be exact."""
    if features.data is None:
        return ""
    codes = features.data.astype(np.int64)
    least, most = x.dtype.int_range
    farthest = max(most - op.x_zero_point, op.x_zero_point - least)
    bound = float(np.abs(codes).sum(axis=1).max(initial=0)) * farthest
    multiplier, exponent = fixed_point(op.state_scale)
    factor = multiplier * 2.0 ** (max(exponent, 0) - 31)
    if not multiplier or 2 * bound * factor >= _MOST_HIGH or not _has_quantizer(t, state.dtype):
        return ""
    data = t.cast(t.codes(x), DType.FLOAT64)
    weights = t.cast(_code_matrix(t, features, transpose=True), DType.FLOAT64)
    weights = t.node("Mul", [weights, t.const(np.float64(factor))])
    offset = 0.5 - _inner_point(t, x, op.x_zero_point) * codes.sum(axis=1) * factor
    sums = t.node("Gemm", [data, weights, t.const(offset)])
    step = 1.0 if exponent >= 0 else 2.0**-exponent * _BELOW_ONE
    return _rounded(t, sums, step, op.state_zero_point, state.dtype)


def _quick_result(node: Node, op: QuantizedSvdf, current: str, t: Target) -> bool:
    """Give the result in float64; False where that might not be exact."""
    _, _, times, bias, state = node.inputs
    y = node.outputs[0]
    assert times is not None
    assert state is not None
    if times.data is None:
        return False
    dtype, point = t.inner_type(y), _inner_point(t, y, op.zero_point)
    multiplier, exponent = fixed_point(op.output_scale)
    once = 2.0 ** (dtype.bits + 2 - exponent - 53)  # of one rounding, where nothing saturates
    step = _step_alike(op.output_scale, dtype, point, _summing_error(op, times, bias, state))
    folded = step is not None
    if step is None:
        step = _step_alike(op.output_scale, dtype, point, once)
    if step is None:
        return False
    codes = t.cast(current, DType.FLOAT64)
    if op.state_zero_point:
        codes = t.node("Sub", [codes, t.const(np.float64(op.state_zero_point))])
    factor, half = (t.const(np.float64(n)) for n in (multiplier * 2.0**-31, 0.5))
    weights = t.cast(_code_matrix(t, times), DType.FLOAT64)
    offset = t.cast(t.stored(bias), DType.FLOAT64) if bias is not None else ""
    if folded:
        weights = t.node("Mul", [weights, factor])
        half = t.node("Add", [t.node("Mul", [offset, factor]), half]) if offset else half
    total = _summed(t, t.node("Mul", [codes, weights]), times.data.shape[0], op.rank)
    if not folded:
        total = t.node("Add", [total, offset]) if offset else total
        total = t.node("Mul", [total, factor])
    t.set_codes(y, _rounded(t, t.node("Add", [total, half]), step, point, dtype))
    return True


def _summing_error(op: QuantizedSvdf, times: Value, bias: Value | None, state: Value) -> float:
    """How far off a float64 sum of products with scaled weights, and a bias, may be."""
    assert times.data is not None
    farthest = float(np.abs(times.data.astype(np.float64)).sum(axis=1).max(initial=0))
    sums = op.rank * farthest * 2.0 ** (state.dtype.bits - 1 + bool(op.state_zero_point))
    if bias is not None:
        sums += 2.0**31 if bias.data is None else float(np.abs(bias.data).max(initial=0))
    return float((op.rank * times.data.shape[1] + 4) * sums * 2.0**-53)


def _step_alike(scale: float, dtype: DType, point: int, error: float) -> float | None:
    """The scale with which ``_rounded`` gives every sum the 8-bit code that TFLite gives.

    Neither falls where sums grow. So it is enough that both step up at the same sums, and that what
    is computed there is farther than its ``error`` from the whole number between. None if there is
    none.
    """
    multiplier, exponent = fixed_point(scale)
    if not multiplier or dtype.bits != 8 or exponent > 0:
        return None
    least, most = dtype.int_range
    steps = np.arange(least, most) - point  # the codes below each step
    below = np.full(steps.shape, -(2**31), np.int64)
    above = np.full(steps.shape, 2**31 - 1, np.int64)
    for _ in range(32):
        middle = (below + above) // 2
        is_below = _multiplied(middle, multiplier, -exponent) <= steps
        below, above = np.where(is_below, middle, below), np.where(is_below, above, middle)
    sums = np.concatenate([below, above])
    span = (least - point, most - point)
    wanted = _multiplied(sums, multiplier, -exponent).clip(*span)
    products = sums * multiplier + (1 << 30)
    unsure = int(error * 2**31) + 1
    rest = products % (1 << 31)
    if (rest[steps.size :] < unsure).any() or (rest[: steps.size] >= (1 << 31) - unsure).any():
        return None
    high = (products >> 31).astype(np.float32)
    for factor in (_BELOW_ONE, 1 - 2.0**-24, 1.0):
        step = 2.0**-exponent * factor
        if (np.rint(high / np.float32(step)).clip(*span) == wanted).all():
            return step
    return None


def _multiplied(sums: np.ndarray, multiplier: int, right: int) -> np.ndarray:
    """What ``fixed`` makes of sums of 32 bits."""
    high = (sums * multiplier + (1 << 30)) >> 31
    result: np.ndarray = np.sign(high) * ((np.abs(high) + ((1 << right) >> 1)) >> right)
    return result


def _inner_point(t: Target, value: Value, point: int) -> int:
    """A zero point as that of the value's codes inside."""
    return point + (128 if t.is_resigned(value) else 0)


def _has_quantizer(t: Target, dtype: DType) -> bool:
    return dtype.bits == 8 or (dtype is DType.INT16 and t.opset >= 21)


def _rounded(t: Target, name: str, step: float, point: int, dtype: DType) -> str:
    """Codes of float64 sums that were multiplied, with 0.5 added: both roundings of ``fixed``."""
    high = t.cast(t.node("Floor", [name]), DType.FLOAT32)
    return t.quantize(high, Quant.per_tensor(step, point), dtype)


def _code_matrix(t: Target, value: Value, *, transpose: bool = False) -> str:
    """The stored numbers of weights, in their own type whatever that of activations is."""
    if value.data is not None:
        return t.const(value.data.T if transpose else value.data, value.dtype)
    name = t.stored(value)
    return t.node("Transpose", [name], perm=(1, 0)) if transpose else name


def integer(t: Target, value: int) -> str:
    """A whole number."""
    return t.const(np.asarray(value, np.int64))


def saturated(t: Target, name: str, dtype: DType) -> str:
    """int64 numbers within the range of a type."""
    low, high = dtype.int_range
    return t.node("Clip", [name, integer(t, low), integer(t, high)])


def fixed(t: Target, name: str, scale: float) -> str:
    """int64 ``name`` times ``scale`` in TFLite's fixed point: the product is rounded twice.

    First, half up, to the multiplier's 31 bits (a division that truncates, made to round down by an
    offset that keeps everything positive), then, half away from zero, by the exponent.
    """
    multiplier, exponent = fixed_point(scale)
    left, right = max(exponent, 0), max(-exponent, 0)
    product = t.node("Mul", [name, integer(t, multiplier << left)])
    shifted = t.node("Add", [product, integer(t, (1 << 62) + (1 << 30))])
    high = t.node("Div", [shifted, integer(t, 1 << 31)])
    high = t.node("Sub", [high, integer(t, 1 << 31)])
    if not right:
        return high
    half = t.node("Mul", [t.node("Sign", [high]), integer(t, 1 << (right - 1))])
    return t.node("Div", [t.node("Add", [high, half]), integer(t, 1 << right)])


EXPORTERS: dict[type[Op], Exporter] = {
    Svdf: export_svdf,
    QuantizedSvdf: export_quantized_svdf,
}
