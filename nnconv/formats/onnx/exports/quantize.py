"""Ops between number types."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx import exact
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.weights import LOWEST, guarded, is_taken_in
from nnconv.ir.dtype import COMPLEXES, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.elementwise import Binary, Unary
from nnconv.ops.quantize import (
    Bitcast,
    Cast,
    Dequantize,
    DynamicQuantize,
    FakeQuant,
    LooseCast,
    Quantize,
)
from nnconv.ops.shape import Reshape, Transpose

_WIDE = frozenset({DType.INT32, DType.INT64})
_ALONE = (Unary, Binary, Quantize)
"""Ops that begin with no op that moves."""


def export_quantize(node: Node, t: Target) -> None:
    """Quantize: set_real adds the QuantizeLinear; requantizing goes by the real values.

    Where only the signs of the codes differ (int8 and uint8 of one meaning), the codes are the same
    inside. 32-bit codes don't fit the float32 between: those go through float64.
    """
    x, y = node.operand(0), node.outputs[0]
    if not t.is_quantized(x):
        name = t.real(x)
        name = (
            t.node("Max", [name, t.floats(LOWEST, x)]) if _goes_out(t, x) else guarded(t, x, name)
        )
        t.set_plain_real(y, name if x.dtype is DType.FLOAT32 else t.cast(name, DType.FLOAT32))
    elif t.inner_type(x) is t.inner_type(y) and t.inner_quant(x) == t.inner_quant(y):
        t.set_codes(y, t.codes(x))
    elif _is_wide(x, y):
        t.set_stored(y, exact.requantized(t, x, y))
    else:
        t.set_real(y, t.real(x))


def _goes_out(t: Target, x: Value) -> bool:
    """Whether a Transpose of ``x`` is a result of the graph.

    onnxruntime lets two transposes cancel and a QuantizeLinear change places with the one before
    it. The result may then stand right before the QuantizeLinear: it would be rounded. A model that
    comes from ONNX keeps what it has.
    """
    moves = [use.node for use in x.uses if isinstance(use.node.op, (Transpose, Reshape))]
    if t.plain or not moves:
        return False
    outputs = () if moves[0].graph is None else moves[0].graph.outputs
    return any(move.outputs[0] in outputs for move in moves)


def _is_wide(x: Value, y: Value) -> bool:
    tensors = x.quant is not None and x.quant.is_per_tensor
    tensors = tensors and y.quant is not None and y.quant.is_per_tensor
    return tensors and (x.dtype in _WIDE or y.dtype in _WIDE)


def export_dequantize(node: Node, t: Target) -> None:
    """Dequantize; nothing where weighted ops take it in."""
    x, y = node.operand(0), node.outputs[0]
    if is_taken_in(node):
        return
    name = t.real(x)
    if y.dtype is not DType.FLOAT32:
        name = t.cast(name, y.dtype)
    elif _may_be_moved(t, x, y):
        name = t.node("Max", [name, t.const(LOWEST)])
    t.set_real(y, name)


def _may_be_moved(t: Target, x: Value, y: Value) -> bool:
    """Whether onnxruntime may carry the DequantizeLinear past ops that move, and fail at that.

    ``MoveCodesPass`` takes care of those that the graph has. Here it is about those that exporters
    spell inside other ops, and that onnxruntime puts in itself. It fails to load a file of opset 21
    or more where the codes are int8, and crashes where a body reads what was moved.
    """
    node = y.producer
    if t.plain or not t.is_quantized(x) or node is None or node.graph is None:
        return False
    if all(isinstance(use.node.op, _ALONE) for use in y.uses):
        return False
    return (t.opset >= 21 and t.inner_type(x) is DType.INT8) or t.nests(node.graph)


def export_cast(node: Node, t: Target) -> None:
    """Cast: TFLite's saturates from float to integer, ONNX's doesn't.

    Nothing where weighted ops take it in.
    """
    x, y = node.operand(0), node.outputs[0]
    if is_taken_in(node):
        return
    if x.dtype in COMPLEXES or y.dtype in COMPLEXES:
        _export_complex_cast(x, y, t)
        return
    name = t.stored(x)
    if x.dtype.is_float and y.dtype.is_integer:
        t.set_stored(y, exact.saturated(t, name, x.dtype, y.dtype))
    else:
        t.set_stored(y, t.cast(name, y.dtype))


def export_loose_cast(node: Node, t: Target) -> None:
    """LooseCast: ONNX's own Cast. Before a type's opset, what holds it gets its low bits."""
    x, y = node.operand(0), node.outputs[0]
    name = t.stored(x)
    if t.held_type(y.dtype) is y.dtype:
        t.set_stored(y, t.cast(name, y.dtype))
        return
    span = t.const(np.int32(1 << y.dtype.bits))
    least = t.const(np.int32(y.dtype.int_range[0]))
    moved = t.node("Sub", [t.cast(name, DType.INT32), least])
    t.set_stored(y, t.cast(t.node("Add", [t.node("Mod", [moved, span]), least]), y.dtype))


def _export_complex_cast(x: Value, y: Value, t: Target) -> None:
    """From complex the real part, to complex with an imaginary part of 0."""
    inner = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
    if x.dtype not in COMPLEXES:
        part = inner[y.dtype]
        name = t.stored(x) if x.dtype is part else t.cast(t.stored(x), part)
        real = t.node("Unsqueeze", [name, t.const([-1])])
        zeros = t.node("ConstantOfShape", [t.node("Shape", [real])])  # of float32
        zeros = zeros if part is DType.FLOAT32 else t.cast(zeros, part)
        t.set_pairs(y, t.node("Concat", [real, zeros], axis=-1))
        return
    if y.dtype in COMPLEXES:
        same = x.dtype is y.dtype
        t.set_pairs(y, t.pairs(x) if same else t.cast(t.pairs(x), inner[y.dtype]))
        return
    name = t.node("Gather", [t.pairs(x), t.const(np.int64(0))], axis=-1)
    source = inner[x.dtype]
    if y.dtype.is_integer:
        t.set_stored(y, exact.saturated(t, name, source, y.dtype))
    else:
        t.set_stored(y, name if source is y.dtype else t.cast(name, y.dtype))


def export_bitcast(node: Node, t: Target) -> None:
    """Bitcast: between integers by arithmetic; codes of one type only change their meaning."""
    x, y = node.operand(0), node.outputs[0]
    if x.dtype is y.dtype and t.is_resigned(x) == t.is_resigned(y):
        t.set_codes(y, t.codes(x))
    elif x.dtype is y.dtype:
        t.set_stored(y, t.stored(x))
    else:
        t.set_stored(y, exact.reread(t, t.stored(x), x.dtype, y.dtype))


def export_fake_quant(node: Node, t: Target) -> None:
    """FakeQuant: clamp, scale, round, scale back, on the nudged grid."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, FakeQuant)
    scale, low, high = op.grid()
    name = t.real(x)
    bounded = t.node("Clip", [name, t.floats(low, x), t.floats(high, x)])
    steps = t.node("Div", [t.node("Sub", [bounded, t.floats(low, x)]), t.floats(scale, x)])
    rounded = t.node("Floor", [t.node("Add", [steps, t.floats(0.5, x)])])
    t.set_real(y, t.node("Add", [t.node("Mul", [rounded, t.floats(scale, x)]), t.floats(low, x)]))


def export_dynamic_quantize(node: Node, t: Target) -> None:
    """DynamicQuantize: DynamicQuantizeLinear."""
    for value, name in zip(
        node.outputs,
        t.nodes_of("DynamicQuantizeLinear", [t.real(node.inputs[0])], 3),
        strict=True,
    ):
        t.set_stored(value, name)


EXPORTERS: dict[type[Op], Exporter] = {
    Quantize: export_quantize,
    Dequantize: export_dequantize,
    Cast: export_cast,
    LooseCast: export_loose_cast,
    Bitcast: export_bitcast,
    FakeQuant: export_fake_quant,
    DynamicQuantize: export_dynamic_quantize,
}
