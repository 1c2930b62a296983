"""Quantization in simpler ops."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast, DynamicQuantize
from nnconv.ops.reduce import ReduceMax, ReduceMin


def decompose_dynamic_quantize(node: Node, b: Builder) -> list[Value] | None:
    """DynamicQuantize by its formula; where all of x is 0, the step is taken for 1."""
    x = node.inputs[0]
    if x is None or x.type.rank is None:
        return None
    zero, axes = b.const(np.asarray(0, np.float32)), tuple(range(x.type.rank))
    least = b.add(e.Minimum(), [b.add(ReduceMin(axes=axes), [x]), zero])
    greatest = b.add(e.Maximum(), [b.add(ReduceMax(axes=axes), [x]), zero])
    span = b.add(e.Sub(), [greatest, least])
    scale = b.add(e.Div(), [span, b.const(np.asarray(255, np.float32))])
    some = b.add(e.Greater(), [scale, zero])
    step = b.add(e.Select(), [some, scale, b.const(np.asarray(1, np.float32))])
    whole = b.add(e.Round(), [b.add(e.Div(), [b.add(e.Neg(), [least]), step])])
    point = b.add(e.Clip(low=0.0, high=255.0), [whole])
    steps = b.add(e.Round(), [b.add(e.Div(), [x, step])])
    codes = b.add(e.Clip(low=0.0, high=255.0), [b.add(e.Add(), [steps, point])])
    to_byte = Cast(dtype=DType.UINT8)
    return [b.add(to_byte, [codes]), scale, b.add(to_byte, [point])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    DynamicQuantize: (decompose_dynamic_quantize,),
}
