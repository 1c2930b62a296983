"""TFLite's recurrent ops whose states aren't an operator's own: steps (see ``steps``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.recurrent import product
from nnconv.decompositions.steps import Run, Scope, run_steps, zeros
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op, Role
from nnconv.ir.quant import dequantize
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.recurrent import LAYER_GATES, Function, LstmLayer
from nnconv.ops.reduce import ReduceMean
from nnconv.ops.rnn import (
    LAYER_NORM_EPSILON,
    LSTM_GATES,
    Lstm,
    LstmOperands,
    Rnn,
    by_gate,
)
from nnconv.ops.shape import (
    Concat,
    ShapeOf,
    Split,
    Squeeze,
    Stack,
    Transpose,
    Unsqueeze,
    Unstack,
)
from nnconv.ops.slices import Reverse, Slice

Recurrence: TypeAlias = Lstm | Rnn


def real(b: Builder, value: Value | None) -> Value | None:
    """The real values of an operand in float32."""
    if value is None:
        return None
    if value.data is not None:
        data = value.data
        if value.type.has_codes and value.quant is not None:
            data = dequantize(data, value.quant, np.float64)
        return b.const(data.astype(np.float32), value.name)
    if value.type.has_codes:
        return b.add(Dequantize(dtype=DType.FLOAT32), [value])
    if value.dtype is DType.FLOAT32:
        return value
    return b.add(Cast(dtype=DType.FLOAT32), [value])


def rounded(b: Builder, value: Value, kind: TensorType | None) -> Value:
    """A value on the grid of a quantized type."""
    if kind is None or kind.quant is None:
        return value
    codes = b.add(Quantize(dtype=kind.dtype), [value], quant=kind.quant)
    return b.add(Dequantize(dtype=DType.FLOAT32), [codes])


def activated(b: Builder, value: Value, activation: Activation) -> Value:
    """A value behind an activation."""
    if activation is Activation.NONE:
        return value
    if activation.bounds is not None:
        return b.add(e.Clip(low=activation.bounds[0], high=activation.bounds[1]), [value])
    return b.add(e.Tanh() if activation is Activation.TANH else e.Sigmoid(), [value])


def stacked(b: Builder, values: Sequence[Value | None]) -> Value | None:
    """Rows of several weights in one; zeros for those that are left out. None without any."""
    given = [v for v in values if v is not None]
    if not given:
        return None
    if all(v.data is not None for v in given):
        like = given[0].data
        assert like is not None
        arrays = [np.zeros_like(like) if v is None else v.data for v in values]
        return b.const(np.concatenate([a for a in arrays if a is not None]), given[0].name)
    blank = None
    if len(given) < len(values):
        blank = b.add(e.ZerosLike(), [given[0]])
    parts = [blank if v is None else v for v in values]
    return parts[0] if len(parts) == 1 else b.add(Concat(axis=0), parts)


class _Frame:
    """What of a node is common to both ops: the way to a sequence [T,B,I] and back."""

    def __init__(self, node: Node, b: Builder) -> None:
        op = node.op
        assert isinstance(op, Lstm | Rnn)
        self.node, self.op, self.b = node, op, b
        self.values = [real(b, v) for v in node.operands()]
        x = self.values[0]
        assert x is not None
        self.rank = x.type.rank
        if self.rank == 2:
            x = b.add(Unsqueeze(axes=(0,)), [x])
        elif not op.time_major:
            x = b.add(Transpose(perm=(1, 0, 2)), [x])
        self.x = x

    def state(self, given: Value | None, size: int) -> Value:
        """A state before the first step."""
        if given is not None:
            return given
        batch = self.x.shape[1] if self.x.shape is not None else None
        if isinstance(batch, int):
            return zeros(self.b, DType.FLOAT32, self.x, (batch, size))
        extents = self.b.add(ShapeOf(dims=(1,)), [self.x])
        return zeros(self.b, DType.FLOAT32, extents, (None, size))

    def finish(self, sequence: Value | None, last: Sequence[Value]) -> list[Value]:
        """The results in their own order and types."""
        b = self.b
        assert sequence is not None
        if self.rank == 2:
            sequence = b.add(Squeeze(axes=(0,)), [sequence])
        elif not self.op.time_major:
            sequence = b.add(Transpose(perm=(1, 0, 2)), [sequence])
        results = []
        for value, old in zip((sequence, *last), self.node.outputs, strict=True):
            if old.type.has_codes and old.quant is not None:
                results.append(b.add(Quantize(dtype=old.dtype), [value], quant=old.quant))
            elif old.dtype is not value.dtype:
                results.append(b.add(Cast(dtype=old.dtype), [value]))
            else:
                results.append(value)
        return results


def _extent(value: Value | None, dim: int) -> int:
    """An extent of weights that ``_is_known`` has found known."""
    found = value.shape[dim] if value is not None and value.shape is not None else None
    assert isinstance(found, int), "the caller knows the weights' extents"
    return found


def _is_known(node: Node, *weights: int) -> bool:
    """Whether x has a rank and the weights among the operands have known extents."""
    x = node.inputs[0]
    values = [node.inputs[i] if i < len(node.inputs) else None for i in weights]
    known = all(v is None or static_shape(v.shape) is not None for v in values)
    return x is not None and x.shape is not None and known


class _Cell:
    """The step of an Lstm as nodes."""

    def __init__(self, frame: _Frame) -> None:
        op, given = frame.op, LstmOperands(frame.values)
        assert isinstance(op, Lstm)
        self.op, self.given = op, given
        self.coupled = given.weights[0] is None
        self.gates = "fco" if self.coupled else LSTM_GATES
        keep = slice(1 if self.coupled else 0, None)
        self.cells = _extent(given.weights[1], 0)
        self.recurrent = stacked(frame.b, given.recurrent[keep])
        self.peepholes, self.norms = by_gate(given.peepholes), by_gate(given.norms)
        self.biases = by_gate(given.biases)
        self.projection, self.projection_bias = given.projection, given.projection_bias
        self.size = self.cells if self.projection is None else _extent(self.projection, 0)
        self.normalized = any(given.norms)
        bias = None if self.normalized else stacked(frame.b, given.biases[keep])
        weights = stacked(frame.b, given.weights[keep])
        assert weights is not None
        self.projected = product(frame.b, frame.x, weights, bias)

    def step(self, s: Scope, piece: Value, states: list[Value]) -> list[Value]:
        """The next h and c."""
        b, op, (h, c) = s.builder, self.op, states
        assert self.recurrent is not None
        total = b.add(e.Add(), [piece, product(b, h, s.take(self.recurrent))])
        parts = b.add_many(Split(axis=1, sizes=(self.cells,) * len(self.gates)), [total])
        raw = dict(zip(self.gates, parts, strict=True))
        forget = b.add(e.Sigmoid(), [self._gate(s, "f", raw["f"], c)])
        if self.coupled:
            one = b.const(np.ones((), np.float32))
            take = b.add(e.Sub(), [one, forget])
        else:
            take = b.add(e.Sigmoid(), [self._gate(s, "i", raw["i"], c)])
        new = activated(b, self._gate(s, "c", raw["c"], None), op.activation)
        kept = b.add(e.Mul(), [forget, c])
        c = b.add(e.Add(), [kept, b.add(e.Mul(), [take, new])])
        c = self._clipped(b, c, op.cell_clip)
        c = rounded(b, c, op.steps.cell if op.steps else None)
        give = b.add(e.Sigmoid(), [self._gate(s, "o", raw["o"], c)])
        h = b.add(e.Mul(), [give, activated(b, c, op.activation)])
        h = rounded(b, h, op.steps.hidden if op.steps else None)
        if self.projection is not None:
            bias = None if self.projection_bias is None else s.take(self.projection_bias)
            h = product(b, h, s.take(self.projection), bias)
            h = self._clipped(b, h, op.projection_clip)
            h = rounded(b, h, op.steps.output if op.steps else None)
        return [h, c]

    def _gate(self, s: Scope, gate: str, z: Value, cell: Value | None) -> Value:
        b = s.builder
        peephole, norm = self.peepholes[gate], self.norms[gate]
        if peephole is not None and cell is not None:
            z = b.add(e.Add(), [z, b.add(e.Mul(), [s.take(peephole), cell])])
        if norm is not None:
            z = b.add(e.Mul(), [self._normalized(b, z), s.take(norm)])
        bias = self.biases[gate] if self.normalized else None
        return z if bias is None else b.add(e.Add(), [z, s.take(bias)])

    @staticmethod
    def _normalized(b: Builder, z: Value) -> Value:
        """Z with mean 0 and deviation 1 over the cells."""
        mean = ReduceMean(axes=(1,), keep_dims=True)
        centred = b.add(e.Sub(), [z, b.add(mean, [z])])
        variance = b.add(mean, [b.add(e.Mul(), [centred, centred])])
        epsilon = b.const(np.asarray(LAYER_NORM_EPSILON, np.float32))
        scale = b.add(e.Rsqrt(), [b.add(e.Add(), [variance, epsilon])])
        return b.add(e.Mul(), [centred, scale])

    @staticmethod
    def _clipped(b: Builder, value: Value, bound: float) -> Value:
        return b.add(e.Clip(low=-bound, high=bound), [value]) if bound > 0 else value


def _recurrence(node: Node, b: Builder) -> tuple[Recurrence, Value, int] | None:
    """A recurrence of floats, x and which of its axes is time, where the format has some.

    A single step has no such axis: -1.
    """
    op, x = node.op, node.operand(0)
    assert isinstance(op, Recurrence)
    on_codes = any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs))
    if not (b.means.recurrences or b.means.steps) or on_codes or x.shape is None or 0 in x.shape:
        return None
    return op, x, -1 if x.type.rank == 2 else int(not op.time_major)


def of_real_weights(node: Node, b: Builder) -> Sequence[Value] | None:
    """One of float32 whose weights are codes, where the format has those of real ones."""
    x = node.operand(0)
    if not (b.means.recurrences or b.means.steps) or x.dtype is not DType.FLOAT32:
        return None
    coded = [v is not None and v.type.has_codes for v in node.inputs]
    if not any(coded) or any(v.type.has_codes for v in node.outputs):
        return None
    operands = [real(b, v) if c else v for v, c in zip(node.inputs, coded, strict=True)]
    return b.add_many(node.op, operands)


def turned_around(node: Node, b: Builder) -> Sequence[Value] | None:
    """One that begins with the last step, as one of reversed steps."""
    found = _recurrence(node, b)
    if found is None or not found[0].reverse:
        return None
    op, x, time = found
    if time >= 0 and not b.means.recurrences:
        return None  # the steps can begin with the last one
    turn, single = Reverse(axes=(time,)), time < 0
    data = x if single else b.add(turn, [x])
    sequence, *last = b.add_many(op.replace(reverse=False), [data, *node.inputs[1:]])
    return [sequence if single else b.add(turn, [sequence]), *last]


def without_states(node: Node, b: Builder) -> Sequence[Value] | None:
    """One whose last output is that of the last step: before level 4 NNAPI's give no states."""
    found = _recurrence(node, b)
    _, output, *cell = node.outputs
    if found is None or not b.means.recurrences or not output.is_wanted:
        return None
    op, _, time = found
    if any(value.is_wanted for value in cell):
        return None
    sequence, _, *unread = b.add_many(op, node.inputs)
    if time < 0:
        return [sequence, sequence, *unread]
    starts, strides = [0, 0, 0], (1, 1, 1)
    starts[time] = -1
    last = b.add(Slice(starts=tuple(starts), ends=(None,) * 3, strides=strides), [sequence])
    return [sequence, b.add(Squeeze(axes=(time,)), [last]), *unread]


def step_by_step(node: Node, b: Builder) -> Sequence[Value] | None:
    """One of known extents as its steps, each by itself, where the format has these."""
    found = _recurrence(node, b)
    shape = static_shape(node.operand(0).shape)
    if found is None or shape is None or not b.means.steps or len(shape) != 3:
        return None
    op, x, time = found
    count = shape[time]
    if count == 1:
        rows: Sequence[Value] = [b.add(Squeeze(axes=(time,)), [x])]
    else:
        rows = b.add_many(Unstack(axis=time, count=count), [x])
    operands, outputs = node.operands(), []
    single = op.replace(reverse=False)
    for row in reversed(rows) if op.reverse else rows:
        operands[0] = row
        output, *last = b.add_many(single, operands)
        outputs.append(output)
        for place, value in zip(op.places_of(Role.STATE), last, strict=True):
            operands[place] = value
    if op.reverse:
        outputs.reverse()
    join = Unsqueeze(axes=(time,)) if count == 1 else Stack(axis=time)
    return [b.add(join, outputs), *last]


def as_layer(node: Node, b: Builder) -> list[Value] | None:
    """An Lstm that is no more than a layer, where the format has these."""
    op = node.op
    assert isinstance(op, Lstm)
    plain = op.activation is Activation.TANH and not op.cell_clip and op.steps is None
    if not b.means.layers or not plain or not _is_known(node, 2):
        return None
    given = LstmOperands(node.inputs)
    if any((*given.peepholes, given.projection, *given.norms)):
        return None
    frame = _Frame(node, b)
    given = LstmOperands(frame.values)
    kinds = [by_gate(values) for values in (given.weights, given.recurrent, given.biases)]
    if given.weights[0] is None:
        for gates in kinds:  # i = 1 - f is an input gate of -z_f
            gates["i"] = None if gates["f"] is None else b.add(e.Neg(), [gates["f"]])
    weights, recurrent, bias = (stacked(b, [gates[g] for g in LAYER_GATES]) for gates in kinds)
    if bias is not None:
        other = b.const(np.zeros(4 * _extent(given.weights[1], 0), np.float32))
        bias = b.add(Concat(axis=0), [bias, other])
    operands = [weights, recurrent, bias, None, given.output, given.cell]
    raised = [None if v is None else b.add(Unsqueeze(axes=(0,)), [v]) for v in operands]
    functions = (Function("Sigmoid"), Function("Tanh"), Function("Tanh"))
    layer = LstmLayer(directions=(op.reverse,), functions=functions)
    sequence, *last = b.add_many(layer, [frame.x, *raised])
    states = [b.add(Squeeze(axes=(0,)), [v]) for v in last]
    return frame.finish(b.add(Squeeze(axes=(1,)), [sequence]), states)


def decompose_lstm(node: Node, b: Builder) -> list[Value] | None:
    """Lstm."""
    if not _is_known(node, 2, 16):
        return None
    frame = _Frame(node, b)
    cell = _Cell(frame)
    weights = len(cell.gates) * cell.cells * cell.size
    run = Run(cell.step, frame.op.reverse, None, wants_sequence=True, weights=weights)
    states = [frame.state(cell.given.output, cell.size), frame.state(cell.given.cell, cell.cells)]
    return frame.finish(*run_steps(b, cell.projected, states, run))


def decompose_rnn(node: Node, b: Builder) -> list[Value] | None:
    """Rnn."""
    if not _is_known(node, 1):
        return None
    frame = _Frame(node, b)
    op = frame.op
    _, weights, recurrent, bias, state = frame.values
    assert weights is not None
    assert recurrent is not None
    size = _extent(weights, 0)

    def step(s: Scope, piece: Value, states: list[Value]) -> list[Value]:
        inside = product(s.builder, states[0], s.take(recurrent))
        total = s.builder.add(e.Add(), [piece, inside])
        return [activated(s.builder, total, op.activation)]

    run = Run(step, op.reverse, None, wants_sequence=True, weights=size * size)
    projected = product(b, frame.x, weights, bias)
    return frame.finish(*run_steps(b, projected, [frame.state(state, size)], run))


_AS_THEY_ARE = (of_real_weights, turned_around, without_states, step_by_step)
"""Those that leave recurrences."""

DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Lstm: (*_AS_THEY_ARE, as_layer, decompose_lstm),
    Rnn: (*_AS_THEY_ARE, decompose_rnn),
}
