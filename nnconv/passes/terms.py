"""What a value is of another one: a product of factors, or two straight lines that meet at 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import dequantize
from nnconv.ops.elementwise import (
    Abs,
    Add,
    Clip,
    Div,
    LeakyRelu,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Pow,
    Square,
    Sub,
)
from nnconv.ops.rewrite import constant_behind

MOST_FACTORS = 6
"""Longer products are none that have a name."""

DEPTH = 5
"""How many ops a function made of straight lines takes."""

_GREATEST_POWER = 3


def is_plain(value: Value | None) -> bool:
    """Whether a value is of floats that stand for themselves."""
    return value is not None and value.quant is None and value.dtype.is_float


def made_by(value: Value | None, *kinds: type[Op]) -> Node | None:
    """The node that makes a value, if it is of one of these kinds without an activation."""
    node = None if value is None else value.producer
    if node is None or not isinstance(node.op, kinds) or not is_plain(node.outputs[0]):
        return None
    return node if getattr(node.op, "activation", Activation.NONE) is Activation.NONE else None


def number_of(value: Value | None) -> float | None:
    """A float constant's element, if all of its elements are one number; or what one code means."""
    if value is None or not is_plain(value):
        return None
    if value.data is None:
        source = constant_behind(value)
        if source is None or source.data is None or source.data.size != 1:
            return None
        known = source.data if source.quant is None else dequantize(source.data, source.quant)
        return float(known.reshape(-1)[0])
    if not value.data.size:
        return None
    first = value.data.reshape(-1)[0]
    if value.data.size > 1 and not bool(np.all(value.data == first)):
        return None
    return float(first)


class Product(NamedTuple):
    """A number times values.

    Attributes:
        number: the constant factor.
        factors: the others, each as often as it counts.
        nodes: the ops between those and the product.
    """

    number: float
    factors: list[Value]
    nodes: list[Node]

    def others(self, x: Value) -> list[Value] | None:
        """The factors without ``x`` (once); None if it is none of them."""
        if x not in self.factors:
            return None
        rest = list(self.factors)
        rest.remove(x)
        return rest


def product_of(value: Value) -> Product | None:
    """A value as a product; None if it is a long one. A value that isn't one is its one factor."""
    number, open_values = 1.0, [value]
    factors: list[Value] = []
    nodes: list[Node] = []
    while open_values:
        if len(factors) + len(open_values) > MOST_FACTORS:
            return None
        current = open_values.pop()
        taken = _taken_apart(current)
        if taken is None:
            factors.append(current)
            continue
        more, times = taken
        number *= times
        open_values += more
        assert current.producer is not None
        nodes.append(current.producer)
    return Product(number, factors, nodes)


def _taken_apart(value: Value) -> tuple[list[Value], float] | None:
    """The operands of what makes a product or power, and the constant factor beside them."""
    node = value.producer
    if node is None or not is_plain(value):
        return None
    if isinstance(node.op, Neg):
        (x,) = node.inputs
        return None if x is None else ([x], -1.0)
    if isinstance(node.op, Square):
        (x,) = node.inputs
        return None if x is None else ([x, x], 1.0)
    if not isinstance(node.op, Mul | Div | Pow) or _is_clamped(node.op):
        return None
    a, b = (node.operand(i) for i in range(2))
    known = number_of(b)
    if known is not None and b.type.rank is not None and b.type.rank > (a.type.rank or 0):
        return None  # it also gives the result its shape
    if isinstance(node.op, Pow):
        whole = known is not None and known == int(known) and 2 <= known <= _GREATEST_POWER
        return ([a] * int(known), 1.0) if whole and known is not None else None
    if isinstance(node.op, Div):
        return ([a], 1 / known) if known else None
    if known is not None:
        return [a], known
    known = number_of(a)
    if known is not None and (a.type.rank or 0) <= (b.type.rank or 0):
        return [b], known
    return [a, b], 1.0


def _is_clamped(op: Op) -> bool:
    return getattr(op, "activation", Activation.NONE) is not Activation.NONE


class Slopes(NamedTuple):
    """A function of x that is ``above`` * x for positive x and ``below`` * x for negative x."""

    above: np.ndarray
    below: np.ndarray


class Lines(NamedTuple):
    """Such a function, of which value it is, and the ops that make it."""

    x: Value
    slopes: Slopes
    nodes: list[Node]


def lines_of(node: Node) -> Lines | None:
    """A node's result as such a function of a value that it reads in more than one way."""
    for x in _forks(node):
        nodes: list[Node] = []
        slopes = _slopes(node.outputs[0], x, nodes, DEPTH)
        if slopes is not None:
            return Lines(x, slopes, nodes)
    return None


def _forks(node: Node) -> list[Value]:
    """The values that are met in more than one way, going back from a node; nearest first."""
    met: dict[Value, int] = {}
    steps = [node]
    for _ in range(DEPTH):
        following = []
        for step in steps:
            for value in step.inputs:
                if value is None or value.data is not None:
                    continue
                met[value] = met.get(value, 0) + 1
                maker = value.producer
                if met[value] == 1 and maker is not None and type(maker.op) in _RULES:
                    following.append(maker)
        steps = following[:MOST_FACTORS]
    return [value for value, times in met.items() if times > 1 and is_plain(value)][:3]


def _slopes(value: Value, x: Value, nodes: list[Node], depth: int) -> Slopes | None:
    if value is x:
        one = np.ones((), np.float64)
        return Slopes(one, one)
    node = value.producer
    rule = None if node is None else _RULES.get(type(node.op))
    if node is None or rule is None or depth == 0 or not is_plain(value) or _is_clamped(node.op):
        return None
    if value.shape != x.shape:
        return None
    found = rule(node, lambda v: _slopes(v, x, nodes, depth - 1))
    if found is not None and node not in nodes:
        nodes.append(node)
    return found


_Look = Callable[[Value], "Slopes | None"]


def _both(node: Node) -> tuple[Value, Value]:
    a, b = (node.operand(i) for i in range(2))
    return a, b


def _times(found: Slopes | None, factor: np.ndarray) -> Slopes | None:
    if found is None:
        return None
    with np.errstate(invalid="ignore"):  # of an infinite factor and a slope of 0
        return Slopes(found.above * factor, found.below * factor)


def _constant(value: Value) -> np.ndarray | None:
    return value.data.astype(np.float64) if value.data is not None and is_plain(value) else None


def _of_product(node: Node, look: _Look) -> Slopes | None:
    a, b = _both(node)
    factor = _constant(b)
    if factor is not None:
        return _times(look(a), factor)
    factor = _constant(a)
    return None if factor is None else _times(look(b), factor)


def _of_quotient(node: Node, look: _Look) -> Slopes | None:
    a, b = _both(node)
    divisor = _constant(b)
    if divisor is None or not bool(np.all(divisor)):
        return None
    return _times(look(a), 1 / divisor)


def _of_negative(node: Node, look: _Look) -> Slopes | None:
    return _times(look(node.operand(0)), np.full((), -1.0))


def _of_clip(node: Node, look: _Look) -> Slopes | None:
    op = node.op
    assert isinstance(op, Clip)
    found = look(node.operand(0)) if 0 in (op.low, op.high) else None
    if found is None:
        return None
    if (op.low, op.high) == (0, np.inf):
        return Slopes(np.maximum(found.above, 0), np.minimum(found.below, 0))
    if (op.low, op.high) == (-np.inf, 0):
        return Slopes(np.minimum(found.above, 0), np.maximum(found.below, 0))
    return None


def _of_abs(node: Node, look: _Look) -> Slopes | None:
    found = look(node.operand(0))
    return None if found is None else Slopes(np.abs(found.above), -np.abs(found.below))


def _of_leaky(node: Node, look: _Look) -> Slopes | None:
    op, found = node.op, look(node.operand(0))
    assert isinstance(op, LeakyRelu)
    if found is None:
        return None
    above = np.where(found.above >= 0, found.above, found.above * op.alpha)
    below = np.where(found.below <= 0, found.below, found.below * op.alpha)
    return Slopes(above, below)


def _of_sum(node: Node, look: _Look) -> Slopes | None:
    a, b = _both(node)
    first, second = look(a), look(b)
    if first is None or second is None:
        return None
    sign = -1 if isinstance(node.op, Sub) else 1
    return Slopes(first.above + sign * second.above, first.below + sign * second.below)


def _of_extreme(node: Node, look: _Look) -> Slopes | None:
    pair = []
    for value in _both(node):
        zero = number_of(value) == 0
        found = Slopes(np.zeros(()), np.zeros(())) if zero else look(value)
        if found is None:
            return None
        pair.append(found)
    a, b = pair
    if isinstance(node.op, Minimum):
        return Slopes(np.minimum(a.above, b.above), np.maximum(a.below, b.below))
    return Slopes(np.maximum(a.above, b.above), np.minimum(a.below, b.below))


_RULES: dict[type[Op], Callable[[Node, _Look], Slopes | None]] = {
    Mul: _of_product,
    Div: _of_quotient,
    Neg: _of_negative,
    Clip: _of_clip,
    Abs: _of_abs,
    LeakyRelu: _of_leaky,
    Add: _of_sum,
    Sub: _of_sum,
    Maximum: _of_extreme,
    Minimum: _of_extreme,
}
