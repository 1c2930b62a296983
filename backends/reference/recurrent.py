"""Whole recurrent layers, step by step, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from nnconv.backends.reference.elementwise import sigmoid
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.recurrent import Function, GruLayer, Layer, LstmLayer, RnnLayer

States: TypeAlias = list[Array]

Step: TypeAlias = "Callable[[Array, States], States]"

_PLAIN: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Tanh": np.tanh,
    "Sigmoid": sigmoid,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.logaddexp(x, 0),
}

_WITH_PARAMETERS: dict[str, Callable[[Array, float, float], Array]] = {
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, _: np.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, _: np.where(x >= a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, _: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
}


def _apply(function: Function, x: Array) -> Array:
    plain = _PLAIN.get(function.name)
    if plain is not None:
        return plain(x)
    return _WITH_PARAMETERS[function.name](x, function.alpha, function.beta)


class _Direction:
    """One direction of a layer: its weights, and its step."""

    def __init__(self, op: Layer, index: int, operands: Sequence[Array | None]) -> None:
        given = [None if a is None else np.asarray(a[index], np.float64) for a in operands]
        weights, recurrent = given[0], given[1]
        assert weights is not None
        assert recurrent is not None
        self.op, self.weights, self.recurrent = op, weights, recurrent
        self.size = recurrent.shape[1]
        rows = op.gates * self.size
        bias = np.zeros(2 * rows) if given[2] is None else given[2]
        self.bias, self.recurrent_bias = bias[:rows], bias[rows:]
        peepholes = np.zeros(3 * self.size) if given[3] is None else given[3]
        self.peepholes = np.split(peepholes, 3)
        each = op.functions_each
        self.functions = op.functions[index * each : (index + 1) * each]

    def clipped(self, x: Array) -> Array:
        clip = self.op.clip
        return np.clip(x, -clip, clip) if clip > 0 else x

    def gate(self, which: int, x: Array) -> Array:
        """A gate's activation, number ``which``, of its clipped input."""
        return _apply(self.functions[which], self.clipped(x))

    def rows(self, array: Array, gate: int, count: int = 1) -> Array:
        """The rows of ``count`` gates."""
        return array[gate * self.size : (gate + count) * self.size]

    def step(self, x: Array, states: States) -> States:
        """The next states, from x's product with the weights."""
        if isinstance(self.op, LstmLayer):
            return self._lstm(x, states[0], states[1])
        if isinstance(self.op, GruLayer):
            return [self._gru(x, states[0])]
        return [self.gate(0, x + states[0] @ self.recurrent.T + self.recurrent_bias)]

    def _gru(self, x: Array, h: Array) -> Array:
        assert isinstance(self.op, GruLayer)
        total = x[:, : 2 * self.size] + h @ self.rows(self.recurrent, 0, 2).T
        total = total + self.rows(self.recurrent_bias, 0, 2)
        update, reset = np.split(self.gate(0, total), 2, axis=1)
        matrix, bias = self.rows(self.recurrent, 2), self.rows(self.recurrent_bias, 2)
        if self.op.reset_after:
            product = reset * (h @ matrix.T + bias)
        else:
            product = (reset * h) @ matrix.T + bias
        new = self.gate(1, x[:, 2 * self.size :] + product)
        return np.asarray((1 - update) * new + update * h)

    def _lstm(self, x: Array, h: Array, c: Array) -> States:
        assert isinstance(self.op, LstmLayer)
        total = x + h @ self.recurrent.T + self.recurrent_bias
        take, give, forget, new = np.split(total, 4, axis=1)
        for_take, for_give, for_forget = self.peepholes
        take = self.gate(0, take + for_take * c)
        forget = 1 - take if self.op.coupled else self.gate(0, forget + for_forget * c)
        c = forget * c + take * self.gate(1, new)
        give = self.gate(0, give + for_give * c)
        return [give * _apply(self.functions[2], c), c]


def _run(
    op: Layer,
    x: Array,
    weights: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    output: Array | None = None,
    cell: Array | None = None,
    peepholes: Array | None = None,
) -> list[Array]:
    steps, batch = x.shape[:2]
    counts = np.full(batch, steps) if lengths is None else lengths
    before = [output, cell] if isinstance(op, LstmLayer) else [output]
    results, last = [], []
    for index, reverse in enumerate(op.directions):
        side = _Direction(op, index, (weights, recurrent, bias, peepholes))
        states = [
            np.zeros((batch, side.size)) if s is None else s[index].astype(np.float64)
            for s in before
        ]
        projected = x.astype(np.float64) @ side.weights.T + side.bias
        result = np.zeros((steps, batch, side.size))
        for t in reversed(range(steps)) if reverse else range(steps):
            counting = (t < counts)[:, np.newaxis]
            after = side.step(projected[t], states)
            states = [np.where(counting, a, b) for a, b in zip(after, states, strict=True)]
            result[t] = np.where(counting, after[0], 0)
        results.append(result)
        last.append(states)
    return [np.stack(results, axis=1), *(np.stack(s) for s in zip(*last, strict=True))]


KERNELS: dict[type[Op], Kernel] = {RnnLayer: _run, GruLayer: _run, LstmLayer: _run}
