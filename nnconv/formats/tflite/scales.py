"""Scales of codes that LiteRT's kernels don't compute right with.

Kernels on codes multiply by a ratio of scales in fixed point, which has no room for ratios far
above 1; no more than 2**8 make a difference to 8 bits. Beyond 2**4 the op is done in floats.
QUANTIZE casts its quotient to int32, which sums of products leave where it is beyond 2**12.
XNNPACK ends the process at a denormal scale, and ADD's kernel where twice the scale is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from nnconv.decompositions.base import Refused
from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.refusals import item_of
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import QuantRule

_LEAST_SCALE, _MOST_SCALE = 2.0**-126, 2.0**120
_MOST_GAIN_OF_CODES, _MOST_GAIN_OF_FLOATS = 2.0**4, 2.0**12
_MOST_BITS = 16

_HINT = "--quant float computes with floats."

_PRODUCTS = frozenset(
    {
        *("Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "ConvTranspose2D", "ConvTranspose3D"),
        *("FullyConnected", "MatMul", "Gemm", "Mul"),
    }
)
"""Ops whose result has the product of their first two operands' scales before it is quantized."""

_SUMS = frozenset(
    {
        *("Quantize", "Add", "AddN", "Sub", "Maximum", "Minimum", "Concat", "Abs", "Neg", "Clip"),
        *("LeakyRelu", "HardSwish", "AveragePool1D", "AveragePool2D", "AveragePool3D"),
        *("ReduceMean", "ReduceSum", "ResizeBilinear", "Resample"),
    }
)
"""Ops whose result is of the size of their operands, each brought to the result's scale."""


def unfit_scales(values: Iterable[Value | None]) -> list[UnsupportedItem]:
    """The values whose scale no runtime takes: those of channels may be as small as they like."""
    return [
        UnsupportedItem(
            op="quantization",
            where=f"`{value.name}`",
            why=f"its scale {value.quant.scale[0]:g} isn't from 2**-126 up to 2**120: "
            "LiteRT ends the process",
            reason=Reason.IMPOSSIBLE,
            hint=_HINT,
        )
        for value in values
        if value is not None
        and value.quant is not None
        and value.type.has_codes
        and value.quant.is_per_tensor
        and not _LEAST_SCALE <= value.quant.scale[0] <= _MOST_SCALE
    ]


def check_gain(node: Node) -> None:
    """See that what a node makes of codes fits the fixed point of kernels on codes.

    Raises:
        Refused: floats will do.
    """
    if node.op.quant_rule is QuantRule.REAL and _gain(node) > _MOST_GAIN_OF_CODES:
        raise Refused(
            "its result's steps are much finer than those it is made of", types=frozenset()
        )


def lost_gain(node: Node) -> list[UnsupportedItem]:
    """A node whose result floats don't give either."""
    if _gain(node) <= _MOST_GAIN_OF_FLOATS:
        return []
    why = (
        "its result's scale is less than 2**-12 of that of what it is made of: "
        "LiteRT's QUANTIZE overflows"
    )
    return [item_of(node, why, reason=Reason.IMPOSSIBLE, hint=_HINT)]


def _gain(node: Node) -> float:
    """How many steps of a node's result a step of the real numbers that it is made of has."""
    quant = node.outputs[0].quant if node.outputs else None
    if quant is None:
        return 0.0
    name = node.op.name
    steps = [
        max(value.quant.scale)
        for value in node.inputs
        if value is not None and value.quant is not None and value.dtype.bits <= _MOST_BITS
    ]
    if not steps or node.outputs[0].dtype.bits > _MOST_BITS:
        return 0.0
    if name == "SquaredDifference":
        return max(steps) ** 2 / min(quant.scale)
    if name == "PRelu":
        return max(steps[0], math.prod(steps)) / min(quant.scale)
    if name in _PRODUCTS:
        return math.prod(steps) / min(quant.scale)
    return max(steps) / min(quant.scale) if name in _SUMS else 0.0
