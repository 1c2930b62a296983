"""Quantization, and conversions between types of numbers."""

from __future__ import annotations

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnrt.exporter import CODES, Exporter, Target, params_of
from nnconv.formats.nnrt.types import FROM_DTYPE
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import real_values
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, LooseCast, Quantize


def _convert(t: Target, x: Value, y: Value) -> None:
    """QUANT_DTYPE_CAST, which names the dimension of scales per channel."""
    for value in (x, y):
        if value.dtype not in FROM_DTYPE:
            raise t.refused(f"NNRt has no {value.dtype}")
    params = {"srcT": int(FROM_DTYPE[x.dtype]), "dstT": int(FROM_DTYPE[y.dtype])}
    for value in (x, y):
        quant = value.quant
        if quant is None:
            continue
        if quant.block or value.dtype not in CODES:
            raise t.refused(f"NNRt converts no {value.type} at run time")
        if quant.is_per_tensor or quant.axis is None:
            continue
        if params.setdefault("axis", quant.axis) != quant.axis or t.api == 1:
            raise t.refused(f"NNRt converts no {value.type} at run time")
    t.emit("QUANT_DTYPE_CAST", {"input": x}, y, params)


def export_quantize(node: Node, t: Target) -> None:
    """QUANT_DTYPE_CAST of floats, or of codes with other parameters."""
    x, y = node.operand(0), node.outputs[0]
    if x.quant == y.quant and x.dtype is y.dtype:
        t.keep(x, y)
        return
    _convert(t, x, y)


def export_dequantize(node: Node, t: Target) -> None:
    """QUANT_DTYPE_CAST; constants stand in the model as floats."""
    x, y = node.operand(0), node.outputs[0]
    if x.data is not None:
        if x.quant is None:
            raise t.refused(f"{x.type} has no parameters")
        t.constant(y, real_values(x.data, x.quant, y.dtype))
        return
    _convert(t, x, y)


def export_cast(node: Node, t: Target) -> None:
    """CAST of stored numbers."""
    x, y = node.operand(0), node.outputs[0]
    if x.dtype is y.dtype:
        t.keep(x, y)
        return
    if x.type.has_codes or y.type.has_codes:
        raise t.refused("CAST takes codes as real numbers do")
    if x.data is not None and x.dtype not in FROM_DTYPE:  # bfloat16 weights
        t.constant(y, t.file.evaluate(node, [x.data])[0])
        return
    emit_cast(t, t.tensor(x), y)


def emit_cast(t: Target, x: Ref, y: Value) -> None:
    """Make a value of the stored numbers of a tensor."""
    if y.dtype not in FROM_DTYPE:
        raise t.refused(f"NNRt has no {y.dtype}")
    kind = t.const(np.asarray(int(FROM_DTYPE[y.dtype]), np.int32))
    t.emit("CAST", {"input": x, "type": kind}, y)


def export_bitcast(node: Node, t: Target) -> None:
    """Codes under other parameters: a TILE, which moves them, and whose result says so."""
    x, y = node.operand(0), node.outputs[0]
    if x.dtype is not y.dtype:
        raise t.refused(f"NNRt doesn't take the bits of {x.dtype} for {y.dtype}")
    if x.data is not None:
        t.constant(y, x.data)
        return
    if params_of(x.type) == params_of(y.type):
        t.keep(x, y)
        return
    times = t.ints([1] * max(len(t.shape(x)), 1))
    t.emit("TILE", {"input": x, "multiples": times}, y)


EXPORTERS: dict[type[Op], Exporter] = {
    Bitcast: export_bitcast,
    Cast: export_cast,
    Dequantize: export_dequantize,
    LooseCast: export_cast,
    Quantize: export_quantize,
}
