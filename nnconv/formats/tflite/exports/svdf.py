"""SVDF. Its state is a variable tensor, or it isn't TFLite's op."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.exports.rnn import activation_number, is_hybrid
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ops.svdf import QuantizedSvdf, Svdf


def export_svdf(node: Node, t: Target) -> None:
    """SVDF in floats, or with weights of 8 bits."""
    op = node.op
    assert isinstance(op, Svdf)
    x, weights = node.operand(0), node.inputs[1:3]
    features = weights[0]
    assert features is not None
    hybrid = is_hybrid(t, x, [features])
    version = (4 if op.asymmetric else 2) if hybrid else 1
    _emit(node, t, activation_number(t, op.activation), version, asymmetric=op.asymmetric)


def export_quantized_svdf(node: Node, t: Target) -> None:
    """SVDF on integers."""
    _emit(node, t, activation_number(t, Activation.RELU), 3, asymmetric=False)


def _emit(node: Node, t: Target, number: int, version: int, *, asymmetric: bool) -> None:
    op = node.op
    assert isinstance(op, Svdf | QuantizedSvdf)
    values: list[Value | None] = list(node.inputs)
    fields = {
        "rank": op.rank,
        "fused_activation_function": number,
        "asymmetric_quantize_inputs": asymmetric,
    }
    before = [t.tensor(v) for v in values]
    before[4:] = t.variables([(values[4], node.outputs[1])])
    t.emit(
        "SVDF",
        before,
        node.outputs[0],
        ("SVDFOptions", fields),
        version=version,
        mutating_variable_inputs=[i == 4 for i in range(5)],
    )


EXPORTERS: dict[type[Op], Exporter] = {Svdf: export_svdf, QuantizedSvdf: export_quantized_svdf}
