"""Recurrent layers as products, activations and a loop, or steps written out (see ``steps``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.steps import Run, Scope, run_steps, zeros
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, merge_shapes, static_shape
from nnconv.ops import activation as more
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.recurrent import LAYER_GATES, Function, GruLayer, Layer, LstmLayer, RnnLayer
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.rnn import LSTM_GATES, Lstm, Rnn, extent_of
from nnconv.ops.shape import ShapeOf, Split, Squeeze, Stack, Unsqueeze
from nnconv.ops.slices import Reverse, Slice

_ACTIVATIONS = {
    "Relu": Activation.RELU,
    "Sigmoid": Activation.SIGMOID,
    "Tanh": Activation.TANH,
}
"""Those of an Rnn, by name."""

_X, _WEIGHTS, _RECURRENT, _BIAS, _LENGTHS, _STATE, _CELL, _PEEPHOLES = range(8)
"""The places of a layer's operands."""


def _number(b: Builder, x: Value, number: float) -> Value:
    return b.const(np.asarray(number, x.dtype.numpy), dtype=x.dtype)


def _affine(b: Builder, x: Value, factor: float, term: float) -> Value:
    if factor != 1:
        x = b.add(e.Mul(), [x, _number(b, x, factor)])
    return b.add(e.Add(), [x, _number(b, x, term)]) if term else x


_PLAIN: dict[str, Callable[[Function], Op]] = {
    "Relu": lambda _: e.Clip(low=0.0, high=float("inf")),
    "Tanh": lambda _: e.Tanh(),
    "Sigmoid": lambda _: e.Sigmoid(),
    "LeakyRelu": lambda f: e.LeakyRelu(alpha=f.alpha),
    "ThresholdedRelu": lambda f: more.ThresholdedRelu(alpha=f.alpha),
    "HardSigmoid": lambda f: more.HardSigmoid(alpha=f.alpha, beta=f.beta),
    "Elu": lambda f: e.Elu(alpha=f.alpha),
    "Softsign": lambda _: more.Softsign(),
    "Softplus": lambda _: more.Softplus(),
}


def apply(b: Builder, function: Function, x: Value, clip: float = 0.0) -> Value:
    """An activation of ``x``, or of ``x`` clipped."""
    if clip > 0:
        x = b.add(e.Clip(low=-clip, high=clip), [x])
    if function.name == "Affine":
        return _affine(b, x, function.alpha, function.beta)
    if function.name == "ScaledTanh":
        inside = b.add(e.Tanh(), [_affine(b, x, function.beta, 0.0)])
        return _affine(b, inside, function.alpha, 0.0)
    return b.add(_PLAIN[function.name](function), [x])


def part(b: Builder, value: Value, index: int, start: int = 0, end: int | None = None) -> Value:
    """Rows ``start`` to ``end`` of value[index]; of weights in a small type a view, widened."""
    source = constant_behind(value)
    if source is not None and source.data is not None:
        data = source.data[index][start:end]
        quant = _quant_of(source.quant, index, start, end)
        kind = TensorType(source.dtype, data.shape, quant)
        view = Value(value.name, kind, data=data, origin=value.origin)
        if source is value:
            return view
        assert value.producer is not None
        op = value.producer.op
        assert isinstance(op, Cast | Dequantize)
        return b.add(op, [view])
    count = value.shape[0] if value.shape is not None else None
    if count == 1:
        value = b.add(Squeeze(axes=(0,)), [value])
    else:
        value = b.add(Gather(axis=0), [value, b.const(np.asarray(index, np.int32))])
    if start == 0 and end is None:
        return value
    rest = value.type.rank or 0
    starts, ends = (start, *[None] * (rest - 1)), (end, *[None] * (rest - 1))
    return b.add(Slice(starts=starts, ends=ends, strides=(1,) * rest), [value])


def _quant_of(quant: Quant | None, index: int, start: int, end: int | None) -> Quant | None:
    """The parameters of rows of x[index], by those of x."""
    if quant is None or quant.axis is None:
        return quant
    if quant.axis == 0:
        return Quant.per_tensor(quant.scale[index], quant.zero_point[index])
    cut = slice(start, end) if quant.axis == 1 else slice(None)
    return Quant(scale=quant.scale[cut], zero_point=quant.zero_point[cut], axis=quant.axis - 1)


def product(b: Builder, x: Value, weights: Value, bias: Value | None = None) -> Value:
    """X times the transpose of weights [O,I], plus bias."""
    if constant_behind(weights) is not None and (bias is None or bias.data is not None):
        return b.add(FullyConnected(), [x, weights, *([] if bias is None else [bias])])
    if constant_behind(weights) is not None:
        result = b.add(FullyConnected(), [x, weights])
    else:
        result = b.add(MatMul(transpose_b=True), [x, weights])
    return result if bias is None else b.add(e.Add(), [result, bias])


def cells_of(node: Node) -> int | None:
    """The number of a layer's cells, if it is known."""
    found = extent_of([None if v is None else v.type for v in node.inputs], _RECURRENT, 2)
    return found if isinstance(found, int) else None


class _Side:
    """One direction of a layer as nodes."""

    def __init__(self, node: Node, b: Builder, index: int) -> None:
        op = node.op
        assert isinstance(op, Layer)
        self.op, self.b, self.index = op, b, index
        self.given = node.operands()
        size = cells_of(node)
        assert size is not None, "the caller knows the number of cells"
        self.size = size
        each = op.functions_each
        self.functions = op.functions[index * each : (index + 1) * each]
        #: the rows whose recurrent bias may be added before: all but a gate that is multiplied
        self.early = op.gates * size
        if isinstance(op, GruLayer) and op.reset_after:
            self.early = 2 * size

    def rows(self, operand: int, start: int = 0, end: int | None = None) -> Value:
        """Rows of this direction's part of an operand."""
        value = self.given[operand]
        assert value is not None
        return part(self.b, value, self.index, start, end)

    def projected(self) -> Value:
        """The product of x and the weights, with the biases that can be added beforehand."""
        b, rows, x = self.b, self.op.gates * self.size, self.given[_X]
        assert x is not None
        bias = None
        if self.given[_BIAS] is not None:
            own = self.rows(_BIAS, 0, rows)
            early = self.rows(_BIAS, rows, rows + self.early)
            if own.data is not None and early.data is not None:
                data = own.data.copy()
                data[: self.early] += early.data
                bias = b.const(data, own.name, dtype=own.dtype)
            else:
                bias = b.add(e.Add(), [own, self._padded(early, rows)])
        return product(b, x, self.rows(_WEIGHTS), bias)

    def _padded(self, early: Value, rows: int) -> Value:
        if self.early == rows:
            return early
        from nnconv.ops.slices import Pad

        return self.b.add(Pad(before=(0,), after=(rows - self.early,)), [early])

    def states(self) -> list[Value]:
        """The states before the first step."""
        places = (_STATE, _CELL) if isinstance(self.op, LstmLayer) else (_STATE,)
        return [self._state(place) for place in places]

    def _given_state(self, place: int) -> Value | None:
        return None if self.given[place] is None else self.rows(place)

    def _state(self, place: int) -> Value:
        x = self.given[_X]
        assert x is not None
        batch = x.shape[1] if x.shape is not None else None
        if self.given[place] is not None:
            state = self.rows(place)
            state.type = state.type.with_shape(merge_shapes((batch, self.size), state.shape))
            return state
        if isinstance(batch, int):
            return zeros(self.b, x.dtype, x, (batch, self.size))
        return zeros(self.b, x.dtype, self.b.add(ShapeOf(dims=(1,)), [x]), (None, self.size))

    def activation(self) -> Activation | None:
        """The one of a recurrence that does the same; None if there is none."""
        names = [function.name for function in self.functions]
        if isinstance(self.op, LstmLayer) and (names[0] != "Sigmoid" or names[1] != names[2]):
            return None
        return _ACTIVATIONS.get(names[-1])

    def run(self, x: Value, activation: Activation, *, reverse: bool) -> tuple[Value, ...]:
        """All steps of this direction as one op: the sequence and the last states."""
        n = self.size
        rows = range(0, self.op.gates * n, n)
        weights = [self.rows(_WEIGHTS, at, at + n) for at in rows]
        recurrent = [self.rows(_RECURRENT, at, at + n) for at in rows]
        biases = [self._bias(at, at + n) for at in rows]
        if isinstance(self.op, LstmLayer):
            operands = self._lstm_operands(self.op, weights, recurrent, biases)
            return self.b.add_many(Lstm(activation=activation, reverse=reverse), [x, *operands])
        operands = [weights[0], recurrent[0], biases[0], self._given_state(_STATE)]
        return self.b.add_many(Rnn(activation=activation, reverse=reverse), [x, *operands])

    def _lstm_operands(self, op: LstmLayer, *kinds: Sequence[Value]) -> list[Value | None]:
        """An Lstm's operands but x; ``kinds`` are weights, recurrent ones, biases of each gate."""
        n = self.size
        gates: list[dict[str, Value | None]] = [
            dict(zip(LAYER_GATES, values, strict=True)) for values in kinds
        ]
        peepholes: dict[str, Value | None] = dict.fromkeys("iof")
        if self.given[_PEEPHOLES] is not None:
            for place, gate in enumerate(peepholes):
                peepholes[gate] = self.rows(_PEEPHOLES, place * n, (place + 1) * n)
        if op.coupled:  # f = 1 - i is a forget gate of -z_i, whose i is 1 - f
            for several in (*gates, peepholes):
                several["f"], several["i"] = self._negative(several["i"]), None
        weights, recurrent, biases = ([several[g] for g in LSTM_GATES] for several in gates)
        projection: list[Value | None] = [None, None]
        states = [self._given_state(place) for place in (_STATE, _CELL)]
        seen = [peepholes[g] for g in "ifo"]
        return [*weights, *recurrent, *seen, *biases, *projection, *states]

    def _negative(self, value: Value | None) -> Value | None:
        return None if value is None else self.b.add(e.Neg(), [value])

    def _bias(self, start: int, end: int) -> Value:
        """The biases of a gate, of both products together."""
        b, rows, x = self.b, self.op.gates * self.size, self.given[_X]
        assert x is not None
        if self.given[_BIAS] is None:
            return b.const(np.zeros(end - start, x.dtype.numpy))
        own = self.rows(_BIAS, start, end)
        other = self.rows(_BIAS, rows + start, rows + end)
        if own.data is not None and other.data is not None:
            return b.const(own.data + other.data, own.name, dtype=own.dtype)
        return b.add(e.Add(), [own, other])

    def gate(self, b: Builder, which: int, x: Value) -> Value:
        """A gate's activation, number ``which``."""
        return apply(b, self.functions[which], x, self.op.clip)

    def step(self) -> Callable[[Scope, Value, list[Value]], list[Value]]:
        """What a step is."""
        if isinstance(self.op, LstmLayer):
            return self._lstm(self.op)
        if isinstance(self.op, GruLayer):
            return self._gru_after() if self.op.reset_after else self._gru()
        recurrent = self.rows(_RECURRENT)

        def step(s: Scope, piece: Value, states: list[Value]) -> list[Value]:
            b = s.builder
            total = b.add(e.Add(), [piece, product(b, states[0], s.take(recurrent))])
            return [self.gate(b, 0, total)]

        return step

    def _lstm(self, op: LstmLayer) -> Callable[[Scope, Value, list[Value]], list[Value]]:
        recurrent = self.rows(_RECURRENT)
        peepholes: list[Value | None] = [None] * 3
        if self.given[_PEEPHOLES] is not None:
            n = self.size
            peepholes = [self.rows(_PEEPHOLES, i * n, (i + 1) * n) for i in range(3)]

        def step(s: Scope, piece: Value, states: list[Value]) -> list[Value]:
            b, (h, c) = s.builder, states

            def gate(x: Value, place: int, cell: Value) -> Value:
                peephole = peepholes[place]
                if peephole is not None:
                    x = b.add(e.Add(), [x, b.add(e.Mul(), [s.take(peephole), cell])])
                return self.gate(b, 0, x)

            total = b.add(e.Add(), [piece, product(b, h, s.take(recurrent))])
            i, o, f, new = b.add_many(Split(axis=1, sizes=(self.size,) * 4), [total])
            take = gate(i, 0, c)
            keep = b.add(e.Sub(), [_number(b, i, 1.0), take]) if op.coupled else gate(f, 2, c)
            kept = b.add(e.Mul(), [keep, c])
            c = b.add(e.Add(), [kept, b.add(e.Mul(), [take, self.gate(b, 1, new)])])
            return [b.add(e.Mul(), [gate(o, 1, c), apply(b, self.functions[2], c)]), c]

        return step

    def _gru(self) -> Callable[[Scope, Value, list[Value]], list[Value]]:
        n = self.size
        gates, candidate = self.rows(_RECURRENT, 0, 2 * n), self.rows(_RECURRENT, 2 * n, 3 * n)

        def step(s: Scope, piece: Value, states: list[Value]) -> list[Value]:
            b, h = s.builder, states[0]
            opening, rest = b.add_many(Split(axis=1, sizes=(2 * n, n)), [piece])
            both = b.add(e.Add(), [opening, product(b, h, s.take(gates))])
            update, reset = b.add_many(Split(axis=1, sizes=(n, n)), [self.gate(b, 0, both)])
            inside = product(b, b.add(e.Mul(), [reset, h]), s.take(candidate))
            return [self._mixed(b, h, update, b.add(e.Add(), [rest, inside]))]

        return step

    def _gru_after(self) -> Callable[[Scope, Value, list[Value]], list[Value]]:
        n = self.size
        recurrent, bias = self.rows(_RECURRENT), None
        if self.given[_BIAS] is not None:
            bias = self.rows(_BIAS, 5 * n, 6 * n)

        def step(s: Scope, piece: Value, states: list[Value]) -> list[Value]:
            b, h = s.builder, states[0]
            halves = Split(axis=1, sizes=(2 * n, n))
            opening, rest = b.add_many(halves, [piece])
            gates, inside = b.add_many(halves, [product(b, h, s.take(recurrent))])
            both = self.gate(b, 0, b.add(e.Add(), [opening, gates]))
            update, reset = b.add_many(Split(axis=1, sizes=(n, n)), [both])
            if bias is not None:
                inside = b.add(e.Add(), [inside, s.take(bias)])
            inside = b.add(e.Mul(), [reset, inside])
            return [self._mixed(b, h, update, b.add(e.Add(), [rest, inside]))]

        return step

    def _mixed(self, b: Builder, h: Value, update: Value, candidate: Value) -> Value:
        """(1 - z) * n + z * h as n + z * (h - n)."""
        new = self.gate(b, 1, candidate)
        change = b.add(e.Mul(), [update, b.add(e.Sub(), [h, new])])
        return b.add(e.Add(), [new, change])


def as_sequences(node: Node, b: Builder) -> Sequence[Value] | None:
    """A layer as recurrences, each of one direction and any number of steps."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Layer)
    if op.clip or _lengths(node) is not None or x.shape is None or x.shape[0] == 0:
        return None
    if not b.means.recurrences and not (b.means.steps and static_shape(x.shape)):
        return None
    sides = [_Side(node, b, index) for index in range(len(op.directions))] if cells_of(node) else []
    activations = [side.activation() for side in sides]
    if not sides or None in activations:
        return None
    directions: list[list[Value | None]] = []
    for side, reverse, activation in zip(sides, op.directions, activations, strict=True):
        assert activation is not None
        directions.append([*side.run(x, activation, reverse=reverse)])
    return _results(node, b, directions)


def turned_around(node: Node, b: Builder) -> Sequence[Value] | None:
    """A layer that begins with the last step, where there are no loops: one of reversed steps."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, LstmLayer)
    if b.means.bodies or op.directions != (True,) or _lengths(node) is not None:
        return None
    turned = b.add(Reverse(axes=(0,)), [x])
    sequence, *last = b.add_many(op.replace(directions=(False,)), [turned, *node.inputs[1:]])
    return [b.add(Reverse(axes=(0,)), [sequence]), *last]


def decompose_layer(node: Node, b: Builder) -> Sequence[Value] | None:
    """A layer, direction by direction."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Layer)
    if cells_of(node) is None or x.shape is None:
        return None
    lengths = _lengths(node)
    if lengths is not None and lengths.dtype is not DType.INT32:
        lengths = b.add(Cast(dtype=DType.INT32), [lengths])
    directions: list[list[Value | None]] = []
    for index, reverse in enumerate(op.directions):
        side = _Side(node, b, index)
        weights = op.gates * side.size * side.size
        run = Run(side.step(), reverse, lengths, node.outputs[0].is_wanted, weights)
        sequence, states = run_steps(b, side.projected(), side.states(), run)
        directions.append([sequence, *states])
    return _results(node, b, directions)


def _lengths(node: Node) -> Value | None:
    """How many steps of each sequence count, unless all are known to."""
    lengths, (steps, *_) = node.optional(_LENGTHS), node.operand(0).shape or (None,)
    if lengths is None or lengths.data is None or not isinstance(steps, int):
        return lengths
    return None if (lengths.data >= steps).all() else lengths


def _results(node: Node, b: Builder, directions: list[list[Value | None]]) -> list[Value]:
    """What is read of the results that each direction gives; of the others nothing."""
    results = []
    for place, value in enumerate(node.outputs):
        if value.is_wanted:
            parts = [given[place] for given in directions]
            results.append(_joined(b, parts, 1 if place == 0 else 0))
        else:
            nothing = np.zeros((0,), value.dtype.numpy)
            results.append(b.const(nothing, dtype=value.dtype))
    return results


def _joined(b: Builder, parts: Sequence[Value | None], axis: int) -> Value:
    """The directions' values along a new axis."""
    values = [v for v in parts if v is not None]
    if len(values) == 1:
        return b.add(Unsqueeze(axes=(axis,)), values)
    return b.add(Stack(axis=axis), values)


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    RnnLayer: (as_sequences, decompose_layer),
    GruLayer: (decompose_layer,),
    LstmLayer: (as_sequences, turned_around, decompose_layer),
}
