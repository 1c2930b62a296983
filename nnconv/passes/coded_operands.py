"""Which operands of a node are codes, or may be: what ``FoldQdqPass`` asks of single nodes."""

from __future__ import annotations

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, QuantRule, Role
from nnconv.ir.quant import dequantize, quantize
from nnconv.ir.types import TensorType
from nnconv.ops.quantize import Dequantize
from nnconv.ops.slices import Pad, PadMode
from nnconv.passes.ranges import range_of, step_of
from nnconv.passes.weight_codes import WEIGHTED

DATA_TYPES = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})


def data_places(node: Node) -> list[int]:
    """Which operands are present and data."""
    return [
        i
        for i, value in enumerate(node.inputs)
        if value is not None and node.op.role(i) is Role.DATA
    ]


def takes_codes(node: Node, index: int, value: Value) -> bool:
    """Whether an operand is to be codes; parameters of a norm stay numbers."""
    role = node.op.role(index)
    weighted = isinstance(node.op, WEIGHTED) and role is not Role.INDEX
    return value.dtype.is_float and (role is Role.DATA or weighted)


def has_data(value: Value) -> bool:
    """Whether an operand has codes at run time."""
    return value.data is None and value.type.has_codes and value.dtype in DATA_TYPES


def covers(kind: TensorType, other: TensorType) -> bool:
    """Whether codes of a type stand for all numbers, but for half a step, that another's do."""
    if kind.quant is None or not kind.quant.is_per_tensor:
        return False
    (low, high), (least, greatest) = range_of(kind), range_of(other)
    reach = step_of(other) / 2
    return low <= least + reach and high >= greatest - reach


def fills_with_codes(node: Node, codes: Value) -> bool:
    """Whether what a Pad puts in is the very number that one of its operand's codes stands for."""
    op = node.op
    if not isinstance(op, Pad) or op.mode is not PadMode.CONSTANT or codes.quant is None:
        return True
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return True  # an operand like others
    code = quantize(np.asarray(op.value, np.float64), codes.quant, codes.dtype)
    return float(dequantize(code, codes.quant, np.float64)) == op.value


def clamps(node: Node) -> bool:
    """Whether a move's activation, if any, is one that codes can have."""
    activation = getattr(node.op, "activation", Activation.NONE)
    return activation is Activation.NONE or activation.bounds is not None


def lets_codes_pass(node: Node, source: Value) -> bool:
    """Whether a node gives its only data on, be they numbers or their codes."""
    if node.bodies or node.op.quant_rule is not QuantRule.CODES or len(node.outputs) != 1:
        return False
    return (
        source.dtype.is_float
        and source.data is None
        and source.producer is not None
        and not isinstance(source.producer.op, Dequantize)
        and data_places(node) == [0]
        and clamps(node)
    )
