"""Recurrent ops, step by step, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from nnconv.backends.reference.elementwise import activate, sigmoid
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ir.quant import dequantize, quantize
from nnconv.ir.types import TensorType
from nnconv.ops.rnn import LAYER_NORM_EPSILON, Lstm, LstmOperands, Rnn


def _steps(op: Lstm | Rnn, x: Array) -> Iterator[tuple[int, Array]]:
    """The steps of x [T,B,I] with their numbers, in the op's direction."""
    order = range(len(x))
    for index in reversed(order) if op.reverse else order:
        yield index, x[index]


def _time_first(op: Lstm | Rnn, x: Array) -> Array:
    """X as [T,B,I] in float64."""
    wide = x.astype(np.float64)
    if x.ndim == 2:
        return wide[np.newaxis]
    return wide if op.time_major else wide.swapaxes(0, 1)


def _as_given(op: Lstm | Rnn, x: Array, result: Array) -> Array:
    """Outputs [T,B,O] in the order of x."""
    if x.ndim == 2:
        return np.asarray(result[0])
    return result if op.time_major else result.swapaxes(0, 1)


def _initial(state: Array | None, batch: int, size: int) -> Array:
    return np.zeros((batch, size)) if state is None else state.astype(np.float64)


def _rounded(x: Array, kind: TensorType) -> Array:
    """X on the grid of a quantized type."""
    assert kind.quant is not None
    return dequantize(quantize(x, kind.quant, kind.dtype), kind.quant, np.float64)


def _clipped(x: Array, bound: float) -> Array:
    return np.clip(x, -bound, bound) if bound > 0 else x


def _normalized(z: Array) -> Array:
    centred = z - z.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + LAYER_NORM_EPSILON))


class _Cell:
    """An Lstm and its operands."""

    def __init__(self, op: Lstm, operands: Sequence[Array | None]) -> None:
        self.op = op
        self.given = LstmOperands(operands)

    def gate(self, index: int, x: Array, h: Array, c: Array) -> Array:
        """Z of one gate, by the order of LSTM_GATES."""
        given = self.given
        weights, recurrent = given.weights[index], given.recurrent[index]
        peephole, bias, norm = given.peepholes[index], given.biases[index], given.norms[index]
        assert weights is not None
        assert recurrent is not None
        z = x @ weights.T + h @ recurrent.T
        if peephole is not None:
            z = z + peephole * c
        if norm is not None:
            z = _normalized(z) * norm
        return np.asarray(z if bias is None else z + bias)

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """The next h and c."""
        op, given = self.op, self.given
        forget = sigmoid(self.gate(1, x, h, c))
        take = 1 - forget if given.weights[0] is None else sigmoid(self.gate(0, x, h, c))
        c = forget * c + take * activate(self.gate(2, x, h, c), op.activation)
        c = _clipped(c, op.cell_clip)
        if op.steps is not None:
            c = _rounded(c, op.steps.cell)
        h = sigmoid(self.gate(3, x, h, c)) * activate(c, op.activation)
        if op.steps is not None:
            h = _rounded(h, op.steps.hidden)
        if given.projection is not None:
            h = h @ given.projection.T
            if given.projection_bias is not None:
                h = h + given.projection_bias
            h = _clipped(h, op.projection_clip)
            if op.steps is not None:
                h = _rounded(h, op.steps.output)
        return h, c


def _lstm(op: Lstm, x: Array, *operands: Array | None) -> list[Array]:
    cell = _Cell(op, [x, *operands])
    given = cell.given
    assert given.weights[1] is not None
    cells = len(given.weights[1])
    size = cells if given.projection is None else len(given.projection)
    sequence = _time_first(op, x)
    h = _initial(given.output, sequence.shape[1], size)
    c = _initial(given.cell, sequence.shape[1], cells)
    result = np.zeros((*sequence.shape[:2], size))
    for index, step in _steps(op, sequence):
        h, c = cell.step(step, h, c)
        result[index] = h
    return [_as_given(op, x, result), h, c]


def _rnn(
    op: Rnn,
    x: Array,
    weights: Array,
    recurrent: Array,
    bias: Array | None = None,
    state: Array | None = None,
) -> list[Array]:
    sequence = _time_first(op, x)
    h = _initial(state, sequence.shape[1], len(weights))
    result = np.zeros((*sequence.shape[:2], len(weights)))
    for index, step in _steps(op, sequence):
        z = step @ weights.T + h @ recurrent.T
        h = activate(z if bias is None else z + bias, op.activation)
        result[index] = h
    return [_as_given(op, x, result), h]


KERNELS: dict[type[Op], Kernel] = {Lstm: _lstm, Rnn: _rnn}
