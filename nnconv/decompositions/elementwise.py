"""Elementwise ops by simpler ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.bits import bitwise_xor, shift_by_division, xor_by_table
from nnconv.decompositions.constants import HALF_STEPS, round_small, scalar
from nnconv.decompositions.floats import of_integers
from nnconv.decompositions.integers import divide, power, toward_zero
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
from nnconv.decompositions.series import log_by_series, sine_by_series
from nnconv.decompositions.truth import (
    and_by_product,
    choice_by_places,
    choice_by_product,
    choice_by_rows,
    choice_of_truths,
    choice_of_two,
    equal_by_both_ways,
    less_by_both_ways,
    not_by_number,
    or_by_sum,
    turned_around,
    unequal_by_both_ways,
)
from nnconv.decompositions.unsigned import quotient, remainder
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import dequantize
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast, LooseCast
from nnconv.ops.shape import BroadcastTo, Identity, Unsqueeze


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def ceil_by_floor(node: Node, b: Builder) -> Sequence[Value] | None:
    """-floor(-x)."""
    (x,) = _operands(node)
    return [b.add(e.Neg(), [b.add(e.Floor(), [b.add(e.Neg(), [x])])])]


def round_by_adding(node: Node, b: Builder) -> Sequence[Value] | None:
    """(|x| + 2**23) - 2**23 with the sign of x, where |x| is below 2**23; else x."""
    (x,) = _operands(node)
    if x.dtype is not DType.FLOAT32:
        return None
    size = b.add(e.Abs(), [x])
    limit = scalar(b, HALF_STEPS, x)
    whole = b.add(e.Sub(), [b.add(e.Add(), [size, limit]), limit])
    signed = b.add(e.Mul(), [whole, b.add(e.Sign(), [x])])
    return [b.add(e.Select(), [b.add(e.Less(), [size, limit]), signed, x])]


def round_of_bounded(node: Node, b: Builder) -> Sequence[Value] | None:
    """(x + 3 * 2**22) - 3 * 2**22, of what a Clip has brought within 2**22."""
    (x,) = _operands(node)
    bounds = x.producer.op if x.producer is not None else None
    if x.dtype is not DType.FLOAT32 or not isinstance(bounds, e.Clip):
        return None
    if max(-bounds.low, bounds.high) > HALF_STEPS / 2:
        return None
    return [round_small(x, b)]


def abs_by_greatest(node: Node, b: Builder) -> Sequence[Value] | None:
    """The greater of x and -x; integers without signs are as they were."""
    (x,) = _operands(node)
    if x.type.has_codes:
        return None
    if x.dtype.is_integer and not x.dtype.is_signed:
        return [b.add_typed(Identity(), [x], [x.type])[0]]
    both = [x, b.add(e.Neg(), [x])]
    if b.means.extremes or not x.dtype.is_float:
        return [b.add(e.Maximum(), both)]
    return [b.add(e.Add(), [_above_zero(v, b) for v in both])]


def _above_zero(x: Value, b: Builder) -> Value:
    return b.add(e.Clip(low=0.0, high=math.inf), [x])


def greatest_of_zero(node: Node, b: Builder) -> Sequence[Value] | None:
    """Maximum of floats and zeros, where there is no other: what is above 0."""
    a, c = _operands(node)
    for x, bound in ((a, c), (c, a)):
        is_zero = bound.data is not None and not bound.data.any()
        if is_zero and not b.means.extremes and x.dtype.is_float and x.shape is not None:
            return [_above_zero(x, b)] if x.shape == node.outputs[0].shape else None
    return None


def difference_by_sum(node: Node, b: Builder) -> Sequence[Value] | None:
    """Sub of floats: the sum with -1 times what is taken away."""
    op, (x, less) = node.op, _operands(node)
    assert isinstance(op, e.Sub)
    if not x.dtype.is_float:
        return None
    opposite = b.add(e.Mul(), [less, scalar(b, -1, less)])
    return [b.add(e.Add(activation=op.activation), [x, opposite])]


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


def least_by_sum(node: Node, b: Builder) -> Sequence[Value] | None:
    """Minimum of integers: their sum less the greater, which wraps around to what it must be."""
    operands = _operands(node)
    if not all(v.dtype in (DType.INT32, DType.INT64) for v in operands):
        return None
    total = b.add(e.Add(), operands)
    return [b.add(e.Sub(), [total, b.add(e.Maximum(), operands)])]


def floor_by_cut(node: Node, b: Builder) -> Sequence[Value] | None:
    """Floor of float32: by whole numbers of int32, below 2**23; else x, which is whole."""
    (x,) = _operands(node)
    if x.dtype is not DType.FLOAT32:
        return None
    limit = scalar(b, HALF_STEPS, x)
    bounded = b.add(e.Clip(low=-HALF_STEPS, high=HALF_STEPS), [x])
    cut = b.add(Cast(dtype=x.dtype), [b.add(LooseCast(dtype=DType.INT32), [bounded])])
    above = b.add(Cast(dtype=x.dtype), [b.add(e.Less(), [x, cut])])
    whole = b.add(e.Sub(), [cut, above])
    return [b.add(e.Select(), [b.add(e.Less(), [b.add(e.Abs(), [x]), limit]), whole, x])]


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


def exp_by_power(node: Node, b: Builder) -> Sequence[Value] | None:
    """The power of e, which float32 has to 3e-8: so is the result, times abs(x)."""
    (x,) = _operands(node)
    return [b.add(e.Pow(), [scalar(b, math.e, x), x])] if x.dtype.is_float else None


def square_by_product(node: Node, b: Builder) -> Sequence[Value] | None:
    """X * x."""
    (x,) = _operands(node)
    return None if x.type.has_codes else [b.add(e.Mul(), [x, x])]


def spread(node: Node, b: Builder) -> Sequence[Value] | None:
    """The op on operands of the result's shape."""
    shape = static_shape(node.outputs[0].shape)
    operands = _operands(node)
    if shape is None or all(x.shape == shape for x in operands):
        return None
    whole = [x if x.shape == shape else b.add(BroadcastTo(shape=shape), [x]) for x in operands]
    return [b.add(node.op, whole)]


def of_one_rank(node: Node, b: Builder) -> Sequence[Value] | None:
    """The op on data that have as many dimensions as the one element beside them."""
    operands, y = _operands(node), node.outputs[0]
    rank = max((x.type.rank or 0 for x in operands), default=0)
    low = [x for x in operands if x.data is None and x.type.rank is not None and x.type.rank < rank]
    if len(operands) != 2 or len(low) != 1:
        return None
    (x,) = low
    axes = tuple(range(rank - (x.type.rank or 0)))
    raised = b.add(Unsqueeze(axes=axes), [x], quant=x.quant)
    pair = [raised if v is x else v for v in operands]
    return [b.add(node.op, pair, quant=y.quant, dtype=y.dtype)]


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
    below = b.add(e.Minimum(), [x, zero])
    for factor in _finite(slope, b):
        below = b.add(e.Mul(), [below, factor])
    return [b.add(e.Add(), [b.add(e.Maximum(), [x, zero]), below])]


def _finite(slope: Value, b: Builder) -> list[Value]:
    """Factors that do what ``slope`` does, but leave 0 as it is: of the greatest number two."""
    data = slope.data
    if data is None or not np.isinf(data).any():
        return [slope]
    most = np.asarray(np.finfo(data.dtype).max)
    first = np.clip(data, -most, most)
    second = np.where(np.isinf(data), most, np.ones((), data.dtype))
    return [b.const(factor, dtype=slope.dtype) for factor in (first, second)]


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
    least, most = (-math.inf, math.inf) if x.dtype.is_float else x.dtype.int_range
    if x.quant is not None:
        if not x.quant.is_per_tensor:
            return None
        ends = np.asarray([least, most], x.dtype.numpy)
        least, most = (float(end) for end in dequantize(ends, x.quant))
    if op.low > least or op.high < most:
        return None
    return [b.add_typed(Identity(), [x], [y.type])[0]]


def clip_by_extremes(node: Node, b: Builder) -> Sequence[Value] | None:
    """Clip of floats: the greater of x and the lower bound, the lesser of that and the upper."""
    op, (x,) = node.op, _operands(node)
    assert isinstance(op, e.Clip)
    if not x.dtype.is_float or (not b.means.extremes and (op.low, op.high) == (0, math.inf)):
        return None
    result = x
    for form, bound in ((e.Maximum(), op.low), (e.Minimum(), op.high)):
        if math.isfinite(bound):
            result = b.add(form, [result, scalar(b, bound, x)])
    return [result] if result is not x else None


def clip_of_integers(node: Node, b: Builder) -> Sequence[Value] | None:
    """Maximum, then Minimum: bounds that no number of the type is beyond do nothing."""
    op, (x,) = node.op, _operands(node)
    assert isinstance(op, e.Clip)
    if not x.dtype.is_integer or x.type.has_codes:
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
    e.Floor: (of_integers, floor_by_cut),
    e.Round: (of_integers, round_of_bounded, round_by_adding),
    e.Abs: (abs_by_greatest,),
    e.Neg: (opposite_by_product,),
    e.Add: (of_one_rank,),
    e.Sub: (of_one_rank, difference_by_sum),
    e.Mul: (of_one_rank,),
    e.Maximum: (of_one_rank, greatest_of_zero),
    e.Minimum: (of_one_rank, least_by_greatest, least_by_sum),
    e.Less: (less_by_both_ways,),
    e.Greater: (turned_around(e.Less),),
    e.GreaterEqual: (turned_around(e.LessEqual),),
    e.Equal: (equal_by_both_ways,),
    e.NotEqual: (unequal_by_both_ways,),
    e.LogicalNot: (not_by_number,),
    e.LogicalAnd: (and_by_product,),
    e.LogicalOr: (or_by_sum,),
    e.Select: (
        choice_of_truths,
        choice_by_product,
        choice_of_two,
        choice_by_places,
        choice_by_rows,
    ),
    e.Atan2: (spread, angle_by_polynomial),
    e.Square: (square_by_product,),
    e.Elu: (of_integers, elu_by_exp),
    e.Exp: (of_integers, exp_by_power),
    e.PRelu: (prelu_by_extremes,),
    e.AddN: (add_by_pairs,),
    e.Clip: (unchanged, clip_of_integers, clip_by_extremes),
    e.Div: (of_one_rank, quotient, divide, toward_zero),
    e.FloorDiv: (quotient, floor_of_quotient),
    e.FloorMod: (remainder, rest_of_quotient),
    e.Pow: (of_one_rank, power),
    e.BitwiseXor: (bitwise_xor, xor_by_table),
    e.RightShift: (shift_by_division,),
    e.HardSwish: (hard_swish_by_clip,),
    e.Sign: (sign_by_clip,),
    e.SquaredDifference: (of_one_rank, square_of_difference),
    e.LeakyRelu: (leaky_relu_by_slope,),
    e.Gelu: (gelu_by_parts,),
    e.ZerosLike: (zeros_of_shape,),
    e.Cos: (cos_by_sin,),
    e.Log: (of_integers, log_by_series),
    e.Sin: (sine_by_series,),
}
