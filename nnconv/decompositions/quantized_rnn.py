"""Recurrent ops on integers, in float32: rounded where they round, functions from tables.

Sums of products beyond 2**24 lose their last bits, and a tie may be rounded the other way: results
differ by a code here and there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops import elementwise as e
from nnconv.ops.fixed_point import logistic, tanh
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.quantized_rnn import QuantizedLstm
from nnconv.ops.reduce import ReduceMean, ReduceSum
from nnconv.ops.rnn import LstmOperands
from nnconv.ops.svdf import fixed_point

_GATE_BITS = 3
"""Integer bits of a gate's value before its function."""

_UNIT = 1 << 12
"""So many steps has such a value to 1."""

_MOST_RIGHT = 8
"""Beyond so many bits it hardly counts that a number is rounded twice."""

_LARGE = (2.0 ** np.arange(7, 31, 2)).astype(np.float32)
"""From each of these variances on, the root of its inverse has a bit more."""

_WIDE = (-32768, 32767)
_BYTE = (-128, 127)


class _Codes:
    """Arithmetic on whole numbers in float32: each method adds nodes."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def of(self, value: Value, zero_point: int = 0) -> Value:
        """A value's codes less a zero point."""
        plain = value
        if value.quant is not None:
            kind = TensorType(value.dtype, value.shape)
            (plain,) = self.b.add_typed(Bitcast(dtype=value.dtype), [value], [kind])
        return self.sum(self.b.add(Cast(dtype=DType.FLOAT32), [plain]), -zero_point)

    def _number(self, number: float) -> Value:
        return self.b.const(np.full(1, number, np.float32))

    def sum(self, x: Value, y: Value | float) -> Value:
        """X + y."""
        if not isinstance(y, Value):
            return self.b.add(e.Add(), [x, self._number(y)]) if y else x
        return self.b.add(e.Add(), [x, y])

    def product(self, x: Value, y: Value | float) -> Value:
        """X * y."""
        return self.b.add(e.Mul(), [x, y if isinstance(y, Value) else self._number(y)])

    def scaled(self, x: Value, scale: float) -> Value:
        """X times a scale as fixed point has it: rounded to a few bits more, and then once again.

        Ties go away from zero.
        """
        right = min(max(-fixed_point(scale)[1], 0), _MOST_RIGHT)
        return self.twice(self.product(x, scale), self._number(2.0**right))

    def twice(self, x: Value, finer: Value) -> Value:
        """X rounded to steps of 1 / ``finer``, and then once again."""
        high = self.b.add(e.Round(), [self.product(x, finer)])
        parts = self.b.add(e.Div(), [self.b.add(e.Abs(), [high]), finer])
        size = self.b.add(e.Floor(), [self.sum(parts, 0.5)])
        return self.product(size, self.b.add(e.Sign(), [high]))

    def finer(self, spread: Value) -> Value:
        """How much finer than whole numbers products with the root of 1 / spread [B, 1] are."""
        reached = self.b.add(e.GreaterEqual(), [spread, self.b.const(_LARGE)])
        steps = self.b.add(Cast(dtype=DType.INT32), [reached])
        count = self.b.add(ReduceSum(axes=(1,), keep_dims=True), [steps])
        table = self.b.const(2.0 ** np.arange(_LARGE.size + 1, dtype=np.float32))
        return self.b.add(Gather(axis=0), [table, count])

    def rounded(self, x: Value, limits: tuple[int, int] = _WIDE) -> Value:
        """The nearest whole number within limits."""
        return self.within(self.b.add(e.Round(), [x]), limits)

    def within(self, x: Value, limits: tuple[int, int]) -> Value:
        """What is next within limits."""
        return self.b.add(e.Clip(low=float(limits[0]), high=float(limits[1])), [x])

    def matrix(self, x: Value, weights: Value) -> Value:
        """X [B, I] times weights [O, I]."""
        return self.b.add(FullyConnected(), [x, self.of(weights), None])

    def function(
        self, function: Callable[[np.ndarray, int], np.ndarray], x: Value, n: int
    ) -> Value:
        """A function of 16-bit codes with ``n`` integer bits."""
        table = function(np.arange(-(1 << 15), 1 << 15, dtype=np.int64), n).astype(np.float32)
        place = self.b.add(Cast(dtype=DType.INT32), [self.sum(x, float(1 << 15))])
        return self.b.add(Gather(axis=0), [self.b.const(table), place])

    def given(self, x: Value, kind: TensorType) -> Value:
        """Whole numbers as codes of a type."""
        stored = self.b.add(Cast(dtype=kind.dtype), [x])
        quantized = TensorType(kind.dtype, stored.shape, kind.quant)
        return self.b.add_typed(Bitcast(dtype=kind.dtype), [stored], [quantized])[0]


class _Step:
    """The operands of a step; x, h and c as whole numbers, less their zero points."""

    def __init__(self, node: Node, b: Builder) -> None:
        op = node.op
        assert isinstance(op, QuantizedLstm)
        given = LstmOperands(node.inputs)
        self.op, self.codes = op, _Codes(b)
        assert given.x is not None
        assert given.output is not None
        assert given.cell is not None
        self.given = given
        self.x = self.codes.of(given.x, op.x_zero_point)
        self.h = self.codes.of(given.output, op.h_zero_point)
        self.c = self.codes.of(given.cell)

    def gate(self, index: int, cell: Value) -> Value:
        """A gate's value."""
        op, k, given = self.op, self.codes, self.given
        weights, recurrent = given.weights[index], given.recurrent[index]
        peephole, norm = given.peepholes[index], given.norms[index]
        assert weights is not None
        assert recurrent is not None
        value = k.within(k.scaled(k.matrix(self.x, weights), op.input_scales[index]), _WIDE)
        more = k.scaled(k.matrix(self.h, recurrent), op.recurrent_scales[index])
        value = k.within(k.sum(value, more), _WIDE)
        if peephole is not None:
            scale = op.peephole_scales[min(index, 2)]
            more = k.scaled(k.product(k.of(peephole), cell), scale)
            value = k.within(k.sum(value, more), _WIDE)
        return value if norm is None else self._normalized(index, value, norm)

    def _normalized(self, index: int, value: Value, norm: Value) -> Value:
        b, k = self.codes.b, self.codes
        mean = b.add(ReduceMean(axes=(1,), keep_dims=True), [value])
        centred = b.add(e.Sub(), [value, mean])
        squares = b.add(ReduceMean(axes=(1,), keep_dims=True), [k.product(centred, centred)])
        whole = b.add(e.Floor(), [squares])  # as they are divided
        spread = b.add(e.Maximum(), [whole, b.const(np.ones(1, np.float32))])
        even = k.product(k.product(centred, b.add(e.Rsqrt(), [spread])), 1024.0)
        sums = k.product(k.twice(even, k.finer(spread)), k.of(norm))
        bias = self.given.biases[index]
        sums = sums if bias is None else k.sum(sums, k.of(bias))
        scale = self.op.norm_scales[index] * _UNIT
        return k.within(k.scaled(b.add(e.Round(), [k.product(sums, 1 / 1024)]), scale), _WIDE)

    def hidden(self, shown: Value) -> Value:
        """The output, behind its projection if there is one, as whole numbers."""
        op, k, given = self.op, self.codes, self.given
        point = op.hidden_zero_point
        hidden = k.within(k.sum(k.scaled(shown, op.hidden_scale), point), _BYTE)
        if given.projection is None:
            return hidden
        sums = k.matrix(k.sum(hidden, -point), given.projection)
        if given.projection_bias is not None:
            sums = k.sum(sums, k.of(given.projection_bias))
        hidden = k.within(k.sum(k.scaled(sums, op.projection_scale), op.h_zero_point), _BYTE)
        most = op.projection_clip
        return k.within(hidden, (-most, most)) if most else hidden


def decompose_quantized_lstm(node: Node, b: Builder) -> list[Value] | None:
    """QuantizedLstm, gate by gate."""
    s = _Step(node, b)
    op, k = s.op, s.codes
    forget = k.function(logistic, s.gate(1, s.c), _GATE_BITS)
    candidate = k.function(tanh, s.gate(2, s.c), _GATE_BITS)
    if s.given.weights[0] is None:
        take = k.sum(k.product(forget, -1.0), _WIDE[1])
    else:
        take = k.function(logistic, s.gate(0, s.c), _GATE_BITS)
    kept = k.rounded(k.product(k.product(forget, s.c), 2.0**-15))
    more = k.rounded(k.product(k.product(take, candidate), 2.0 ** -(30 + op.cell_power)))
    cell = k.within(k.sum(kept, more), _WIDE)
    if op.cell_clip:
        cell = k.within(cell, (-op.cell_clip, op.cell_clip))
    output = k.function(logistic, s.gate(3, cell), _GATE_BITS)
    shown = k.product(output, k.function(tanh, cell, 15 + op.cell_power))
    kinds = [value.type for value in node.outputs]
    return [k.given(s.hidden(shown), kinds[0]), k.given(cell, kinds[1])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    QuantizedLstm: (decompose_quantized_lstm,),
}
