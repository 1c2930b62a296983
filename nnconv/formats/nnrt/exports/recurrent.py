"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.recurrent import LstmLayer

_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")


def export_lstm(node: Node, t: Target) -> None:
    """LSTM, whose outputs have directions beside the cells."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, LstmLayer)
    bias, lengths, output, cell, peepholes = node.operands()[3:]
    directions = len(op.directions)
    plain = tuple(f.name for f in op.functions) == _FUNCTIONS * directions
    if not plain or op.clip or op.coupled or lengths is not None or peepholes is not None:
        raise t.refused("LSTM has no clip, lengths, peepholes, coupled gates or other activations")
    if op.directions not in ((False,), (False, True)):
        raise t.refused("LSTM begins with the first step")
    steps, batch, _ = t.shape(x)
    size, hidden = t.static(weights)[2], t.static(node.operand(2))[2]
    dtype = x.dtype.numpy
    state = TensorType(x.dtype, (directions, batch, hidden))
    zeros = None if output and cell else _zeros(t, x, state)
    given: dict[str, Input] = {
        "input": x,
        "wIh": weights,
        "wHh": node.operand(2),
        "bias": bias or t.const(np.zeros((directions, 8 * hidden), dtype)),
        "hx": output or zeros,
        "cx": cell or zeros,
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
    results += [t.temp(state) for _ in range(3 - len(results))]
    t.operate("LSTM", given, results, params)
    y = node.outputs[0]
    if directions == 1:
        t.emit("UNSQUEEZE", {"input": made}, y, {"axis": 1})
        return
    one = TensorType(x.dtype, (steps, batch, hidden))
    halves = [t.temp(one) for _ in range(directions)]
    t.operate("SPLIT", {"input": made}, halves, {"outputNum": directions, "axis": 2})
    t.emit("STACK", {"input": halves}, y, {"axis": 1})


def _zeros(t: Target, x: Value, state: TensorType) -> Ref:
    """States of zeros; how many sequences there are may be known at run time alone."""
    shape = static_shape(state.shape)
    if shape is not None:
        return t.const(np.zeros(shape, state.dtype.numpy))
    directions, _, hidden = state.shape or ()
    whole = t.result("SHAPE", {"input": x}, TensorType(DType.INT32, (3,)))
    picks = {"input": whole, "inputIndices": t.single(1), "axis": t.single(0)}
    batch = t.result("GATHER", picks, TensorType(DType.INT32, (1,)))
    assert isinstance(directions, int)
    assert isinstance(hidden, int)
    parts = [t.single(directions), batch, t.single(hidden)]
    dims = t.result("CONCAT", {"input": parts}, TensorType(DType.INT32, (3,)), {"axis": 0})
    zero = t.const(np.zeros(1, state.dtype.numpy))
    return t.result("FILL", {"value": zero, "shape": dims}, state)


EXPORTERS: dict[type[Op], Exporter] = {LstmLayer: export_lstm}
