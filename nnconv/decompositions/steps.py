"""Steps of a recurrence as ops of their own: one after another, or as the body of a While.

What of a step doesn't depend on the one before, the product of input and weights, is done for all
steps at once before. Which form is taken, ``is_unrolled`` says; where a format has no loops and the
number of steps is known, all are written out.
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
from nnconv.ops.elementwise import Add, FloorDiv, Less, Maximum, Minimum, Mul, Select, Sub
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

MOST_AT_ONCE = 16
"""So many steps a turn of a loop runs at most, as far as ``MOST_COPIES`` allows."""

LONG = 48
"""From so many turns on a loop collects its results in chunks (see ``_in_chunks``)."""

CHUNK = 32
"""The turns of a chunk, where their number isn't known."""


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
    weights. TFLite's own op takes 1.6 times as long as a loop of 128 cells. A loop that runs
    several steps a turn takes 200 steps of 16 cells in 0.14 instead of 0.35, of 64 cells in 0.43
    instead of 0.77.
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
        return _no_results(b, states[0]), list(states)
    if isinstance(steps, int) and (is_unrolled(steps, run.weights) or not b.means.bodies):
        return _unrolled(b, projected, steps, states, run)
    return _looped(b, projected, steps, states, run)


def _no_results(b: Builder, state: Value) -> Value:
    """The results [0,B,H] of no steps from a state [B,H] on."""
    shape = static_shape(state.shape)
    if shape is not None:
        return b.const(np.zeros((0, *shape), state.dtype.numpy), dtype=state.dtype)
    none = Slice(starts=(0, 0, 0), ends=(0, None, None), strides=(1, 1, 1))
    return b.add(none, [b.add(Unsqueeze(axes=(0,)), [state])])


def _unrolled(
    b: Builder, projected: Value, steps: int, states: Sequence[Value], run: Run
) -> tuple[Value | None, list[Value]]:
    scope = Scope(b, is_body=False)
    rows = _rows(b, projected, steps)
    if run.reverse:
        rows.reverse()
    results, last = _steps_of(scope, rows, [*states], run, lambda i: _place(b, steps, i, run))
    if not run.wants_sequence:
        return None, last
    return _together(b, results[::-1] if run.reverse else results), last


def _place(b: Builder, steps: int, number: int, run: Run) -> Value:
    """The place in the sequence of the step that runs as number ``number``."""
    return b.const(np.asarray(steps - 1 - number if run.reverse else number, np.int32))


def _steps_of(
    s: Scope,
    rows: Sequence[Value],
    states: list[Value],
    run: Run,
    place: Callable[[int], Value],
) -> tuple[list[Value], list[Value]]:
    """Steps one after another: their results, and the last states."""
    results = []
    for number, row in enumerate(rows):
        after = list(run.step(s, row, states))
        result = after[0]
        if run.lengths is not None:
            index = place(number)
            result, after = _counted(s.builder, s.take(run.lengths), index, states, after)
        states = after
        results.append(result)
    return results, states


def _together(b: Builder, results: Sequence[Value]) -> Value:
    """Results [B,H] as [T,B,H]."""
    if len(results) == 1:
        return b.add(Unsqueeze(axes=(0,)), list(results))
    return b.add(Stack(axis=0), list(results))


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


class _Units:
    """The steps of a loop, some at a time, in the order in which they run.

    Attributes:
        size: how many steps a turn of the loop runs.
        head: how many steps run before the loop, so that the rest is whole turns.
        count: how many turns there are, where it is known.
    """

    def __init__(self, b: Builder, projected: Value, steps: Dim, run: Run) -> None:
        self.b, self.steps, self.run = b, steps, run
        fitting = MOST_COPIES // max(run.weights, 1)
        self.size = max(1, min(MOST_AT_ONCE, fitting)) if isinstance(steps, int) else 1
        self.head = steps % self.size if isinstance(steps, int) else 0
        self.count = steps // self.size if isinstance(steps, int) else None
        if run.reverse:
            projected = b.add(Reverse(axes=(0,)), [projected])
        self.projected = projected
        self.units = projected
        if isinstance(steps, int):
            self.length = b.const(np.asarray(steps, np.int32))
        else:
            self.length = b.add(Reshape(shape=()), [b.add(ShapeOf(dims=(0,)), [projected])])
        assert projected.shape is not None
        self.shape = projected.shape
        if self.size > 1:
            batch, depth = (d if isinstance(d, int) else -1 for d in projected.shape[1:])
            assert self.count is not None
            shape = (self.count, self.size, batch, depth)
            self.units = b.add(Reshape(shape=shape), [self._cut(self.head, None)])

    def _cut(self, start: int, end: int | None) -> Value:
        if start == 0 and end is None:
            return self.projected
        cut = Slice(starts=(start, 0, 0), ends=(end, None, None), strides=(1, 1, 1))
        return self.b.add(cut, [self.projected])

    @property
    def limit(self) -> Value:
        """How many turns there are."""
        return self.length if self.count is None else _int32(self.b, self.count)

    def before(self, states: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """The steps that run before the loop."""
        if not self.head:
            return [], [*states]
        rows = _rows(self.b, self._cut(0, self.head), self.head)
        assert isinstance(self.steps, int)
        steps = self.steps
        return _steps_of(
            Scope(self.b, is_body=False),
            rows,
            [*states],
            self.run,
            lambda i: _place(self.b, steps, i, self.run),
        )

    def turn(self, s: Scope, number: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        """Turn ``number``: its results [size,B,H], or of one step [B,H], and the states."""
        b = s.builder
        piece = b.add(Gather(axis=0), [s.take(self.units), number])
        rows = [piece] if self.size == 1 else _rows(b, piece, self.size)

        def place(step: int) -> Value:
            done = number
            if self.size > 1:
                done = b.add(Mul(), [number, _int32(b, self.size)])
                done = b.add(Add(), [done, _int32(b, self.head + step)])
            if not self.run.reverse:
                return done
            last = b.add(Sub(), [s.take(self.length), _int32(b, 1)])
            return b.add(Sub(), [last, done])

        results, after = _steps_of(s, rows, states, self.run, place)
        return (results[0] if self.size == 1 else _together(b, results)), after


def _int32(b: Builder, number: int) -> Value:
    return b.const(np.asarray(number, np.int32))


def _looped(
    b: Builder, projected: Value, steps: Dim, states: Sequence[Value], run: Run
) -> tuple[Value | None, list[Value]]:
    """The steps as turns of a While, which carries the states and the results."""
    units = _Units(b, projected, steps, run)
    head, last = units.before(states)
    scope = Scope(b, is_body=False)
    if not run.wants_sequence:

        def plain(s: Scope, counter: Value, before: list[Value]) -> list[Value]:
            return units.turn(s, counter, before)[1]

        return None, _while(scope, units.limit, last, plain)
    if units.count is None or units.count >= LONG:
        sequence, last = _in_chunks(scope, units, last)
    else:
        room = _room(b, units.count * units.size, units, states[0])

        def writing(s: Scope, counter: Value, before: list[Value]) -> list[Value]:
            result, after = units.turn(s, counter, before[:-1])
            return [*after, _written(s.builder, before[-1], result, counter, units.size)]

        *last, sequence = _while(scope, units.limit, [*last, room], writing)
    if head:
        sequence = b.add(Concat(axis=0), [_together(b, head), sequence])
    if run.reverse:
        sequence = b.add(Reverse(axes=(0,)), [sequence])
    return sequence, last


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


def _written(b: Builder, room: Value, result: Value, number: Value, size: int) -> Value:
    """``room`` with what turn ``number`` gave, ``size`` rows or one [B,H]."""
    start = b.add(Mul(), [number, b.const(np.asarray([size, 0, 0], np.int32))])
    rows = result if result.type.rank == 3 else b.add(Unsqueeze(axes=(0,)), [result])
    return b.add(DynamicUpdateSlice(), [room, rows, start])


def _in_chunks(scope: Scope, units: _Units, states: Sequence[Value]) -> tuple[Value, list[Value]]:
    """A While of chunks, in each of which a While of turns.

    A turn that writes its result into room for all of them copies all of it: of 1000 steps of 256
    cells that is nine tenths of the time. So a turn writes into room for a chunk, and the chunks
    are put together.
    """
    b, count = scope.builder, units.count
    size = CHUNK if count is None else math.isqrt(count - 1) + 1
    rows = size * units.size
    limit = units.limit
    if count is not None:
        chunks = _int32(b, -(-count // size))
        whole = _room(b, -(-count // size) * rows, units, states[0])
    else:
        more = b.add(Add(), [limit, _int32(b, size - 1)])
        chunks = b.add(FloorDiv(), [more, _int32(b, size)])
        # LiteRT prepares a turn even where there is none, and then a chunk has to fit as well.
        some = b.add(Maximum(), [chunks, _int32(b, 1)])
        whole = _room(b, b.add(Mul(), [some, _int32(b, rows)]), units, states[0])
    part = _room(b, rows, units, states[0])

    def chunk(s: Scope, number: Value, before: list[Value]) -> list[Value]:
        inside = s.builder
        base = inside.add(Mul(), [number, _int32(inside, size)])
        left = inside.add(Sub(), [s.take(limit), base])
        turns = inside.add(Minimum(), [left, _int32(inside, size)])

        def turn(t: Scope, counter: Value, carried: list[Value]) -> list[Value]:
            place = t.builder.add(Add(), [t.take(base), counter])
            result, after = units.turn(t, place, carried[:-1])
            return [*after, _written(t.builder, carried[-1], result, counter, units.size)]

        *after, found = _while(s, turns, [*before[:-1], s.take(part)], turn)
        return [*after, _written(inside, before[-1], found, number, rows)]

    *last, sequence = _while(scope, chunks, [*states, whole], chunk)
    cut = Slice(starts=(0, 0, 0), ends=None, strides=(1, 1, 1))
    if count is not None:
        end = count * units.size
        if whole.shape is None or whole.shape[0] != end:
            sequence = b.add(cut.replace(ends=(end, None, None)), [sequence])
        return sequence, last
    ends = [b.add(Reshape(shape=(1,)), [limit]), b.const(np.full(2, _ALL, np.int32))]
    sequence = b.add(cut, [sequence, None, b.add(Concat(axis=0), ends)])
    sequence.type = sequence.type.with_shape((*units.shape[:2], (states[0].shape or (0, 0))[1]))
    return sequence, last


_ALL = np.iinfo(np.int32).max


def _room(b: Builder, rows: int | Value, units: _Units, state: Value) -> Value:
    """Zeros of the shape of so many results."""
    assert state.shape is not None
    batch, cells = units.shape[1], state.shape[1]
    extents = [] if isinstance(rows, int) else [b.add(Reshape(shape=(1,)), [rows])]
    dims = [rows if isinstance(rows, int) else None]
    dims += [d if isinstance(d, int) else None for d in (batch, cells)]
    if not isinstance(batch, int):
        extents.append(b.add(ShapeOf(dims=(1,)), [units.projected]))
    if not isinstance(cells, int):
        extents.append(b.add(ShapeOf(dims=(1,)), [state]))
    like = b.const(np.zeros((0,), np.int32))
    if extents:
        like = extents[0] if len(extents) == 1 else b.add(Concat(axis=0), extents)
    return zeros(b, state.dtype, like, dims)
