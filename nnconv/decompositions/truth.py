"""Comparisons, logic and choices of formats that compare by LessEqual alone: truth as numbers.

A truth value becomes 0 or 1 of int32; sums and products of these are compared with constants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import MOST_ELEMENTS, scalar
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import Dim, element_count, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast


def _number(truth: Value, b: Builder) -> Value:
    """0 or 1."""
    return b.add(Cast(dtype=DType.INT32), [truth])


def _operands(node: Node, b: Builder) -> list[Value] | None:
    """The numbers compared, truth values as numbers; None of codes."""
    values = [node.operand(i) for i in range(2)]
    if any(v.type.has_codes for v in values):
        return None
    return [_number(v, b) if v.dtype is DType.BOOL else v for v in values]


def _both_ways(operands: list[Value], b: Builder) -> tuple[Value, Value]:
    """Whether x <= y, and whether y <= x, as numbers: neither holds beside a NaN."""
    there, back = (b.add(e.LessEqual(), sides) for sides in (operands, operands[::-1]))
    return _number(there, b), _number(back, b)


def turned_around(kind: type[e.Comparison]) -> Decomposition:
    """A comparison with its operands exchanged."""

    def decompose(node: Node, b: Builder) -> Sequence[Value] | None:
        operands = _operands(node, b)
        return None if operands is None else [b.add(kind(), operands[::-1])]

    return decompose


def less_by_both_ways(node: Node, b: Builder) -> Sequence[Value] | None:
    """Less: x <= y, and not y <= x."""
    operands = _operands(node, b)
    if operands is None:
        return None
    there, back = _both_ways(operands, b)
    return [b.add(e.LessEqual(), [b.add(e.Add(), [back, scalar(b, 1, back)]), there])]


def equal_by_both_ways(node: Node, b: Builder) -> Sequence[Value] | None:
    """Equal: x <= y and y <= x."""
    operands = _operands(node, b)
    if operands is None:
        return None
    total = b.add(e.Add(), list(_both_ways(operands, b)))
    return [b.add(e.LessEqual(), [scalar(b, 2, total), total])]


def unequal_by_both_ways(node: Node, b: Builder) -> Sequence[Value] | None:
    """NotEqual: not both x <= y and y <= x."""
    operands = _operands(node, b)
    if operands is None:
        return None
    total = b.add(e.Add(), list(_both_ways(operands, b)))
    return [b.add(e.LessEqual(), [total, scalar(b, 1, total)])]


def not_by_number(node: Node, b: Builder) -> Sequence[Value]:
    """LogicalNot: 0 or less."""
    number = _number(node.operand(0), b)
    return [b.add(e.LessEqual(), [number, scalar(b, 0, number)])]


def and_by_product(node: Node, b: Builder) -> Sequence[Value]:
    """LogicalAnd: the product is 1."""
    product = b.add(e.Mul(), [_number(node.operand(i), b) for i in range(2)])
    return [b.add(e.LessEqual(), [scalar(b, 1, product), product])]


def or_by_sum(node: Node, b: Builder) -> Sequence[Value]:
    """LogicalOr: the sum is 1 at least."""
    total = b.add(e.Add(), [_number(node.operand(i), b) for i in range(2)])
    return [b.add(e.LessEqual(), [scalar(b, 1, total), total])]


def choice_of_truths(node: Node, b: Builder) -> Sequence[Value] | None:
    """Select of truth values: of numbers."""
    condition, *sides = (node.operand(i) for i in range(3))
    if sides[0].dtype is not DType.BOOL:
        return None
    chosen = b.add(e.Select(), [condition, *(_number(side, b) for side in sides)])
    return [b.add(e.LessEqual(), [scalar(b, 1, chosen), chosen])]


def choice_by_product(node: Node, b: Builder) -> Sequence[Value] | None:
    """Select of integers: y + condition * (x - y), which wraps around to what it must be."""
    condition, x, y = (node.operand(i) for i in range(3))
    if x.dtype not in (DType.INT32, DType.INT64) or x.type.has_codes:
        return None
    factor = b.add(Cast(dtype=x.dtype), [condition])
    return [b.add(e.Add(), [y, b.add(e.Mul(), [factor, b.add(e.Sub(), [x, y])])])]


def choice_of_two(node: Node, b: Builder) -> Sequence[Value] | None:
    """Select by one condition between values of one shape: the first or second of them, stacked."""
    condition, x, y = (node.operand(i) for i in range(3))
    single = element_count(condition.shape) == 1
    if not single or x.shape is None or x.shape != y.shape or x.type != y.type:
        return None
    if condition.type.rank and condition.type.rank > len(x.shape):
        return None
    place = b.add(s.Reshape(shape=()), [_number(condition, b)])
    return [b.add(Gather(axis=0), [b.add(s.Stack(axis=0), [y, x]), place], quant=x.quant)]


def choice_by_places(node: Node, b: Builder) -> Sequence[Value] | None:
    """Select of known extents: each element is gathered from those of y, followed by those of x."""
    shape = static_shape(node.outputs[0].shape)
    condition, x, y = (node.operand(i) for i in range(3))
    if shape is None or not x.quant == y.quant == node.outputs[0].quant:
        return None
    count = element_count(shape) or 0
    if not 0 < count <= MOST_ELEMENTS:
        return None

    def flat(value: Value) -> Value:
        whole = value
        if value.shape != shape:
            whole = b.add(s.BroadcastTo(shape=shape), [value], quant=value.quant)
        return b.add(s.Reshape(shape=(count,)), [whole], quant=value.quant)

    both = b.add(s.Concat(axis=0), [flat(y), flat(x)], quant=x.quant)
    steps = b.add(e.Mul(), [flat(_number(condition, b)), b.const(np.asarray(count, np.int32))])
    places = b.add(e.Add(), [steps, b.const(np.arange(count, dtype=np.int32))])
    found = b.add(Gather(axis=0), [both, places], quant=x.quant)
    return [b.add(s.Reshape(shape=shape), [found], quant=x.quant)]


def choice_by_rows(node: Node, b: Builder) -> Sequence[Value] | None:
    """Select between rows of known extents, of an open number: as ``choice_by_places`` does.

    The condition is of whole rows, or of elements, which are then the rows. A side may be one row.
    """
    condition, x, y = (node.operand(i) for i in range(3))
    result = node.outputs[0]
    rest = static_shape(result.shape[1:]) if result.shape else None
    if rest is None or not condition.shape or not x.quant == y.quant == result.quant:
        return None
    open_extent = condition.shape[0]
    if len(condition.shape) != len(rest) + 1 or not isinstance(open_extent, str) or 0 in rest:
        return None
    if static_shape(condition.shape[1:]) == rest:
        row: tuple[int, ...] = ()
    elif set(condition.shape[1:]) == {1}:
        row = rest
    else:
        return None
    number = b.add(s.Reshape(shape=(-1,)), [_number(condition, b)])
    count = b.add(s.Reshape(shape=()), [b.add(s.ShapeOf(dims=(0,)), [number])])
    zero, one = (b.const(np.asarray(n, np.int32)) for n in (0, 1))
    order = b.add(s.Range(), [zero, count, one])
    parts, places, before = [], [], zero
    for side in (y, x):
        rows = _rows(side, (open_extent, *rest), row, b)
        if rows is None:
            return None
        is_one = rows.shape is not None and rows.shape[0] == 1
        parts.append(rows)
        places.append(before if is_one else b.add(e.Add(), [order, before]))
        before = one if is_one else count
    steps = b.add(e.Mul(), [number, b.add(e.Sub(), [places[1], places[0]])])
    index = b.add(e.Add(), [steps, places[0]])
    both = b.add(s.Concat(axis=0), parts, quant=x.quant)
    found = b.add(Gather(axis=0), [both, index], quant=x.quant)
    return [b.add(s.Reshape(shape=(-1, *rest)), [found], quant=x.quant)]


def _rows(side: Value, shape: Sequence[Dim], row: tuple[int, ...], b: Builder) -> Value | None:
    """A side of a Select as rows of a shape: as many as there are, or one for all of them."""
    if side.shape is None:
        return None
    if side.shape == tuple(shape):
        return side if row else b.add(s.Reshape(shape=(-1,)), [side], quant=side.quant)
    own = static_shape(side.shape)
    if own is None or (len(own) == len(shape) and own[0] != 1) or len(own) > len(shape):
        return None
    if not row and element_count(own) != 1:
        return None
    if len(own) == len(shape) and row:
        side = b.add(s.Reshape(shape=own[1:]), [side], quant=side.quant)
    elif not row:
        side = b.add(s.Reshape(shape=()), [side], quant=side.quant)
    return b.add(s.BroadcastTo(shape=(1, *row)), [side], quant=side.quant)
