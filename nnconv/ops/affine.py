"""Codes that plain arithmetic widens to real numbers, or makes of such.

It stands in the place of Dequantize and Quantize where a format has none for a type.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant
from nnconv.ops.elementwise import Add, Clip, Div, Mul, Round, Sub
from nnconv.ops.quantize import Bitcast, Cast

CODES = frozenset(
    {DType.INT4, DType.UINT4, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32}
)


class Widened(NamedTuple):
    """(codes - zero point) * scale.

    Attributes:
        codes: the stored numbers, with the parameters that they have before they are taken for
            mere numbers, if they have some.
        quant: the parameters.
        cast: the node that makes floats of them.
        inner: what else comes before the product: the Sub, if there is one.
    """

    codes: Value
    quant: Quant
    cast: Node
    inner: Node | None


def widened(node: Node) -> Widened | None:
    """What a product of floats is of codes, if it is that."""
    op, y = node.op, node.outputs[0]
    if not isinstance(op, Mul) or op.activation is not Activation.NONE or y.quant is not None:
        return None
    if y.dtype is not DType.FLOAT32:
        return None
    for value, scale in (node.inputs, node.inputs[::-1]):
        if value is None or scale is None or scale.data is None or value.shape != y.shape:
            continue
        found = _widened(value, scale)
        if found is not None:
            return found
    return None


def _widened(value: Value, scale: Value) -> Widened | None:
    maker, points, inner = value.producer, None, None
    if maker is not None and isinstance(maker.op, Sub):
        if maker.op.activation is not Activation.NONE:
            return None
        inner = maker
        before, points = maker.inputs
        if before is None or points is None or points.data is None or before.shape != value.shape:
            return None
        maker = before.producer
    if maker is None or not isinstance(maker.op, Cast):
        return None
    codes = maker.inputs[0]
    if codes is None or codes.dtype not in CODES or maker.outputs[0].dtype is not DType.FLOAT32:
        return None
    quant = _parameters(codes, scale, points)
    reread = codes.producer
    if reread is not None and isinstance(reread.op, Bitcast) and codes.quant is None:
        source = reread.inputs[0]
        codes = source if source is not None and source.dtype is codes.dtype else codes
    return None if quant is None else Widened(codes, quant, maker, inner)


class Narrowed(NamedTuple):
    """Codes of real numbers: round(x / scale) + zero point, within the range of their type.

    Attributes:
        x: the real numbers.
        quant: the parameters.
    """

    x: Value
    quant: Quant


def narrowed(node: Node) -> Narrowed | None:
    """What a Cast makes codes of, if it does."""
    op, y = node.op, node.outputs[0]
    if not isinstance(op, Cast) or op.dtype not in CODES or y.quant is not None:
        return None
    clip = _maker(node, Clip)
    if clip is None or (clip.op.low, clip.op.high) != op.dtype.int_range:  # type: ignore[attr-defined]
        return None
    added = _maker(clip, Add)
    point = 0.0 if added is None else _number(added)
    quotient = _maker(_maker(added or clip, Round), Div)
    scale = _number(quotient)
    if quotient is None or point is None or scale is None or not 0 < scale < math.inf:
        return None
    x = quotient.operand(0)
    single = _maker(quotient, Cast)
    if single is not None and x.dtype is DType.FLOAT64:
        x = single.operand(0)
    if x.dtype is not DType.FLOAT32 or x.shape != y.shape or point != round(point):
        return None
    low, high = op.dtype.int_range
    return Narrowed(x, Quant.per_tensor(scale, int(point))) if low <= point <= high else None


def _maker(node: Node | None, kind: type[Op]) -> Node | None:
    """What makes a node's first operand, if it is of a kind."""
    value = None if node is None or not node.inputs else node.inputs[0]
    maker = None if value is None else value.producer
    return maker if maker is not None and isinstance(maker.op, kind) else None


def _number(node: Node | None) -> float | None:
    """The constant number that is a node's second operand."""
    value = None if node is None else node.operand(1)
    if node is None or value is None or value.data is None or value.data.size != 1:
        return None
    if getattr(node.op, "activation", None) is not Activation.NONE:
        return None
    return float(value.data.flat[0])


def _parameters(codes: Value, scale: Value, points: Value | None) -> Quant | None:
    """The parameters that constants broadcast to, one each or one an index of a dimension."""
    assert scale.data is not None
    if scale.dtype is not DType.FLOAT32 or codes.shape is None:
        return None
    given = [scale.data] if points is None or points.data is None else [scale.data, points.data]
    scales, *rest = [array.astype(np.float64) for array in given]
    zero = rest[0] if rest else np.zeros(())
    if not (np.all(np.isfinite(scales)) and np.all(scales > 0) and np.all(zero == np.rint(zero))):
        return None
    low, high = codes.dtype.int_range
    if zero.size and (zero.min() < low or zero.max() > high):
        return None
    if scales.size == zero.size == 1:
        return Quant.per_tensor(float(scales.flat[0]), int(zero.flat[0]))
    rank = len(codes.shape)
    axes = {a for array in (scales, zero) for a in _axes(array, rank)}
    if len(axes) != 1:
        return None
    (axis,) = axes
    extent = codes.shape[axis]
    if not isinstance(extent, int):
        return None
    return Quant(
        scale=tuple(np.resize(scales, extent).tolist()),
        zero_point=tuple(int(p) for p in np.resize(zero, extent)),
        axis=axis,
    )


def _axes(array: np.ndarray, rank: int) -> list[int]:
    """The dimensions of more than one element, counted in a tensor of this rank."""
    return [rank - array.ndim + i for i, extent in enumerate(array.shape) if extent != 1]
