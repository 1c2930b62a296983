"""Recurrent ops: TFLite's own where they may keep the states, which are then variable tensors.

Else, and for what only some of their kernels do, see ``nnconv.decompositions.rnn``.
"""

from __future__ import annotations

from typing import Any

from nnconv.formats.tflite.exporter import Exporter, Options, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import TensorType
from nnconv.ops.rnn import Lstm, Rnn

ACTIVATIONS = {
    Activation.NONE: 0,
    Activation.RELU: 1,
    Activation.RELU_N1_TO_1: 2,
    Activation.RELU6: 3,
    Activation.TANH: 4,
}
"""These kernels apply TANH too."""

REVERSE: Options = ("ReverseV2Options", {})


def activation_number(t: Target, activation: Activation) -> int:
    """The number of a recurrent op's activation.

    Raises:
        Refused: its kernels don't apply it.
    """
    number = ACTIVATIONS.get(activation)
    if number is None:
        raise t.refused(f"activation {activation.value}")
    return number


def is_hybrid(t: Target, x: Value, weights: list[Value | None]) -> bool:
    """Whether float inputs meet weights of 8 bits, which the kernels take by themselves.

    Raises:
        Refused: the types are no kernel's.
    """
    kinds = {v.dtype for v in weights if v is not None}
    if x.dtype is not DType.FLOAT32 or not kinds <= {DType.FLOAT32, DType.INT8}:
        raise t.refused(f"{x.dtype} inputs with weights of {', '.join(sorted(map(str, kinds)))}")
    quants = [v.quant for v in weights if v is not None and v.dtype is DType.INT8]
    if any(q is None or not q.is_per_tensor or any(q.zero_point) for q in quants):
        raise t.refused("weights of 8 bits that aren't symmetric with one scale")
    if len(kinds) > 1:
        raise t.refused("some of the weights have 8 bits, some are floats")
    return DType.INT8 in kinds


def export_lstm(node: Node, t: Target) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM; LSTM for a single step.

    Backward between two REVERSE_V2. LiteRT's integer kernel clips and applies peepholes to other
    cells than it should (see ``Lstm``); what came from it goes back to it all the same.
    """
    op = node.op
    assert isinstance(op, Lstm)
    values = node.operands()
    x = values[0]
    assert x is not None
    sequence = x.type.rank == 3
    number = activation_number(t, op.activation)
    version, intermediates = 1, []
    if op.steps is None:
        kinds = [v for v in values[9:18] if v is not None and v.dtype is DType.INT8]
        if is_hybrid(t, x, [*values[1:9], values[16]]):
            version = (2 if sequence else 3) + op.asymmetric
        elif kinds:
            raise t.refused("peepholes of 8 bits among float weights")
    elif x.dtype is not DType.INT8 or len(op.steps.gates) != 4:
        raise t.refused(f"{x.type} input to an Lstm that rounds at each step")
    else:
        inner = [*op.steps.gates, op.steps.hidden.quant]
        intermediates = [
            t.temp(TensorType(DType.INT8 if i == 4 else DType.INT16, (), quant))
            for i, quant in enumerate(inner)
        ]
    fields = {
        "fused_activation_function": number,
        "cell_clip": op.cell_clip,
        "proj_clip": op.projection_clip,
        "asymmetric_quantize_inputs": op.asymmetric,
    }
    if sequence:
        options = ("UnidirectionalSequenceLSTMOptions", {**fields, "time_major": op.time_major})
    else:
        options = ("LSTMOptions", fields)
    time = 0 if op.time_major else 1
    turned = sequence and op.reverse
    y = node.outputs[0]
    before = [t.tensor(v) for v in values]
    if turned:
        before[0] = t.result("REVERSE_V2", [before[0], t.ints([time])], x.type, REVERSE)
    before[18:20] = t.variables(list(zip(values[18:20], node.outputs[1:], strict=True)))
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM" if sequence else "LSTM"
    more: dict[str, Any] = {"version": version, "intermediates": intermediates}
    more["mutating_variable_inputs"] = [i in (18, 19) for i in range(24)]
    if turned:
        made = t.result(name, before, y.type, options, **more)
        t.emit("REVERSE_V2", [made, t.ints([time])], y, REVERSE)
    else:
        t.emit(name, before, y, options, **more)


def export_rnn(node: Node, t: Target) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN; RNN for a single step. Backward between two REVERSE_V2."""
    op = node.op
    assert isinstance(op, Rnn)
    values = node.operands()
    x, y = values[0], node.outputs[0]
    assert x is not None
    if values[3] is None:
        raise t.refused("TFLite's op must have a bias")
    sequence = x.type.rank == 3
    number = activation_number(t, op.activation)
    hybrid = is_hybrid(t, x, values[1:3])
    fields = {"fused_activation_function": number, "asymmetric_quantize_inputs": op.asymmetric}
    if sequence:
        options = ("SequenceRNNOptions", {**fields, "time_major": op.time_major})
    else:
        options = ("RNNOptions", fields)
    name = "UNIDIRECTIONAL_SEQUENCE_RNN" if sequence else "RNN"
    more: dict[str, Any] = {"version": 2 + op.asymmetric if hybrid else 1}
    more["mutating_variable_inputs"] = [i == 4 for i in range(5)]
    before = [t.tensor(v) for v in values]
    turned = sequence and op.reverse
    axis = [0 if op.time_major else 1]
    if turned:
        before[0] = t.result("REVERSE_V2", [before[0], t.ints(axis)], x.type, REVERSE)
    before[4:] = t.variables([(values[4], node.outputs[1])])
    if turned:
        made = t.result(name, before, y.type, options, **more)
        t.emit("REVERSE_V2", [made, t.ints(axis)], y, REVERSE)
    else:
        t.emit(name, before, y, options, **more)


EXPORTERS: dict[type[Op], Exporter] = {Lstm: export_lstm, Rnn: export_rnn}
