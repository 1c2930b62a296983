"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.recurrent import LstmLayer

_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")


def export_lstm(node: Node, t: Target) -> None:
    """LSTM, whose outputs have directions beside the cells."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, LstmLayer)
    inputs = [*node.inputs, *[None] * (8 - len(node.inputs))]
    bias, lengths, output, cell, peepholes = inputs[3:8]
    directions = len(op.directions)
    plain = tuple(f.name for f in op.functions) == _FUNCTIONS * directions
    if not plain or op.clip or op.coupled or lengths is not None or peepholes is not None:
        raise t.refused("LSTM has no clip, lengths, peepholes, coupled gates or other activations")
    if op.directions not in ((False,), (False, True)):
        raise t.refused("LSTM begins with the first step")
    steps, batch, size = t.static(x)
    hidden = t.static(node.operand(2))[2]
    dtype = x.dtype.numpy
    zeros = np.zeros((directions, batch, hidden), dtype)
    given: dict[str, Input] = {
        "input": x,
        "wIh": weights,
        "wHh": node.operand(2),
        "bias": bias or t.const(np.zeros((directions, 8 * hidden), dtype)),
        "hx": output or t.const(zeros),
        "cx": cell or t.const(zeros),
    }
    params = {
        "bidirectional": directions == 2,
        "hasBias": bias is not None,
        "inputSize": size,
        "hiddenSize": hidden,
        "numLayers": 1,
        "numDirections": directions,
    }
    kind = TensorType(x.dtype, (steps, batch, directions * hidden))
    made = t.temp(kind)
    results = [made, *(t.declare(value) for value in node.outputs[1:])]
    state = TensorType(x.dtype, (directions, batch, hidden))
    results += [t.temp(state) for _ in range(3 - len(results))]
    t.operate("LSTM", given, results, params)
    y = node.outputs[0]
    if directions == 1:
        t.emit("RESHAPE", {"input": made, "InputShape": t.ints(t.static(y))}, y)
        return
    apart = TensorType(x.dtype, (steps, batch, directions, hidden))
    cut = t.result(
        "RESHAPE", {"input": made, "InputShape": t.ints((steps, batch, directions, hidden))}, apart
    )
    t.emit("TRANSPOSE", {"input": cut, "permutation": t.ints((0, 2, 1, 3))}, y)


EXPORTERS: dict[type[Op], Exporter] = {LstmLayer: export_lstm}
