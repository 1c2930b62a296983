"""Recurrent ops on integers: every number is int64, functions are tables of all 16-bit codes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.svdf import fixed, integer, saturated
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.fixed_point import logistic, tanh
from nnconv.ops.quantized_rnn import QuantizedLstm
from nnconv.ops.rnn import LstmOperands

_GATE_BITS = 3
"""Integer bits of a gate's value before its function."""

_CODES = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)


def _lookup(t: Target, name: str, function: Callable[[np.ndarray, int], np.ndarray], n: int) -> str:
    """A function of 16-bit codes with ``n`` integer bits."""
    table = t.const(function(_CODES, n).astype(np.int16))
    place = t.node("Add", [name, integer(t, 1 << 15)])
    return t.cast(t.node("Gather", [table, place]), DType.INT64)


def _right(t: Target, name: str, count: int) -> str:
    """Divided by a power of two, ties away from zero."""
    half = t.node("Mul", [t.node("Sign", [name]), integer(t, 1 << (count - 1))])
    return t.node("Div", [t.node("Add", [name, half]), integer(t, 1 << count)])


def _narrow(t: Target, name: str) -> str:
    return saturated(t, name, DType.INT16)


def _product(t: Target, rows: str, weights: Value) -> str:
    """Sums of products, exact in float64."""
    if weights.data is not None:
        matrix = t.const(weights.data.T.astype(np.float64))
    else:
        matrix = t.node("Transpose", [t.cast(t.stored(weights), DType.FLOAT64)], perm=(1, 0))
    return t.cast(t.node("MatMul", [t.cast(rows, DType.FLOAT64), matrix]), DType.INT64)


def _without(t: Target, value: Value, zero_point: int) -> str:
    wide = t.cast(t.stored(value), DType.INT64)
    return t.node("Sub", [wide, integer(t, zero_point)]) if zero_point else wide


# -------------------------------------------------------------------- normalization


def _high(t: Target, a: str, b: str) -> str:
    """The upper half of twice a product of 31-bit numbers, rounded."""
    product = t.node("Mul", [a, b])
    negative = t.node("Less", [product, integer(t, 0)])
    nudge = t.node("Where", [negative, integer(t, 1 - (1 << 30)), integer(t, 1 << 30)])
    return t.node("Div", [t.node("Add", [product, nudge]), integer(t, 1 << 31)])


def _limited(t: Target, name: str) -> str:
    return saturated(t, name, DType.INT32)


def _inverse_root(t: Target, value: str) -> tuple[str, str]:
    """1 / sqrt(value) as a 31-bit multiplier, and how far the product goes to the right."""
    large = t.node("GreaterOrEqual", [value, integer(t, 1 << 29)])
    x = t.node("Where", [large, t.node("Div", [value, integer(t, 4)]), value])
    powers = t.const(np.int64(1) << np.arange(31, dtype=np.int64))
    reached = t.node("GreaterOrEqual", [t.node("Unsqueeze", [x, t.const([-1])]), powers])
    length = t.node("ReduceSum", [t.cast(reached, DType.INT64), t.const([-1])], keepdims=0)
    spare = (31 - np.arange(32, dtype=np.int64)) // 2 - 1  # of each length
    spare[30:] = 0
    left = t.node("Gather", [t.const(spare), length])
    shift = t.node("Sub", [t.node("Add", [t.cast(large, DType.INT64), integer(t, 11)]), left])
    x = t.node("Mul", [x, t.node("Gather", [t.const(np.int64(1) << 2 * spare), length])])
    quarter = t.node("Div", [x, integer(t, 2)])
    half = t.node("Div", [t.node("Add", [quarter, integer(t, 1)]), integer(t, 2)])
    root = integer(t, 1 << 28)
    for _ in range(5):
        cube = _high(t, _high(t, root, root), root)
        bent = _high(t, half, _limited(t, t.node("Mul", [cube, integer(t, 64)])))
        more = t.node("Sub", [_high(t, root, integer(t, 3 << 27)), bent])
        root = _limited(t, t.node("Mul", [more, integer(t, 8)]))
    root = _high(t, root, integer(t, 1518500250))
    low = t.node("Max", [t.node("Neg", [shift]), integer(t, 0)])
    factors = t.const(np.int64(1) << np.arange(16, dtype=np.int64))
    root = t.node("Mul", [root, t.node("Gather", [factors, low])])
    shift = t.node("Max", [shift, integer(t, 0)])
    tiny = t.node("LessOrEqual", [value, integer(t, 1)])
    return (
        t.node("Where", [tiny, integer(t, (1 << 31) - 1), root]),
        t.node("Where", [tiny, integer(t, 0), shift]),
    )


def _normalized(t: Target, rows: str, norm: Value, bias: Value | None, scale: float) -> str:
    """A gate's values [B, N] with mean 0 and deviation 1 over the cells, times weights."""
    count = int((norm.shape or (0,))[0] or 0)
    total = t.node("ReduceSum", [rows, t.const([1])], keepdims=1)
    mean = t.node("Div", [t.node("Mul", [total, integer(t, 1024)]), integer(t, count)])
    squares = t.node("ReduceSum", [t.node("Mul", [rows, rows]), t.const([1])], keepdims=1)
    spread = t.node("Mul", [squares, integer(t, (1 << 20) // count)])
    spread = t.node("Sub", [spread, t.node("Mul", [mean, mean])])
    variance = t.node("Div", [spread, integer(t, 1 << 20)])
    multiplier, right = _inverse_root(t, t.node("Max", [variance, integer(t, 1)]))
    centred = t.node("Sub", [t.node("Mul", [rows, integer(t, 1024)]), mean])
    high = t.node("Add", [t.node("Mul", [centred, multiplier]), integer(t, (1 << 62) + (1 << 30))])
    high = t.node("Sub", [t.node("Div", [high, integer(t, 1 << 31)]), integer(t, 1 << 31)])
    powers = np.int64(1) << np.arange(16, dtype=np.int64)
    half = t.node("Gather", [t.const(powers // 2), right])
    high = t.node("Add", [high, t.node("Mul", [t.node("Sign", [high]), half])])
    whole = t.node("Div", [high, t.node("Gather", [t.const(powers), right])])
    sums = t.node("Mul", [whole, t.cast(t.stored(norm), DType.INT64)])
    if bias is not None:
        sums = t.node("Add", [sums, t.cast(t.stored(bias), DType.INT64)])
    return _narrow(t, fixed(t, _right(t, sums, 10), scale * 4096.0))


# -------------------------------------------------------------------- the step


class _Step:
    """The operands of a step; x, h and c as whole numbers, less their zero points."""

    def __init__(self, node: Node, t: Target) -> None:
        op = node.op
        assert isinstance(op, QuantizedLstm)
        given = LstmOperands(node.inputs)
        self.op, self.t = op, t
        assert given.x is not None
        assert given.output is not None
        assert given.cell is not None
        self.given = given
        self.x = _without(t, given.x, op.x_zero_point)
        self.h = _without(t, given.output, op.h_zero_point)
        self.c = t.cast(t.stored(given.cell), DType.INT64)

    def gate(self, index: int, cell: str) -> str:
        """A gate's value with three integer bits."""
        op, t, given = self.op, self.t, self.given
        weights, recurrent = given.weights[index], given.recurrent[index]
        peephole, bias, norm = given.peepholes[index], given.biases[index], given.norms[index]
        assert weights is not None
        assert recurrent is not None
        value = _narrow(t, fixed(t, _product(t, self.x, weights), op.input_scales[index]))
        more = fixed(t, _product(t, self.h, recurrent), op.recurrent_scales[index])
        value = _narrow(t, t.node("Add", [value, more]))
        if peephole is not None:
            product = t.node("Mul", [t.cast(t.stored(peephole), DType.INT64), cell])
            more = fixed(t, product, op.peephole_scales[min(index, 2)])
            value = _narrow(t, t.node("Add", [value, more]))
        if norm is None:
            return value
        return _normalized(t, value, norm, bias, op.norm_scales[index])

    def projected(self, hidden: str) -> str:
        """The result of the value before a projection."""
        op, t, given = self.op, self.t, self.given
        if given.projection is None:
            return hidden
        inner = hidden
        if op.hidden_zero_point:
            inner = t.node("Sub", [hidden, integer(t, op.hidden_zero_point)])
        sums = _product(t, inner, given.projection)
        if given.projection_bias is not None:
            sums = t.node("Add", [sums, t.cast(t.stored(given.projection_bias), DType.INT64)])
        moved = t.node("Add", [fixed(t, sums, op.projection_scale), integer(t, op.h_zero_point)])
        return _clipped(t, saturated(t, moved, DType.INT8), op.projection_clip)


def _clipped(t: Target, name: str, bound: int) -> str:
    return t.node("Clip", [name, integer(t, -bound), integer(t, bound)]) if bound else name


def export_quantized_lstm(node: Node, t: Target) -> None:
    """QuantizedLstm, bit by bit."""
    op, s = node.op, _Step(node, t)
    assert isinstance(op, QuantizedLstm)
    forget = _lookup(t, s.gate(1, s.c), logistic, _GATE_BITS)
    candidate = _lookup(t, s.gate(2, s.c), tanh, _GATE_BITS)
    if s.given.weights[0] is None:
        take = t.node("Sub", [integer(t, (1 << 15) - 1), forget])
    else:
        take = _lookup(t, s.gate(0, s.c), logistic, _GATE_BITS)
    kept = _narrow(t, _right(t, t.node("Mul", [forget, s.c]), 15))
    added = t.node("Mul", [take, candidate])
    count = 30 + op.cell_power
    added = _narrow(t, _right(t, added, count) if count else added)
    cell = _clipped(t, _narrow(t, t.node("Add", [kept, added])), op.cell_clip)
    output = _lookup(t, s.gate(3, cell), logistic, _GATE_BITS)
    shown = t.node("Mul", [output, _lookup(t, cell, tanh, 15 + op.cell_power)])
    moved = fixed(t, shown, op.hidden_scale)
    if op.hidden_zero_point:
        moved = t.node("Add", [moved, integer(t, op.hidden_zero_point)])
    hidden = s.projected(saturated(t, moved, DType.INT8))
    t.set_stored(node.outputs[0], t.cast(hidden, DType.INT8))
    t.set_stored(node.outputs[1], t.cast(cell, DType.INT16))


EXPORTERS: dict[type[Op], Exporter] = {QuantizedLstm: export_quantized_lstm}
