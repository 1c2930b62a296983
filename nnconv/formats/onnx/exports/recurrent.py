"""Whole recurrent layers: ONNX's own nodes. onnxruntime has kernels for float32 alone."""

from __future__ import annotations

from typing import Any

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.recurrent import FUNCTIONS, Function, GruLayer, Layer, LstmLayer, RnnLayer

_TYPES: dict[type[Op], str] = {RnnLayer: "RNN", GruLayer: "GRU", LstmLayer: "LSTM"}

_STANDARD = {
    RnnLayer: ("Tanh",),
    GruLayer: ("Sigmoid", "Tanh"),
    LstmLayer: ("Sigmoid", "Tanh", "Tanh"),
}


def export_layer(node: Node, t: Target) -> None:
    """RNN, GRU or LSTM."""
    op = node.op
    assert isinstance(op, Layer)
    wide = t.real_type(node.outputs[0])
    inputs = []
    for place, value in enumerate(node.inputs):
        if place == 4 and value is not None:
            name = t.codes(value)
            inputs.append(name if value.dtype is DType.INT32 else t.cast(name, DType.INT32))
            continue
        name = t.real(value)
        inputs.append(t.cast(name, DType.FLOAT32) if name and wide is not DType.FLOAT32 else name)
    while not inputs[-1]:
        inputs.pop()
    wanted = [v.is_wanted for v in node.outputs]
    names = t.nodes_with(_TYPES[type(op)], inputs, wanted, **_attributes(node, op))
    for value, name in zip(node.outputs, names, strict=False):
        if name:
            t.set_real(value, name if wide is DType.FLOAT32 else t.cast(name, wide))


def _attributes(node: Node, op: Layer) -> dict[str, Any]:
    recurrent = node.operand(2)
    size = (recurrent.shape or (None,) * 3)[2]
    found: dict[str, Any] = {"hidden_size": size}
    if len(op.directions) > 1:
        found["direction"] = "bidirectional"
    elif op.directions[0]:
        found["direction"] = "reverse"
    if op.clip > 0:
        found["clip"] = op.clip
    standard = tuple(Function(name) for name in _STANDARD[type(op)]) * len(op.directions)
    if op.functions != standard:
        found["activations"] = [f.name for f in op.functions]
        alphas = [f.alpha for f in op.functions if len(FUNCTIONS[f.name]) > 0]
        betas = [f.beta for f in op.functions if len(FUNCTIONS[f.name]) > 1]
        found["activation_alpha"] = alphas or None
        found["activation_beta"] = betas or None
    if isinstance(op, GruLayer) and op.reset_after:
        found["linear_before_reset"] = 1
    if isinstance(op, LstmLayer) and op.coupled:
        found["input_forget"] = 1
    return found


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(_TYPES, export_layer)
