"""The operands of products with weights, as NNRt wants them."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.biases import bias_codes, bias_quant, is_alike
from nnconv.formats.indexed import Ref
from nnconv.formats.nnrt.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType

_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16})


def check_weighted(node: Node, t: Target) -> bool:
    """Whether a weighted node computes with codes; its types suit.

    Raises:
        Refused: they don't; the node will be done in floats instead.
    """
    given = [i for i, value in enumerate(node.inputs[:3]) if value is not None]
    x, weights, y = node.operand(0), node.operand(1), node.outputs[0]
    bias = node.optional(2)
    values = [v for v in (x, weights, bias, y) if v is not None]
    if not any(v.type.has_codes for v in values):
        t.require(node, plain=_FLOATS, operands=given)
        if any(v.dtype is not x.dtype for v in values):
            why = "its operands are of different types"
            raise Refused(why, types=frozenset({DType.FLOAT32}), operands=tuple(given))
        return False
    why = _obstacle(x, weights, bias, y)
    if why:
        raise Refused(why, types=frozenset({DType.FLOAT32}), operands=tuple(given))
    return True


def _obstacle(x: Value, weights: Value, bias: Value | None, y: Value) -> str:
    """Why NNRt doesn't multiply these codes; "" if it does."""
    if not all(v.type.has_codes for v in (x, weights, y)):
        return "some of its operands are codes, others floats"
    for value in (x, weights, y):
        if value.dtype is not DType.INT8:
            return f"`{value.name}` is {value.type}"
    if x.quant is None or not x.quant.is_per_tensor or y.quant is None or not y.quant.is_per_tensor:
        return f"{x.type} becomes {y.type}"
    quant = weights.quant
    if quant is None or quant.block or (not quant.is_per_tensor and quant.axis != 0):
        return f"its weights are {weights.type}"
    if bias is not None and bias.data is None:
        wanted = bias_quant(x.quant, quant)
        if bias.dtype is not DType.INT32 or bias.quant is None or not is_alike(bias.quant, wanted):
            return "its bias is computed at run time, with other scales"
    return ""


def repeated(quant: Quant | None, groups: int) -> Quant | None:
    """The parameters of filters that stand once for each group."""
    if quant is None or quant.is_per_tensor or groups == 1:
        return quant
    return Quant.per_channel(quant.scale * groups, quant.zero_point * groups, axis=0)


def bias_tensor(node: Node, t: Target, filters: int, *, integer: bool, groups: int = 1) -> Ref:
    """The tensor of a bias; zeros where there is none. That of codes has no parameters.

    ``groups`` says how often the weights' parameters are meant, each time for other filters.
    """
    x, weights = node.operand(0), node.operand(1)
    bias = node.optional(2)
    if bias is None:
        return t.const(np.zeros(filters, np.int32 if integer else x.dtype.numpy))
    if not integer:
        if bias.type.rank == 1:
            return t.tensor(bias)
        if bias.data is not None:
            return t.const(bias.data.reshape(-1), name=bias.name)
        kind = TensorType(bias.dtype, (filters,))
        return t.result("RESHAPE", {"input": bias, "InputShape": t.ints([filters])}, kind)
    assert x.quant is not None
    quant = repeated(weights.quant, groups)
    assert quant is not None
    if bias.data is None:
        return t.tensor(bias)
    codes = bias_codes(bias, bias_quant(x.quant, quant))
    assert codes is not None, "its elements are known"
    return t.const(codes, name=bias.name)
