"""Recurrent ops; their states are ordinary inputs and outputs.

Those on codes are decomposed, but for the one that NNAPI has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi import alike
from nnconv.formats.nnapi.exporter import Exporter, Input, Target
from nnconv.formats.nnapi.gates import ACTIVATIONS, GATES, LSTM_OPERANDS
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops.rnn import Lstm, LstmOperands, Rnn
from nnconv.ops.shape import Concat
from nnconv.ops.slices import Slice

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
    """The first state where none is given; of an open batch made of the first step."""
    shape = x.shape or ()
    place = 1 if op.time_major and len(shape) == 3 else 0
    if not isinstance(size, int) or not shape:
        raise t.refused("the extents of its states aren't known")
    batch = shape[place]
    if isinstance(batch, int):
        return t.const(np.zeros((batch, size), x.dtype.numpy))
    if x.dtype is not DType.FLOAT32:
        raise t.refused("the number of sequences isn't known")
    sizes = t.ints(-1 if axis == place else 1 for axis in range(len(shape)))
    cut = TensorType(x.dtype, tuple(d if axis == place else 1 for axis, d in enumerate(shape)))
    inputs = {"input": x, "begin": t.ints([0] * len(shape)), "size": sizes}
    column = TensorType(x.dtype, (batch, 1))
    first = t.result("SLICE", inputs, cut)
    turned = t.result("RESHAPE", {"input": first, "shape": t.ints((-1, 1))}, column)
    zeros, _ = alike.zeroed(t, turned, column)
    row = t.const(np.zeros((1, size), np.float32))
    terms = {"input0": zeros, "input1": row, "activation": 0}
    return t.result("ADD", terms, TensorType(x.dtype, (batch, size)))


_STATES_LEVEL = 4
"""The first feature level whose sequences give states."""


def _is_step(t: Target, x: Value) -> bool:
    """Whether an operation of a single step is taken: later levels do without.

    LSTM has a result that is room to work in, whose extents must be known.
    """
    return t.level < _STATES_LEVEL and len(static_shape(x.shape) or ()) == 2


def _sequence(node: Node, t: Target, op: Lstm | Rnn, name: str, inputs: dict[str, Input]) -> None:
    """The operation; a single step is a sequence of one."""
    x, results = node.operand(0), list(node.outputs)
    used = [v.is_wanted for v in results[1:]]
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


# -------------------------------------------------------------------- on codes

_STATE_16_BIT = Quant.per_tensor(2.0**-11)
_DATA_16_BIT = Quant.per_tensor(2.0**-7, 128)


def _is_16_bit(node: Node, op: Lstm) -> bool:
    """Whether a quantized Lstm is that of QUANTIZED_16BIT_LSTM."""
    given = LstmOperands(node.inputs)
    gates = [*given.weights, *given.recurrent]
    plain = Lstm(time_major=op.time_major, steps=op.steps)
    lacking = (*given.peepholes, given.projection, given.projection_bias, *given.norms)
    if op.steps is None or op != plain or any(lacking):
        return False
    data = [v for v in (given.x, given.output, *node.outputs[:2]) if v is not None]
    cells = [v for v in (given.cell, node.outputs[2]) if v is not None]
    return (
        given.x is not None
        and given.x.type.rank == 2
        and None not in (*gates, *given.biases, given.output, given.cell)
        and all((v.dtype, v.quant) == (DType.UINT8, _DATA_16_BIT) for v in data)
        and all((v.dtype, v.quant) == (DType.INT16, _STATE_16_BIT) for v in cells)
        and len({(v.dtype, v.quant) for v in gates if v is not None}) == 1
        and gates[0] is not None
        and gates[0].dtype is DType.UINT8
    )


def _as_named(t: Target, first: Value, second: Value) -> tuple[Ref, Ref]:
    """A gate's weights of the input and the recurrent ones, by the columns that these name.

    The operation lines up the recurrent ones and then those of the input, and multiplies as many
    of these columns by the input as it has.
    """
    if first.data is not None and second.data is not None:
        joined = np.concatenate([first.data, second.data], axis=1)
        units = second.data.shape[1]
        parts = joined[:, units:], joined[:, :units]
        named = zip(parts, (first, second), strict=True)
        ours, theirs = (t.const(part, quant=v.quant, name=v.name) for part, v in named)
        return ours, theirs
    columns, others = (_joined(v) for v in (first, second))
    if columns is None or columns != others:
        raise t.refused("its weights are computed at run time")
    return t.operand(columns[1]), t.operand(columns[0])


def _joined(columns: Value) -> list[Value] | None:
    """What stands side by side where columns were cut from."""
    cut = columns.producer
    joint = None if cut is None or not isinstance(cut.op, Slice) else cut.operand(0).producer
    if joint is None or not isinstance(joint.op, Concat):
        return None
    return [joint.operand(i) for i in range(len(joint.inputs))]


def _lstm_of_16_bits(node: Node, t: Target) -> None:
    """QUANTIZED_16BIT_LSTM."""
    inputs: dict[str, Input] = {
        "input": node.operand(0),
        "output_in": node.operand(18),
        "cell_state_in": node.operand(19),
    }
    for gate, name in enumerate(GATES):
        weights, recurrent = node.operand(1 + gate), node.operand(5 + gate)
        of_input, of_last = _as_named(t, weights, recurrent)
        inputs[f"input_to_{name}_weights"] = of_input
        inputs[f"recurrent_to_{name}_weights"] = of_last
        bias = node.operand(12 + gate)
        assert weights.quant is not None
        kind = TensorType(
            DType.INT32, bias.shape, Quant.per_tensor(weights.quant.scale[0] * 2.0**-7)
        )
        inputs[f"{name}_gate_bias"] = bias if bias.data is not None else t.bias(bias, kind)
    output, state, cell = node.outputs
    t.declare(output)
    t.operation("QUANTIZED_16BIT_LSTM", inputs, [t.declare(cell), t.operand(output)])
    t.alias(state, t.operand(output))


# -------------------------------------------------------------------- on floats


def export_lstm(node: Node, t: Target) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, LSTM; on codes QUANTIZED_16BIT_LSTM."""
    op = node.op
    assert isinstance(op, Lstm)
    if _is_16_bit(node, op):
        _lstm_of_16_bits(node, t)
        return
    x = _check(node, t, op)
    given = LstmOperands(node.inputs)
    inputs: dict[str, Input] = dict(zip(LSTM_OPERANDS, node.operands(), strict=True))
    weights, recurrent = node.operand(2), node.operand(6)
    cells, size = (weights.shape or (None,))[0], (recurrent.shape or (None, None))[1]
    for name, extent in (("output_state_in", size), ("cell_state_in", cells)):
        if inputs[name] is None:
            inputs[name] = _zeros(t, x, op, extent)
    for gate, own, bias in zip(GATES, given.weights, given.biases, strict=True):
        if own is not None and bias is None:
            if not isinstance(cells, int):
                raise t.refused("the number of its cells isn't known")
            inputs[f"{gate}_gate_bias"] = t.const(np.zeros(cells, x.dtype.numpy))
    inputs.update(
        activation=_activation(t, op.activation),
        cell_clip=op.cell_clip,
        projection_clip=op.projection_clip,
    )
    if isinstance(cells, int) and _is_step(t, x):
        gates = 3 if given.weights[0] is None else 4
        scratch = t.temp(TensorType(x.dtype, (*(x.shape or ())[:1], cells * gates)))
        output, *states = (t.declare(v) for v in node.outputs)
        named = {name: v for name, v in inputs.items() if v is not None or "norm" not in name}
        t.operation("LSTM", named, [scratch, *states, output])
        return
    inputs["time_major"] = op.time_major
    _sequence(node, t, op, "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs)


def export_rnn(node: Node, t: Target) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN, RNN."""
    op = node.op
    assert isinstance(op, Rnn)
    x = _check(node, t, op)
    inputs: dict[str, Input] = dict(zip(_RNN_OPERANDS, node.operands(), strict=True))
    units = (node.operand(1).shape or (None,))[0]
    if inputs["bias"] is None:
        if not isinstance(units, int):
            raise t.refused("the number of its units isn't known")
        inputs["bias"] = t.const(np.zeros(units, x.dtype.numpy))
    if inputs["hidden_state"] is None:
        inputs["hidden_state"] = _zeros(t, x, op, units)
    inputs["activation"] = _activation(t, op.activation)
    if _is_step(t, x):
        inputs["hidden_state_in"] = inputs.pop("hidden_state")
        output, state = node.outputs
        t.emit("RNN", inputs, [state, output])
        return
    inputs["time_major"] = int(op.time_major)
    _sequence(node, t, op, "UNIDIRECTIONAL_SEQUENCE_RNN", inputs)


EXPORTERS: dict[type[Op], Exporter] = {Lstm: export_lstm, Rnn: export_rnn}
