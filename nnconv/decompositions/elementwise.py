"""Elementwise ops by simpler ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.bits import bitwise_xor
from nnconv.decompositions.constants import scalar
from nnconv.decompositions.floats import of_integers
from nnconv.decompositions.integers import divide, power
from nnconv.decompositions.plain import (
    cos_by_sin,
    gelu_by_parts,
    hard_swish_by_clip,
    leaky_relu_by_slope,
    rest_of_quotient,
    sign_by_clip,
    square_of_difference,
    zeros_of_shape,
)
from nnconv.decompositions.unsigned import quotient, remainder
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import BroadcastTo, Identity


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def ceil_by_floor(node: Node, b: Builder) -> Sequence[Value] | None:
    """-floor(-x)."""
    (x,) = _operands(node)
    return [b.add(e.Neg(), [b.add(e.Floor(), [b.add(e.Neg(), [x])])])]


_HALF_STEPS = 8388608.0
"""From 2**23 on float32 has no fractions; adding it to smaller numbers rounds them to even."""


def round_by_adding(node: Node, b: Builder) -> Sequence[Value] | None:
    """(|x| + 2**23) - 2**23 with the sign of x, where |x| is below 2**23; else x."""
    (x,) = _operands(node)
    if x.dtype is not DType.FLOAT32:
        return None
    size = b.add(e.Abs(), [x])
    limit = scalar(b, _HALF_STEPS, x)
    whole = b.add(e.Sub(), [b.add(e.Add(), [size, limit]), limit])
    signed = b.add(e.Mul(), [whole, b.add(e.Sign(), [x])])
    return [b.add(e.Select(), [b.add(e.Less(), [size, limit]), signed, x])]


def abs_by_greatest(node: Node, b: Builder) -> Sequence[Value] | None:
    """The greater of x and -x; integers without signs are as they were."""
    (x,) = _operands(node)
    if x.type.has_codes:
        return None
    if x.dtype.is_integer and not x.dtype.is_signed:
        return [b.add_typed(Identity(), [x], [x.type])[0]]
    return [b.add(e.Maximum(), [x, b.add(e.Neg(), [x])])]


def opposite_by_product(node: Node, b: Builder) -> Sequence[Value] | None:
    """Neg: -1 times x."""
    (x,) = _operands(node)
    if x.type.has_codes or not (x.dtype.is_float or x.dtype.is_signed):
        return None
    return [b.add(e.Mul(), [x, scalar(b, -1, x)])]


def least_by_greatest(node: Node, b: Builder) -> Sequence[Value] | None:
    """Minimum of floats: the opposite of the greatest opposite."""
    operands = _operands(node)
    if not all(v.dtype.is_float for v in operands):
        return None
    turned = [b.add(e.Neg(), [v]) for v in operands]
    return [b.add(e.Neg(), [b.add(e.Maximum(), turned)])]


def elu_by_exp(node: Node, b: Builder) -> Sequence[Value] | None:
    """max(x, 0) + alpha * (exp(min(x, 0)) - 1)."""
    op = node.op
    assert isinstance(op, e.Elu)
    (x,) = _operands(node)
    zero = scalar(b, 0.0, x)
    rise = b.add(e.Sub(), [b.add(e.Exp(), [b.add(e.Minimum(), [x, zero])]), scalar(b, 1.0, x)])
    if op.alpha != 1.0:
        rise = b.add(e.Mul(), [rise, scalar(b, op.alpha, x)])
    return [b.add(e.Add(), [b.add(e.Maximum(), [x, zero]), rise])]


def square_by_product(node: Node, b: Builder) -> Sequence[Value] | None:
    """X * x, of integers."""
    (x,) = _operands(node)
    return [b.add(e.Mul(), [x, x])] if x.dtype.is_integer and not x.type.has_codes else None


def spread(node: Node, b: Builder) -> Sequence[Value] | None:
    """The op on operands of the result's shape."""
    shape = static_shape(node.outputs[0].shape)
    operands = _operands(node)
    if shape is None or all(x.shape == shape for x in operands):
        return None
    whole = [x if x.shape == shape else b.add(BroadcastTo(shape=shape), [x]) for x in operands]
    return [b.add(node.op, whole)]


def angle_by_polynomial(node: Node, b: Builder) -> Sequence[Value] | None:
    """Atan2 of float32, within 3e-7: of the lesser by the greater side, then by octant.

    The quotient t in 0 ... 1 becomes (t - 1) / (t + 1) above tan(pi / 8), whose angle is pi / 4
    less; below it the series of the arcus tangent is cut off after t**9, its coefficients fitted.
    Zeros count as positive.
    """
    y, x = _operands(node)
    if y.dtype is not DType.FLOAT32:
        return None

    def number(value: float) -> Value:
        return scalar(b, value, y)

    up, across = (b.add(e.Abs(), [v]) for v in (y, x))
    low, high = b.add(e.Minimum(), [up, across]), b.add(e.Maximum(), [up, across])
    same = b.add(e.Equal(), [low, high])  # also where both are 0, or infinite
    ratio = b.add(e.Div(), [low, b.add(e.Select(), [same, number(1), high])])
    at_zero = b.add(e.Equal(), [high, number(0)])
    diagonal = b.add(e.Select(), [at_zero, number(0), number(1)])
    ratio = b.add(e.Select(), [same, diagonal, ratio])
    steep = b.add(e.Greater(), [ratio, number(math.tan(math.pi / 8))])
    parts = [b.add(op, [ratio, number(1)]) for op in (e.Sub(), e.Add())]
    t = b.add(e.Select(), [steep, b.add(e.Div(), parts), ratio])
    square = b.add(e.Mul(), [t, t])
    series = number(_SERIES[0])
    for coefficient in _SERIES[1:]:
        series = b.add(e.Add(), [b.add(e.Mul(), [series, square]), number(coefficient)])
    angle = b.add(e.Add(), [t, b.add(e.Mul(), [b.add(e.Mul(), [series, square]), t])])
    start = b.add(e.Select(), [steep, number(math.pi / 4), number(0)])
    angle = b.add(e.Add(), [angle, start])
    for condition, whole in (
        (b.add(e.Greater(), [up, across]), math.pi / 2),
        (b.add(e.Less(), [x, number(0)]), math.pi),
        (b.add(e.Less(), [y, number(0)]), 0.0),
    ):
        angle = b.add(e.Select(), [condition, b.add(e.Sub(), [number(whole), angle]), angle])
    return [angle]


_SERIES = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


def prelu_by_extremes(node: Node, b: Builder) -> Sequence[Value] | None:
    """max(x, 0) + slope * min(x, 0)."""
    x, slope = _operands(node)
    zero = scalar(b, 0.0, x)
    below = b.add(e.Mul(), [b.add(e.Minimum(), [x, zero]), slope])
    return [b.add(e.Add(), [b.add(e.Maximum(), [x, zero]), below])]


def add_by_pairs(node: Node, b: Builder) -> Sequence[Value] | None:
    """One Add after the other."""
    first, *rest = _operands(node)
    if not rest:
        return [b.add_typed(Identity(), [first], [first.type])[0]]
    return [reduce(lambda total, term: b.add(e.Add(), [total, term]), rest, first)]


def unchanged(node: Node, b: Builder) -> Sequence[Value] | None:
    """The operand, where the bounds let all its numbers through."""
    op, (x,) = node.op, _operands(node)
    assert isinstance(op, e.Clip)
    y = node.outputs[0]
    if x.type != y.type:
        return None
    if x.dtype.is_integer and not x.type.has_codes:
        least, most = x.dtype.int_range
        if op.low > least or op.high < most:
            return None
    return [b.add_typed(Identity(), [x], [y.type])[0]]


def clip_of_unsigned(node: Node, b: Builder) -> Sequence[Value] | None:
    """Maximum, then Minimum: bounds that no number of the type is beyond do nothing."""
    op, (x,) = node.op, _operands(node)
    assert isinstance(op, e.Clip)
    if x.dtype is not DType.UINT64:
        return None
    result, (least, most) = x, x.dtype.int_range
    for form, bound in ((e.Maximum(), math.ceil(max(op.low, least))), (e.Minimum(), op.high)):
        if least < bound < most:
            limit = b.const(np.asarray(math.floor(bound), x.dtype.numpy))
            result = b.add(form, [result, limit])
    return [result if result is not x else b.add_typed(Identity(), [x], [x.type])[0]]


def floor_of_quotient(node: Node, b: Builder) -> Sequence[Value] | None:
    """FloorDiv: of integers the quotient toward zero, less 1 where a rest of other sign is left."""
    dividend, divisor = node.operand(0), node.operand(1)
    quotient = b.add(e.Div(), [dividend, divisor])
    if dividend.dtype.is_float:
        return [b.add(e.Floor(), [quotient])]
    rest = b.add(e.Sub(), [dividend, b.add(e.Mul(), [quotient, divisor])])
    zero = scalar(b, 0, dividend)
    signs = [b.add(e.Less(), [side, zero]) for side in (rest, divisor)]
    differ = b.add(e.NotEqual(), [b.add(Cast(dtype=DType.INT32), [sign]) for sign in signs])
    down = b.add(e.LogicalAnd(), [b.add(e.NotEqual(), [rest, zero]), differ])
    return [b.add(e.Sub(), [quotient, b.add(Cast(dtype=dividend.dtype), [down])])]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    e.Ceil: (of_integers, ceil_by_floor),
    e.Round: (of_integers, round_by_adding),
    e.Abs: (abs_by_greatest,),
    e.Neg: (opposite_by_product,),
    e.Minimum: (least_by_greatest,),
    e.Atan2: (spread, angle_by_polynomial),
    e.Square: (square_by_product,),
    e.Elu: (of_integers, elu_by_exp),
    e.PRelu: (prelu_by_extremes,),
    e.AddN: (add_by_pairs,),
    e.Clip: (unchanged, clip_of_unsigned),
    e.Div: (quotient, divide),
    e.FloorDiv: (quotient, floor_of_quotient),
    e.FloorMod: (remainder, rest_of_quotient),
    e.Pow: (power,),
    e.BitwiseXor: (bitwise_xor,),
    e.HardSwish: (hard_swish_by_clip,),
    e.Sign: (sign_by_clip,),
    e.SquaredDifference: (square_of_difference,),
    e.LeakyRelu: (leaky_relu_by_slope,),
    e.Gelu: (gelu_by_parts,),
    e.ZerosLike: (zeros_of_shape,),
    e.Cos: (cos_by_sin,),
}
