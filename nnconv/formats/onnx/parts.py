"""Complex numbers, which no runtime's kernels take: ops on their real and imaginary parts.

A complex value is floats of shape [..., 2] (``Target.pairs``). What moves elements moves both
parts, each by the op's own exporter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnconv.ir.dtype import COMPLEXES, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import QuantRule
from nnconv.ops.elementwise import Mul, Select
from nnconv.ops.shape import Rank, ShapeOf

if TYPE_CHECKING:
    from nnconv.formats.onnx.exporter import Exporter, Target

_PART_TYPES = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}

_Take = Callable[[np.ndarray], np.ndarray]
_REAL: _Take = np.real
_IMAG: _Take = np.imag


def by_parts(exporter: Exporter, node: Node) -> Exporter:
    """The exporter for a node with complex numbers: its op's own where that knows of them."""
    if isinstance(node.op, Mul):
        return _export_product
    if isinstance(node.op, ShapeOf | Rank):
        return lambda node, t: _export_one(exporter, node, t)
    if isinstance(node.op, Select) or node.op.quant_rule is QuantRule.CODES:
        return lambda node, t: _export_both(exporter, node, t)
    return exporter


def _part(value: Value, t: Target, take: _Take) -> Value:
    """A stand-in for one part of a complex value."""
    kind = replace(value.type, dtype=_PART_TYPES[value.dtype])
    if value.data is not None:
        return Value(value.name, kind, data=np.ascontiguousarray(take(value.data)))
    part = Value("", kind)
    index = t.const(np.int64(take is _IMAG))
    t.set_codes(part, t.node("Gather", [t.pairs(value), index], axis=-1))
    return part


def _export_part(exporter: Exporter, node: Node, t: Target, take: _Take) -> list[Value]:
    """The node with one part in the place of each complex operand; gives its results."""
    inputs = [
        _part(v, t, take) if v is not None and v.dtype in COMPLEXES else v for v in node.inputs
    ]
    outputs = [
        Value("", replace(v.type, dtype=_PART_TYPES.get(v.dtype, v.dtype))) for v in node.outputs
    ]
    twin = Node(node.op, inputs, outputs, origin=node.origin)
    exporter(twin, t)
    twin.set_inputs([])
    return outputs


def _export_both(exporter: Exporter, node: Node, t: Target) -> None:
    """The node once for each part, and the results put together again."""
    reals = _export_part(exporter, node, t, _REAL)
    imags = _export_part(exporter, node, t, _IMAG)
    for value, real, imag in zip(node.outputs, reals, imags, strict=True):
        t.set_pairs(value, _joined(t, t.codes(real), t.codes(imag)))


def _export_one(exporter: Exporter, node: Node, t: Target) -> None:
    """The node for the real part, which has the extents of both."""
    (result,) = _export_part(exporter, node, t, _REAL)
    t.set_codes(node.outputs[0], t.codes(result))


def _joined(t: Target, real: str, imag: str) -> str:
    axes = t.const([-1])
    return t.node("Concat", [t.node("Unsqueeze", [n, axes]) for n in (real, imag)], axis=-1)


def _export_product(node: Node, t: Target) -> None:
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i."""
    parts = [
        [t.codes(_part(v, t, take)) for take in (_REAL, _IMAG)]
        for v in node.inputs
        if v is not None
    ]
    (a, b), (c, d) = parts
    real = t.node("Sub", [t.node("Mul", [a, c]), t.node("Mul", [b, d])])
    imag = t.node("Add", [t.node("Mul", [a, d]), t.node("Mul", [b, c])])
    t.set_pairs(node.outputs[0], _joined(t, real, imag))
