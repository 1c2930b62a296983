"""Recurrent ops of floats; their states are ordinary inputs and outputs. Others are decomposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Input, Target
from nnconv.formats.nnapi.imports.rnn import ACTIVATIONS, LSTM_OPERANDS
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.rnn import Lstm, Rnn

NUMBERS = {activation: number for number, activation in ACTIVATIONS.items()}

_RNN_OPERANDS = ("input", "weights", "recurrent_weights", "bias", "hidden_state")


def _activation(t: Target, activation: Activation) -> int:
    number = NUMBERS.get(activation)
    if number is None:
        raise t.refused(f"NNAPI's recurrent operations have no activation {activation.value}")
    return number


def _check(node: Node, t: Target, op: Lstm | Rnn) -> Value:
    """The input, if the op is one of NNAPI's."""
    if any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs)):
        raise t.refused("its operands are codes")
    if op.reverse:
        raise t.refused("it runs backward")
    return node.operand(0)


def _zeros(t: Target, x: Value, op: Lstm | Rnn, size: Dim) -> Input:
    """The first state where none is given."""
    shape = x.shape or ()
    batch = shape[1] if op.time_major and len(shape) == 3 else shape[0] if shape else None
    if not isinstance(batch, int) or not isinstance(size, int):
        raise t.refused("the extents of its states aren't known")
    return t.const(np.zeros((batch, size), x.dtype.numpy))


def _sequence(node: Node, t: Target, op: Lstm | Rnn, name: str, inputs: dict[str, Input]) -> None:
    """The operation; a single step is a sequence of one."""
    x, results = node.operand(0), list(node.outputs)
    used = [bool(v.uses) or v in t.outputs(node) for v in results[1:]]
    results = results if any(used) else results[:1]
    if t.rank(x) == 3:
        t.emit(name, inputs, results)
        return
    first = 0 if op.time_major else 1
    raised = _raised(x.shape, first)
    inputs["input"] = t.result(
        "EXPAND_DIMS", {"input": x, "axis": first}, TensorType(x.dtype, raised)
    )
    y = results[0]
    made = t.temp(TensorType(y.dtype, _raised(y.shape, first)))
    t.operation(name, inputs, [made, *(t.declare(v) for v in results[1:])])
    t.take_out(made, first, y)


def _raised(shape: Sequence[Dim] | None, axis: int) -> tuple[Dim, ...] | None:
    return None if shape is None else (*shape[:axis], 1, *shape[axis:])


def export_lstm(node: Node, t: Target) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    op = node.op
    assert isinstance(op, Lstm)
    x = _check(node, t, op)
    given = [*node.inputs, *[None] * (len(LSTM_OPERANDS) - len(node.inputs))]
    inputs: dict[str, Input] = dict(zip(LSTM_OPERANDS, given, strict=True))
    weights, recurrent = node.operand(2), node.operand(6)
    cells, size = (weights.shape or (None,))[0], (recurrent.shape or (None, None))[1]
    for name, extent in (("output_state_in", size), ("cell_state_in", cells)):
        if inputs[name] is None:
            inputs[name] = _zeros(t, x, op, extent)
    for gate, value in zip(("forget", "cell", "output"), given[13:16], strict=True):
        if value is None:
            if not isinstance(cells, int):
                raise t.refused("the number of its cells isn't known")
            inputs[f"{gate}_gate_bias"] = t.const(np.zeros(cells, x.dtype.numpy))
    if given[1] is not None and given[12] is None and isinstance(cells, int):
        inputs["input_gate_bias"] = t.const(np.zeros(cells, x.dtype.numpy))
    inputs.update(
        activation=_activation(t, op.activation),
        cell_clip=op.cell_clip,
        projection_clip=op.projection_clip,
        time_major=op.time_major,
    )
    _sequence(node, t, op, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs)


def export_rnn(node: Node, t: Target) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    op = node.op
    assert isinstance(op, Rnn)
    x = _check(node, t, op)
    given = [*node.inputs, *[None] * (len(_RNN_OPERANDS) - len(node.inputs))]
    inputs: dict[str, Input] = dict(zip(_RNN_OPERANDS, given, strict=True))
    units = (node.operand(1).shape or (None,))[0]
    if inputs["bias"] is None:
        if not isinstance(units, int):
            raise t.refused("the number of its units isn't known")
        inputs["bias"] = t.const(np.zeros(units, x.dtype.numpy))
    if inputs["hidden_state"] is None:
        inputs["hidden_state"] = _zeros(t, x, op, units)
    inputs.update(activation=_activation(t, op.activation), time_major=int(op.time_major))
    _sequence(node, t, op, "UNIDIRECTIONAL_SEQUENCE_RNN", inputs)


EXPORTERS: dict[type[Op], Exporter] = {Lstm: export_lstm, Rnn: export_rnn}
