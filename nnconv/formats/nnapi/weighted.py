"""The operands of products with weights: filters and biases as NNAPI wants them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.biases import bias_codes, bias_quant, is_alike
from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Perm
from nnconv.ir.quant import dequantize
from nnconv.ir.types import TensorType
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Transpose
from nnconv.ops.spatial import is_sorted


class Weighted(NamedTuple):
    """The operands of a weighted op whose types suit; ``integer``: they are codes."""

    x: Value
    weights: Value
    bias: Value | None
    integer: bool


def weighted(node: Node, t: Target, name: str, *, channels: bool = True) -> Weighted:
    """The operands of a node: all floats of one type, or codes that NNAPI multiplies.

    ``channels`` says whether the operation takes a scale for each filter.

    Raises:
        Refused: the types are others; the node will be done in floats instead.
    """
    x, weights = node.operand(0), node.operand(1)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    y = node.outputs[0]
    operands = tuple(i for i, value in enumerate(node.inputs[:3]) if value is not None)
    plain = t.types_of(name)
    if not any(v is not None and v.type.has_codes for v in (x, weights, bias, y)):
        t.require(node, plain=plain, operands=operands)
        if weights.dtype is not x.dtype or (bias is not None and bias.dtype is not x.dtype):
            raise Refused("its operands are of different types", types=plain, operands=operands)
        return Weighted(x, weights, bias, integer=False)
    why = _obstacle(x, weights, bias, y, channels=channels)
    if not why and y.quant is not None and x.quant is not None and weights.quant is not None:
        why = _too_fine(t, x, weights, y)
    if why:
        raise Refused(why, types=frozenset({DType.FLOAT32}), operands=operands)
    return Weighted(x, _signed_as(weights, x.dtype), bias, integer=True)


def _signed_as(weights: Value, dtype: DType) -> Value:
    """Weights with the sign of the data, where they have one scale; each for a filter stay int8."""
    quant, data = weights.quant, weights.data
    if weights.dtype is dtype or quant is None or data is None or not quant.is_per_tensor:
        return weights
    shift = 128 if dtype is DType.UINT8 else -128
    codes = (data.astype(np.int16) + shift).astype(dtype.numpy)
    kind = TensorType(dtype, weights.shape, quant.shifted(shift))
    return Value(weights.name, kind, data=codes, origin=weights.origin)


def _obstacle(x: Value, weights: Value, bias: Value | None, y: Value, *, channels: bool) -> str:
    """Why NNAPI doesn't multiply these codes; "" if it does."""
    xq, wq, yq = x.quant, weights.quant, y.quant
    if xq is None or wq is None or yq is None or not x.type.has_codes or not y.type.has_codes:
        return "some of its operands are codes, others floats"
    if x.dtype is not y.dtype or not xq.is_per_tensor or not yq.is_per_tensor:
        return f"{x.type} becomes {y.type}"
    if x.dtype not in (DType.INT8, DType.UINT8):
        return f"its data are {x.type}"
    if wq.is_per_tensor:
        if weights.dtype is not x.dtype and (weights.data is None or weights.dtype not in _CODES):
            return f"its weights are {weights.type}, its data {x.type}"
    elif (
        not channels
        or weights.dtype is not DType.INT8
        or not wq.is_symmetric
        or wq.block
        or wq.axis != 0
    ):
        return f"its weights are {weights.type}"
    if bias is not None and bias.data is None and not bias.type.has_codes:
        return "its bias is computed at run time"
    return ""


_CODES = frozenset({DType.INT8, DType.UINT8})


def _too_fine(t: Target, x: Value, weights: Value, y: Value) -> str:
    """Below level 3 a result's steps are wider than those of the products."""
    assert x.quant is not None
    assert weights.quant is not None
    assert y.quant is not None
    product = np.float32(x.quant.scale[0]) * np.float32(max(weights.quant.scale))
    if t.level < 3 and np.float32(y.quant.scale[0]) <= product:
        return "the scale of its result isn't above that of its products"
    return ""


def bias_operand(t: Target, w: Weighted, filters: int) -> Ref:
    """The operand of a bias; zeros where there is none.

    With codes: int32 at scale x * weights, which is not stated where each filter has its own.
    """
    if not w.integer:
        if w.bias is None:
            return t.const(np.zeros(filters, w.x.dtype.numpy))
        if w.bias.type.rank == 1:
            return t.operand(w.bias)
        if w.bias.data is None:
            kind = TensorType(w.bias.dtype, (filters,))
            operands = {"input": w.bias, "shape": t.ints([filters])}
            return t.result("RESHAPE", operands, kind)
        return t.const(w.bias.data.reshape(-1), name=w.bias.name)
    assert w.x.quant is not None
    assert w.weights.quant is not None
    products = bias_quant(w.x.quant, w.weights.quant)
    quant = products if products.is_per_tensor else None
    if w.bias is None:
        return t.const(np.zeros(filters, np.int32), quant=quant)
    codes = bias_codes(w.bias, products)
    if codes is not None:
        return t.const(codes, quant=quant, name=w.bias.name)
    own = w.bias.quant
    if own is None or w.bias.dtype is not DType.INT32 or not is_alike(own, products):
        raise t.to_floats("its bias is computed at run time")
    return t.bias(w.bias, TensorType(DType.INT32, (filters,), quant))


def _before_turns(value: Value, perm: Perm) -> Value | None:
    """What was transposed to a value, if ``perm`` takes that back."""
    order, node = perm, value.producer
    while node is not None and isinstance(node.op, Transpose) and node.op.perm is not None:
        first = node.op.perm
        order = tuple(first[i] for i in order)
        if is_sorted(order):
            return node.operand(0)
        node = node.operand(0).producer
    return None


def oriented(t: Target, value: Value, perm: Perm) -> Ref:
    """The operand of weights transposed by ``perm``; constants stay such."""
    before = _before_turns(value, perm)
    if before is not None:
        return t.operand(before)
    if is_sorted(perm):
        return t.operand(value)
    kind = value.type.permuted(perm)
    if value.data is not None:
        turned = np.ascontiguousarray(value.data.transpose(perm))
        return t.const(turned, quant=kind.quant, name=value.name)
    source = constant_behind(value)
    if source is not None and source.data is not None and value.dtype.is_float:
        real: np.ndarray = source.data
        if source.quant is not None:
            real = dequantize(real, source.quant)
        turned = np.ascontiguousarray(real.transpose(perm)).astype(value.dtype.numpy)
        return t.const(turned, name=value.name)
    return t.result("TRANSPOSE", {"input": value, "perm": t.ints(perm)}, kind)
