"""Recurrent ops on integers."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel
from nnconv.backends.reference.svdf import scaled

from nnconv.ir.op import Op
from nnconv.ops.fixed_point import logistic, saturated, shifted_right, tanh
from nnconv.ops.quantized_rnn import QuantizedLstm
from nnconv.ops.rnn import LstmOperands

_GATE_BITS = 3
"""Integer bits of a gate's value before its function."""


def _inverse_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as a 31-bit multiplier and a shift to the left, by Newton's iteration."""
    if value <= 1:
        return (1 << 31) - 1, 0
    shift = 11
    while value >= 1 << 29:
        value //= 4
        shift += 1
    spare = (31 - value.bit_length()) // 2 - 1
    shift -= spare
    value <<= 2 * spare
    half = _half(value >> 1)
    x = 1 << 28  # 1 with 3 integer bits
    for _ in range(5):
        cube = _product(_product(x, x), x)
        x = _limited((_product(x, 3 << 27) - _product(half, _limited(cube << 6))) << 3)
    root = _product(x, 1518500250)
    if shift < 0:
        root <<= -shift
        shift = 0
    return root, -shift


def _half(value: int) -> int:
    return (value >> 1) + (value & 1)


def _limited(value: int) -> int:
    return max(-(1 << 31), min(value, (1 << 31) - 1))


def _product(a: int, b: int) -> int:
    product = a * b
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    return abs(nudged) // (1 << 31) * (1 if nudged >= 0 else -1)


def _by(value: int, multiplier: int, shift: int) -> int:
    """A number times a multiplier of 31 bits, shifted left (or right, for negative shifts)."""
    high = ((value << max(shift, 0)) * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    return int(shifted_right(np.asarray(high), right))


def _divided(value: int, divisor: int) -> int:
    """The quotient, cut toward zero."""
    return abs(value) // divisor * (1 if value >= 0 else -1)


def normalized(row: Array, weights: Array, bias: Array, scale: float) -> Array:
    """A gate's values of one batch, with mean 0 and deviation 1 over the cells, times weights."""
    count = len(row)
    mean = _divided(int(row.sum()) * 1024, count)
    spread = int(np.square(row).sum()) * ((1 << 20) // count) - mean * mean
    variance = _divided(spread, 1 << 20)
    multiplier, shift = _inverse_root(max(variance, 1))
    centred = [1024 * int(value) - mean for value in row]
    whole = [_by(value, multiplier, shift) for value in centred]
    sums = np.asarray(whole, np.int64) * weights + bias
    rounded = np.sign(sums) * ((np.abs(sums) + 512) // 1024)
    return saturated(scaled(rounded, scale * 4096.0))


class _Step:
    """The operands of a step as whole numbers, the data and states less their zero points."""

    def __init__(self, op: QuantizedLstm, operands: tuple[Array | None, ...]) -> None:
        self.op = op
        given = LstmOperands([None if a is None else a.astype(np.int64) for a in operands])
        assert given.x is not None
        assert given.output is not None
        assert given.cell is not None
        self.given = given
        self.x, self.h = given.x - op.x_zero_point, given.output - op.h_zero_point
        self.c = given.cell

    def gate(self, index: int, cell: Array) -> Array:
        """A gate's value with three integer bits."""
        op, given = self.op, self.given
        weights, recurrent = given.weights[index], given.recurrent[index]
        peephole, bias, norm = given.peepholes[index], given.biases[index], given.norms[index]
        assert weights is not None
        assert recurrent is not None
        value = saturated(scaled(self.x @ weights.T, op.input_scales[index]))
        value = saturated(value + scaled(self.h @ recurrent.T, op.recurrent_scales[index]))
        if peephole is not None:
            scale = op.peephole_scales[min(index, 2)]
            value = saturated(value + scaled(peephole * cell, scale))
        if norm is None:
            return value
        offset = np.zeros_like(norm) if bias is None else bias
        rows = [normalized(row, norm, offset, op.norm_scales[index]) for row in value]
        return np.asarray(rows).reshape(value.shape)


def quantized_lstm(op: QuantizedLstm, *operands: Array | None) -> list[Array]:
    """QuantizedLstm."""
    s = _Step(op, operands)
    forget = logistic(s.gate(1, s.c), _GATE_BITS)
    candidate = tanh(s.gate(2, s.c), _GATE_BITS)
    coupled = s.given.weights[0] is None
    take = (1 << 15) - 1 - forget if coupled else logistic(s.gate(0, s.c), _GATE_BITS)
    kept = saturated(shifted_right(forget * s.c, 15))
    cell = saturated(kept + saturated(shifted_right(take * candidate, 30 + op.cell_power)))
    if op.cell_clip:
        cell = np.clip(cell, -op.cell_clip, op.cell_clip)
    output = logistic(s.gate(3, cell), _GATE_BITS)
    shown = output * tanh(cell, 15 + op.cell_power)
    hidden = np.clip(scaled(shown, op.hidden_scale) + op.hidden_zero_point, -128, 127)
    if s.given.projection is not None:
        sums = (hidden - op.hidden_zero_point) @ s.given.projection.T
        if s.given.projection_bias is not None:
            sums = sums + s.given.projection_bias
        hidden = np.clip(scaled(sums, op.projection_scale) + op.h_zero_point, -128, 127)
        if op.projection_clip:
            hidden = np.clip(hidden, -op.projection_clip, op.projection_clip)
    return [hidden.astype(np.int8), cell.astype(np.int16)]


KERNELS: dict[type[Op], Kernel] = {QuantizedLstm: quantized_lstm}
