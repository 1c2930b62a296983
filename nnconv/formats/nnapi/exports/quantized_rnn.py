"""Recurrent ops on integers."""

from __future__ import annotations

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Exporter, Input, Target
from nnconv.formats.nnapi.gates import GATES, LSTM_OPERANDS, scale_of
from nnconv.formats.nnapi.types import OperandCode
from nnconv.formats.nnapi.wire import Lifetime
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.quantized_rnn import QuantizedLstm

_WEIGHTS = frozenset(name for name in LSTM_OPERANDS if name.startswith(("input_to", "recurrent")))
_SYMMETRIC = _WEIGHTS | {"projection_weights"}


def _symmetric(t: Target, value: Value) -> Ref:
    """The operand of int8 weights; an input of the graph becomes one of symmetric codes."""
    if value.quant is None or not value.quant.is_per_tensor or not value.quant.is_symmetric:
        raise t.refused(f"its weights `{value.name}` are {value.type}")
    code = OperandCode.TENSOR_QUANT8_SYMM
    if value.data is not None:
        return t.const(value.data, quant=value.quant, code=code, name=value.name)
    index = t.operand(value)
    if t.operands[index].lifetime is not Lifetime.INPUT:
        raise t.refused(f"its weights `{value.name}` are computed at run time")
    t.operands[index].type = code
    return index


def export_quantized_lstm(node: Node, t: Target) -> None:
    """QUANTIZED_LSTM, whose last output is the first once more."""
    op, state = node.op, node.outputs[0]
    assert isinstance(op, QuantizedLstm)
    given = node.operands()
    inputs: dict[str, Input] = {}
    for name, value in zip(LSTM_OPERANDS, given, strict=True):
        if value is not None:
            inputs[name] = _symmetric(t, value) if name in _SYMMETRIC else value
    x = scale_of(given[0])
    for place, gate in enumerate(GATES):
        scale = scale_of(given[1 + place]) * x / op.input_scales[place]
        inputs[f"{gate}_intermediate_scale"] = scale
    last = np.float32(op.projection_clip * scale_of(state))  # not less than the code
    inputs.update(
        cell_clip=op.cell_clip * 2.0**op.cell_power,
        projection_clip=float(np.nextafter(last, np.inf)) if op.projection_clip else 0.0,
        hidden_state_zero_point=op.hidden_zero_point,
        hidden_state_scale=2.0**-30 / op.hidden_scale,
    )
    again = t.temp(TensorType(state.dtype, state.shape, state.quant))
    t.operation("QUANTIZED_LSTM", inputs, [*(t.declare(v) for v in node.outputs), again])


EXPORTERS: dict[type[Op], Exporter] = {QuantizedLstm: export_quantized_lstm}
