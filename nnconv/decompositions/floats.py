"""Functions of real numbers on integers and half floats."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops.quantize import Cast, LooseCast


def of_integers(node: Node, b: Builder) -> Sequence[Value] | None:
    """The same op on float32, its result truncated, where the first operand is of integers."""
    x = node.operand(0)
    if not x.dtype.is_integer or x.quant is not None:
        return None
    floats = b.add(node.op, [b.add(Cast(dtype=DType.FLOAT32), [x]), *node.inputs[1:]])
    y = node.outputs[0]
    return [b.add(LooseCast(dtype=y.dtype), [floats])] if y.dtype.is_integer else [floats]


def of_half_floats(node: Node, b: Builder) -> Sequence[Value] | None:
    """The same op on float32: float16 has no number as small as the least terms of quotients."""
    x = node.operand(0)
    if x.dtype is not DType.FLOAT16:
        return None
    wide = [
        b.add(Cast(dtype=DType.FLOAT32), [v]) if v is not None and v.dtype is x.dtype else v
        for v in node.inputs
    ]
    found = b.add_many(node.op, wide)
    return [
        v if v.dtype is y.dtype else b.add(Cast(dtype=y.dtype), [v])
        for v, y in zip(found, node.outputs, strict=True)
    ]
