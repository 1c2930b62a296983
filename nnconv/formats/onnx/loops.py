"""Loops of ONNX, Loop and Scan, as While.

It carries a counter, the values that they carry, what each scan output has collected so far, and
what the body captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.graph import GraphImport
from nnconv.formats.onnx.importer import Source
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value
from nnconv.ir.types import TensorType, join_shapes, static_shape
from nnconv.ops.control import While
from nnconv.ops.elementwise import Add, Less, LogicalAnd
from nnconv.ops.shape import Concat, Reshape, ShapeOf, Unsqueeze

COUNTER = TensorType(DType.INT64, ())


@dataclass
class Turn:
    """The body of a loop, imported for certain types of what it carries.

    Attributes:
        scope: its import.
        counter: the number of the turn, from 0.
        before, after: what it carries, as it comes in and goes out.
        collected: what it adds to each scan output.
        go_on: whether there is to be another turn, as it comes in and goes out; None where only
            the counter decides.
    """

    scope: GraphImport
    counter: Value
    before: list[Value]
    after: list[Value]
    collected: list[Value]
    go_on: tuple[Value, Value] | None = None


MakeTurn: TypeAlias = "Callable[[Sequence[TensorType]], Turn]"


def like(value: Value) -> Value:
    """A value of the same name and type for another graph."""
    return Value(value.name, value.type, origin=value.origin)


@dataclass
class _Slots:
    """The values that a While carries: what it starts with, and their place in both bodies."""

    first: list[Value] = field(default_factory=list)
    asked: list[Value] = field(default_factory=list)
    before: list[Value] = field(default_factory=list)
    after: list[Value] = field(default_factory=list)

    def add(self, first: Value, before: Value, after: Value) -> Value:
        """Carry one more; gives what the condition sees of it."""
        self.first.append(first)
        self.before.append(before)
        self.after.append(after)
        self.asked.append(like(before))
        return self.asked[-1]


def emit_loop(
    src: Source,
    make: MakeTurn,
    carried: Sequence[Value],
    limit: Value | None,
    condition: Value | None,
) -> list[Value]:
    """The While of a loop; gives the carried values at its end, and the scan outputs."""
    turn = _settled(src, make, carried)
    inside = Builder(turn.scope.graph, origin=src.builder.origin)
    slots = _Slots()
    following = inside.add(Add(), [turn.counter, inside.const(np.ones((), np.int64))])
    counter = slots.add(src.const(np.zeros((), np.int64)), turn.counter, following)
    flag = None
    if turn.go_on is not None:
        assert condition is not None, "a loop asks for what it was given"
        flag = slots.add(
            _scalar(src, condition), turn.go_on[0], _scalar_inside(inside, turn.go_on[1])
        )
    for first, before, after in zip(carried, turn.before, turn.after, strict=True):
        slots.add(first, before, after)
    begun = len(slots.first)
    finish = [_collect(src, slots, element, inside) for element in turn.collected]
    bound = None if limit is None else _scalar(src, limit)
    if bound is not None and bound.data is None:
        turn.scope.capture(bound)
    for outer, inner in turn.scope.captured.items():
        seen = slots.add(outer, inner, inner)
        if outer is bound:
            bound = seen
    turn.scope.graph.name = "body"
    turn.scope.graph.inputs, turn.scope.graph.outputs = slots.before, slots.after
    asks = _condition(slots.asked, counter, bound, flag)
    values = src.add_many(While(), slots.first, bodies=[asks, turn.scope.graph])
    results = list(values[begun - len(carried) : begun])
    rest = iter(values[begun:])
    collected = [one(values[0], rest) for one in finish]
    if limit is not None and limit.data is not None and flag is None:
        count = max(int(limit.data.reshape(-1)[0]), 0)
        for value in collected:
            value.type = value.type.with_shape((count, *(value.shape or ())[1:]))
    return results + collected


def _settled(src: Source, make: MakeTurn, carried: Sequence[Value]) -> Turn:
    """The body, with those extents of what it carries left open that change from turn to turn."""
    types = [v.type for v in carried]
    while True:
        turn = make(types)
        if len(turn.after) != len(types):
            raise src.fail(f"values carried are {len(types)}, its body gives {len(turn.after)}")
        wider = []
        for old, new in zip(types, turn.after, strict=True):
            if old.dtype is not new.dtype:
                raise src.fail(f"`{new.name}` is {new.dtype}, but {old.dtype} in the first turn")
            wider.append(TensorType(old.dtype, join_shapes(old.shape, new.shape), old.quant))
        if wider == types:
            return turn
        types = wider


Finish: TypeAlias = "Callable[[Value, Iterator[Value]], Value]"
"""Makes a scan output, from the number of turns and the results of what was carried for it."""


def _collect(src: Source, slots: _Slots, element: Value, inside: Builder) -> Finish:
    """Carry what a scan output has collected; the element joins it along a new first dimension.

    Where its shape is known at run time only, the elements are carried flat, with their shape.
    """
    shape = static_shape(element.shape)
    if shape is not None:
        empty = src.const(np.zeros((0, *shape), element.dtype.numpy), dtype=element.dtype)
        kind = TensorType(element.dtype, (None, *shape), element.quant)
        before = Value(f"{element.name}/collected", kind)
        one = inside.add(Unsqueeze(axes=(0,)), [element])
        slots.add(empty, before, inside.add_typed(Concat(axis=0), [before, one], [kind])[0])
        return lambda _, results: next(results)
    rank = src.rank(element)
    empty = src.const(np.zeros((0,), element.dtype.numpy), dtype=element.dtype)
    kind = TensorType(element.dtype, (None,), element.quant)
    before = Value(f"{element.name}/collected", kind)
    one = inside.add(Reshape(shape=(-1,)), [element])
    slots.add(empty, before, inside.add_typed(Concat(axis=0), [before, one], [kind])[0])
    extents = TensorType(DType.INT64, (rank,))
    last = Value(f"{element.name}/shape", extents)
    nothing = src.const(np.zeros((rank,), np.int64))
    slots.add(nothing, last, inside.add(ShapeOf(dtype=DType.INT64), [element]))

    def finish(turns: Value, results: Iterator[Value]) -> Value:
        flat, dims = next(results), next(results)
        count = src.add(Reshape(shape=(1,)), [turns])
        target = src.add(Concat(axis=0), [count, dims])
        value = src.add(Reshape(shape=None), [flat, target])
        value.type = value.type.with_shape((None, *(element.shape or ())))
        return value

    return finish


def _scalar(src: Source, value: Value) -> Value:
    if value.shape == ():
        return value
    if value.data is not None:
        if value.data.size != 1:
            raise src.fail(f"`{value.name}` has {plural(value.data.size, 'element')}, must have 1")
        return src.const(value.data.reshape(()), value.name)
    return src.add(Reshape(shape=()), [value])


def _scalar_inside(builder: Builder, value: Value) -> Value:
    return value if value.shape == () else builder.add(Reshape(shape=()), [value])


def _condition(
    inputs: list[Value], counter: Value, limit: Value | None, flag: Value | None
) -> Graph:
    graph = Graph("condition")
    graph.inputs = inputs
    builder = Builder(graph)
    if limit is None:
        graph.outputs = [flag or builder.const(np.ones((), np.bool_))]
        return graph
    below = builder.add(Less(), [counter, limit])
    graph.outputs = [below if flag is None else builder.add(LogicalAnd(), [below, flag])]
    return graph
