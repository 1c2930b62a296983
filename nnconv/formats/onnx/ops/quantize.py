"""Ops between number types."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, FakeQuant, Quantize


def export_quantize(node: Node, t: Target) -> None:
    """Quantize: set_real adds the QuantizeLinear; requantizing goes by the real values.

    Where only the zero point's sign convention differs (int8 and uint8 of one meaning), the codes are the same inside.
    """
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if (
        t.is_quantized(x)
        and t.inner_type(x) is t.inner_type(y)
        and t.inner_quant(x) == t.inner_quant(y)
    ):
        t.set_codes(y, t.codes(x))
        return
    t.set_real(y, t.real(x))


def export_dequantize(node: Node, t: Target) -> None:
    """Dequantize."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    name = t.real(x)
    t.set_real(y, name if y.dtype is DType.FLOAT32 else t.cast(name, y.dtype))


def export_cast(node: Node, t: Target) -> None:
    """Cast: TFLite's saturates from float to integer, ONNX's doesn't."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    name = t.stored(x)
    if x.dtype.is_float and y.dtype.is_integer:
        name = _saturated(name, x.dtype, y.dtype, t)
    t.set_stored(y, t.cast(name, y.dtype))


def _saturated(name: str, source: DType, target: DType, t: Target) -> str:
    """Float values clamped to what an integer type holds; NaN becomes the greatest."""
    low, high = target.int_range
    kind = source.numpy.type
    top = kind(high)
    while int(top) > high:  # the nearest float of a wide type's greatest value lies above it
        top = np.nextafter(top, kind(0))
    bounded = t.node("Clip", [name, t.const(kind(low)), t.const(top)])
    return t.node("Where", [t.node("IsNaN", [name]), t.const(top), bounded])


def export_bitcast(node: Node, t: Target) -> None:
    """Bitcast: between codes of one type it only changes what they stand for; ONNX has no other."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if x.dtype is not y.dtype:
        raise t.unsupported(f"ONNX can't reread {x.dtype} as {y.dtype}")
    t.set_stored(y, t.stored(x))


def export_fake_quant(node: Node, t: Target) -> None:
    """FakeQuant: clamp, scale, round, scale back, on the nudged grid."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, FakeQuant) and x is not None
    scale, low, high = op.grid()
    name = t.real(x)
    bounded = t.node("Clip", [name, t.floats(low, x), t.floats(high, x)])
    steps = t.node("Div", [t.node("Sub", [bounded, t.floats(low, x)]), t.floats(scale, x)])
    rounded = t.node("Floor", [t.node("Add", [steps, t.floats(0.5, x)])])
    t.set_real(y, t.node("Add", [t.node("Mul", [rounded, t.floats(scale, x)]), t.floats(low, x)]))


EXPORTERS: dict[type[Op], Exporter] = {
    Quantize: export_quantize,
    Dequantize: export_dequantize,
    Cast: export_cast,
    Bitcast: export_bitcast,
    FakeQuant: export_fake_quant,
}
