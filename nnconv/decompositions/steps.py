"""Steps of a recurrence as ops of their own: one after another, or as the body of a While.

What of a step doesn't depend on the one before, the product of input and weights, is done for all
steps at once before. Which form is taken, ``is_unrolled`` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops.control import While
from nnconv.ops.elementwise import Add, FloorDiv, Less, Minimum, Mul, Select, Sub
from nnconv.ops.gather import Gather
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Concat, Fill, Reshape, ShapeOf, Stack, Unsqueeze
from nnconv.ops.slices import DynamicUpdateSlice, Reverse, Slice

FEW_STEPS = 2
"""So many steps are always written out."""

MANY_STEPS = 64
"""More steps are never written out: each costs about a kilobyte of file and 15 operators."""

MOST_COPIES = 1 << 18
"""How many recurrent weights the written-out steps may read in all: a runtime packs a copy of them
for each reader, which costs the cache more than the turns of a loop do."""

LONG = 48
"""From so many steps on a loop collects its results in chunks (see ``_in_chunks``)."""

CHUNK = 32
"""The steps of a chunk, where their number isn't known."""


class Scope:
    """Where a step is being built: among the other nodes, or in the body of a loop.

    Attributes:
        builder: adds nodes there.
        captured: for each value from outside the body its input that stands for it.
        inputs: the body's own inputs.
    """

    def __init__(self, builder: Builder, *, is_body: bool, inputs: Sequence[Value] = ()) -> None:
        self.builder = builder
        self.captured: dict[Value, Value] = {}
        self.inputs = inputs
        self._is_body = is_body

    def take(self, value: Value) -> Value:
        """What stands for a value of the graph outside; a value of the body is itself."""
        made = value.producer
        if not self._is_body or value in self.inputs:
            return value
        if made is not None and made.graph is self.builder.graph:
            return value
        found = self.captured.get(value)
        if found is not None:
            return found
        source = constant_behind(value)
        if source is not None and source is not value and made is not None:
            return self.builder.add_typed(made.op, [self.take(source)], [value.type])[0]
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

    Measured on LiteRT (XNNPACK, one thread; ms of an LSTM written out and in a loop): 16 steps of
    64 cells 0.033, 0.059; 64 of 16 cells 0.042, 0.077; 32 of 64 cells 0.112, 0.126; 8 of 256 cells
    0.31, 0.15; 64 of 256 cells 2.9, 1.3. So a loop costs 1 or 2 us a turn, and saves copies of the
    weights. TFLite's own op takes 1.6 times as long as a loop of 128 cells.
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
    """The steps as turns of a While, which carries the states and the results."""
    scope = Scope(b, is_body=False)
    if isinstance(steps, int):
        limit = b.const(np.asarray(steps, np.int32))
    else:
        limit = b.add(Reshape(shape=()), [b.add(ShapeOf(dims=(0,)), [projected])])
    if run.wants_sequence and not (isinstance(steps, int) and steps < LONG):
        return _in_chunks(scope, projected, steps, limit, states, run)
    first = [*states]
    if run.wants_sequence:
        first.append(_room(b, projected, states[0]))

    def turn(s: Scope, counter: Value, before: list[Value]) -> list[Value]:
        index = counter
        if run.reverse:
            index = s.builder.add(Sub(), [_less_one(s, s.take(limit)), counter])
        result, after = _one_step(s, projected, index, before[: len(states)], run)
        if run.wants_sequence:
            after.append(_written(s.builder, before[-1], result, index))
        return after

    results = _while(scope, limit, first, turn)
    return (results[-1] if run.wants_sequence else None), results[: len(states)]


Turn: TypeAlias = "Callable[[Scope, Value, list[Value]], list[Value]]"
"""From the number of turns done and what is carried to what is carried on."""


def _while(scope: Scope, limit: Value, first: Sequence[Value], turn: Turn) -> list[Value]:
    """A While of ``limit`` turns; gives what was carried, at its end."""
    b = scope.builder
    body = Graph("turn")
    given = [b.const(np.zeros((), np.int32)), *first]
    before = [Value("turn", TensorType(DType.INT32, ()))]
    before += [Value(v.name, v.type) for v in first]
    inner = Scope(Builder(body, origin=b.origin), is_body=True, inputs=before)
    after = turn(inner, before[0], before[1:])
    one = inner.builder.const(np.ones((), np.int32))
    done = inner.builder.add(Add(), [before[0], one])
    if limit.data is None:
        inner.take(limit)
    captured = [(outer, v) for outer, v in inner.captured.items() if v.data is None]
    body.inputs = [*before, *(v for _, v in captured)]
    body.outputs = [done, *after, *(v for _, v in captured)]
    asks = Graph("condition")
    asks.inputs = [Value(v.name, v.type) for v in body.inputs]
    builder = Builder(asks, origin=b.origin)
    if limit.data is not None:
        bound = builder.const(limit.data)
    else:
        bound = asks.inputs[body.inputs.index(inner.captured[limit])]
    asks.outputs = [builder.add(Less(), [asks.inputs[0], bound])]
    operands = [*given, *(scope.take(outer) for outer, _ in captured)]
    types = While().infer_node([v.type for v in operands], [asks, body])
    results = b.add_typed(While(), operands, types, bodies=[asks, body])
    return list(results[1 : 1 + len(first)])


def _one_step(
    s: Scope, projected: Value, index: Value, before: list[Value], run: Run
) -> tuple[Value, list[Value]]:
    """The result and the states of step number ``index``."""
    piece = s.builder.add(Gather(axis=0), [s.take(projected), index])
    after = list(run.step(s, piece, before))
    if run.lengths is None:
        return after[0], after
    return _counted(s.builder, s.take(run.lengths), index, before, after)


def _written(b: Builder, room: Value, result: Value, index: Value) -> Value:
    """``room`` with a result [B,H], or several [C,B,H], from row ``index`` on."""
    start = b.add(Mul(), [index, b.const(np.asarray([1, 0, 0], np.int32))])
    rows = result if result.type.rank == 3 else b.add(Unsqueeze(axes=(0,)), [result])
    return b.add(DynamicUpdateSlice(), [room, rows, start])


def _less_one(s: Scope, value: Value) -> Value:
    return s.builder.add(Sub(), [value, s.builder.const(np.ones((), np.int32))])


def _in_chunks(
    scope: Scope, projected: Value, steps: Dim, limit: Value, states: Sequence[Value], run: Run
) -> tuple[Value, list[Value]]:
    """A While of chunks, in each of which a While of steps.

    A turn that writes its result into room for all of them copies all of it: of 1000 steps of 256
    cells that is nine tenths of the time. So a turn writes into room for a chunk, and the chunks
    are put together. Results come in the order of the steps' running, and are turned round at the
    end where that is backward.
    """
    b = scope.builder
    size = math.isqrt(steps - 1) + 1 if isinstance(steps, int) else CHUNK
    length = b.const(np.asarray(size, np.int32))
    if isinstance(steps, int):
        chunks = b.const(np.asarray(-(-steps // size), np.int32))
    else:
        more = b.add(Add(), [limit, b.const(np.asarray(size - 1, np.int32))])
        chunks = b.add(FloorDiv(), [more, length])
    assert projected.shape is not None
    assert states[0].shape is not None
    batch, cells = projected.shape[1], states[0].shape[1]
    rows = -(-steps // size) * size if isinstance(steps, int) else None
    extents = [b.add(Reshape(shape=(1,)), [b.add(Mul(), [chunks, length])])]
    if not isinstance(batch, int):
        extents.append(b.add(ShapeOf(dims=(1,)), [projected]))
    dims = [d if isinstance(d, int) else None for d in (rows, batch, cells)]
    given = extents if rows is None else extents[1:]
    whole = _zeros_of(b, states[0].dtype, given, dims)
    part = _zeros_of(b, states[0].dtype, extents[1:], [size, *dims[1:]])

    def chunk(s: Scope, number: Value, before: list[Value]) -> list[Value]:
        inside = s.builder
        base = inside.add(Mul(), [number, inside.const(np.asarray(size, np.int32))])
        left = inside.add(Sub(), [s.take(limit), base])
        count = inside.add(Minimum(), [left, inside.const(np.asarray(size, np.int32))])

        def turn(t: Scope, counter: Value, carried: list[Value]) -> list[Value]:
            place = t.builder.add(Add(), [t.take(base), counter])
            index = place
            if run.reverse:
                index = t.builder.add(Sub(), [_less_one(t, t.take(limit)), place])
            result, after = _one_step(t, projected, index, carried[:-1], run)
            return [*after, _written(t.builder, carried[-1], result, counter)]

        *after, found = _while(s, count, [*before[:-1], s.take(part)], turn)
        return [*after, _written(inside, before[-1], found, base)]

    *last, sequence = _while(scope, chunks, [*states, whole], chunk)
    if isinstance(steps, int):
        if rows != steps:
            cut = Slice(starts=(0, 0, 0), ends=(steps, None, None), strides=(1, 1, 1))
            sequence = b.add(cut, [sequence])
    else:
        end = [b.add(Reshape(shape=(1,)), [limit]), b.const(np.full(2, _ALL, np.int32))]
        ends = b.add(Concat(axis=0), end)
        cut = Slice(starts=(0, 0, 0), ends=None, strides=(1, 1, 1))
        sequence = b.add(cut, [sequence, None, ends])
        sequence.type = sequence.type.with_shape((projected.shape[0], batch, cells))
    if run.reverse:
        sequence = b.add(Reverse(axes=(0,)), [sequence])
    return sequence, last


_ALL = np.iinfo(np.int32).max


def _room(b: Builder, projected: Value, state: Value) -> Value:
    """Zeros of the shape of all results."""
    assert projected.shape is not None
    assert state.shape is not None
    dims = (*projected.shape[:2], state.shape[1])
    known = [d if isinstance(d, int) else None for d in dims]
    missing = tuple(i for i, d in enumerate(known) if d is None)
    extents = [b.add(ShapeOf(dims=missing), [projected])] if missing else []
    return _zeros_of(b, state.dtype, extents, known)


def _zeros_of(
    b: Builder, dtype: DType, extents: Sequence[Value], dims: Sequence[int | None]
) -> Value:
    """Zeros; ``extents`` are vectors that have the extents for the Nones together."""
    like = b.const(np.zeros((0,), np.int32))
    if extents:
        like = extents[0] if len(extents) == 1 else b.add(Concat(axis=0), list(extents))
    return zeros(b, dtype, like, dims)
