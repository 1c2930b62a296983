"""Steps of a recurrence as ops of their own: one after another, or as the body of a While.

What of a step doesn't depend on the one before, the product of input and weights, is done for all
steps at once before. Which form is taken, ``is_unrolled`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops.control import While
from nnconv.ops.elementwise import Add, Less, Mul, Select, Sub
from nnconv.ops.gather import Gather
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Concat, Fill, Reshape, ShapeOf, Stack, Unsqueeze
from nnconv.ops.slices import DynamicUpdateSlice, Slice

FEW_STEPS = 4
"""So many steps are always written out."""

MANY_STEPS = 32
"""More steps are never written out: each costs about a kilobyte of file and 15 operators."""

MOST_COPIES = 1 << 18
"""How many recurrent weights the written-out steps may read in all: a runtime packs a copy of them
for each reader, which costs the cache more than the turns of a loop do."""


class Scope:
    """Where a step is being built: among the other nodes, or in the body of a loop.

    Attributes:
        builder: adds nodes there.
        captured: for each value from outside the body its input that stands for it.
    """

    def __init__(self, builder: Builder, *, is_body: bool) -> None:
        self.builder = builder
        self.captured: dict[Value, Value] = {}
        self._is_body = is_body

    def take(self, value: Value) -> Value:
        """What stands for a value of the graph outside."""
        if not self._is_body:
            return value
        found = self.captured.get(value)
        if found is not None:
            return found
        source = constant_behind(value)
        if source is not None and source is not value and value.producer is not None:
            op = value.producer.op
            return self.builder.add_typed(op, [self.take(source)], [value.type])[0]
        found = Value(value.name, value.type, data=value.data, origin=value.origin)
        self.captured[value] = found
        return found


Step: TypeAlias = "Callable[[Scope, Value, list[Value]], list[Value]]"
"""From the step's part of the projected input and the states to the next states; the first is the
result."""


class Run(NamedTuple):
    """What to do with the steps.

    Attributes:
        step: one step.
        reverse: from the last to the first.
        lengths: how many steps of each sequence count [B]; None: all.
        wants_sequence: whether the results of all steps are asked for.
        weights: how many numbers each step's products read.
    """

    step: Step
    reverse: bool
    lengths: Value | None
    wants_sequence: bool
    weights: int


def is_unrolled(steps: Dim, weights: int) -> bool:
    """Whether steps are written out, each of whose products read ``weights`` numbers.

    Measured on LiteRT (XNNPACK, time of TFLite's own op as 1): 50 steps of 128 cells take 0.71
    written out and 0.62 in a loop, 20 of 512 take 1.0 and 0.38, 200 of 32 take 0.71 and 1.56. So a
    loop costs 1 or 2 us a turn, and saves copies of the weights.
    """
    if not isinstance(steps, int):
        return False
    return steps <= FEW_STEPS or (steps <= MANY_STEPS and steps * weights <= MOST_COPIES)


def zeros(b: Builder, dtype: DType, like: Value, dims: Sequence[int | None]) -> Value:
    """Zeros. For each None in ``dims`` the extent is the next element of the vector ``like``."""
    fixed = [d for d in dims if d is not None]
    value = b.const(np.zeros((), dtype.numpy), dtype=dtype)
    if len(fixed) == len(dims):
        if int(np.prod(fixed)) <= 256:
            return b.const(np.zeros(fixed, dtype.numpy), dtype=dtype)
        return b.add(Fill(shape=tuple(fixed)), [value])
    parts: list[Value] = []
    place = 0
    for dim in dims:
        if dim is None:
            parts.append(b.add(Slice(starts=(place,), ends=(place + 1,), strides=(1,)), [like]))
            place += 1
        else:
            parts.append(b.const(np.asarray([dim], np.int32)))
    kind = TensorType(dtype, tuple(dims))
    return b.add_typed(Fill(shape=None), [value, b.add(Concat(axis=0), parts)], [kind])[0]


def run_steps(
    b: Builder, projected: Value, states: Sequence[Value], run: Run
) -> tuple[Value | None, list[Value]]:
    """Run the steps over a projected input [T,B,G]: all results [T,B,H], the last states."""
    steps = projected.shape[0] if projected.shape is not None else None
    if steps == 0:
        return b.const(np.zeros((0, 1, 1), projected.dtype.numpy)), list(states)
    if isinstance(steps, int) and is_unrolled(steps, run.weights):
        return _unrolled(b, projected, steps, states, run)
    return _looped(b, projected, steps, states, run)


def _unrolled(
    b: Builder, projected: Value, steps: int, states: Sequence[Value], run: Run
) -> tuple[Value | None, list[Value]]:
    scope = Scope(b, is_body=False)
    last, results = list(states), []
    pieces = _rows(b, projected, steps)
    for t in reversed(range(steps)) if run.reverse else range(steps):
        after = run.step(scope, pieces[t], last)
        result = after[0]
        if run.lengths is not None:
            result, after = _counted(b, run.lengths, b.const(np.asarray(t, np.int32)), last, after)
        last = after
        results.append(result)
    if not run.wants_sequence:
        return None, last
    if run.reverse:
        results.reverse()
    if steps == 1:
        return b.add(Unsqueeze(axes=(0,)), results), last
    return b.add(Stack(axis=0), results), last


def _rows(b: Builder, x: Value, steps: int) -> list[Value]:
    """x[0], x[1] ...: where the shape is known, parts of x laid out flat."""
    shape = static_shape(x.shape)
    if shape is None:
        return [b.add(Gather(axis=0), [x, b.const(np.asarray(t, np.int32))]) for t in range(steps)]
    batch, depth = shape[1:]
    flat = b.add(Reshape(shape=(-1, depth)), [x])
    if steps == 1:
        return [flat]
    cuts = (
        Slice(starts=(t * batch, 0), ends=((t + 1) * batch, depth), strides=(1, 1))
        for t in range(steps)
    )
    return [b.add(cut, [flat]) for cut in cuts]


def _counted(
    b: Builder, lengths: Value, index: Value, before: Sequence[Value], after: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """The result and the states of a step that counts for some of the sequences only."""
    counts = b.add(Unsqueeze(axes=(1,)), [b.add(Less(), [index, lengths])])
    kept = [b.add(Select(), [counts, new, old]) for new, old in zip(after, before, strict=True)]
    nothing = b.const(np.zeros((1, 1), after[0].dtype.numpy), dtype=after[0].dtype)
    return b.add(Select(), [counts, after[0], nothing]), kept


def _looped(
    b: Builder, projected: Value, steps: Dim, states: Sequence[Value], run: Run
) -> tuple[Value | None, list[Value]]:
    """The steps as turns of a While.

    It carries the number of turns done, the states, the results, and what the body reads.
    """
    body = Graph("turn")
    inner = Builder(body, origin=b.origin)
    scope = Scope(inner, is_body=True)
    number = TensorType(DType.INT32, ())
    if isinstance(steps, int):
        limit = b.const(np.asarray(steps, np.int32))
    else:
        limit = b.add(Reshape(shape=()), [b.add(ShapeOf(dims=(0,)), [projected])])
    first = [b.const(np.zeros((), np.int32)), *states]
    if run.wants_sequence:
        first.append(_room(b, projected, states[0]))
    before = [Value("turn", number), *(Value(v.name, v.type) for v in first[1:])]
    counter, kept = before[0], before[1 : 1 + len(states)]
    index = counter
    if run.reverse:
        one = inner.const(np.ones((), np.int32))
        final = inner.add(Sub(), [scope.take(limit), one])
        index = inner.add(Sub(), [final, counter])
    piece = inner.add(Gather(axis=0), [scope.take(projected), index])
    after = run.step(scope, piece, kept)
    result = after[0]
    if run.lengths is not None:
        result, after = _counted(inner, scope.take(run.lengths), index, kept, after)
    done = inner.add(Add(), [counter, inner.const(np.ones((), np.int32))])
    outputs = [done, *after]
    if run.wants_sequence:
        start = inner.add(Mul(), [index, inner.const(np.asarray([1, 0, 0], np.int32))])
        row = inner.add(Unsqueeze(axes=(0,)), [result])
        outputs.append(inner.add(DynamicUpdateSlice(), [before[-1], row, start]))
    if limit.data is None:
        scope.take(limit)
    captured = [(outer, v) for outer, v in scope.captured.items() if v.data is None]
    body.inputs = [*before, *(v for _, v in captured)]
    body.outputs = [*outputs, *(v for _, v in captured)]
    operands = [*first, *(outer for outer, _ in captured)]
    asks = _condition(body.inputs, operands, limit, b)
    types = While().infer_node([v.type for v in operands], [asks, body])
    results = b.add_typed(While(), operands, types, bodies=[asks, body])
    sequence = results[1 + len(states)] if run.wants_sequence else None
    return sequence, list(results[1 : 1 + len(states)])


def _room(b: Builder, projected: Value, state: Value) -> Value:
    """Zeros of the shape of all results."""
    assert projected.shape is not None
    assert state.shape is not None
    dims = (*projected.shape[:2], state.shape[1])
    known = [d if isinstance(d, int) else None for d in dims]
    extents = projected
    if None in known:
        missing = tuple(i for i, d in enumerate(known) if d is None)
        extents = b.add(ShapeOf(dims=missing), [projected])
    return zeros(b, state.dtype, extents, known)


def _condition(
    inputs: Sequence[Value], operands: Sequence[Value], limit: Value, b: Builder
) -> Graph:
    graph = Graph("condition")
    graph.inputs = [Value(v.name, v.type) for v in inputs]
    builder = Builder(graph, origin=b.origin)
    if limit.data is not None:
        bound = builder.const(limit.data)
    else:
        bound = graph.inputs[operands.index(limit)]
    graph.outputs = [builder.add(Less(), [graph.inputs[0], bound])]
    return graph
