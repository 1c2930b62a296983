"""Ops that move elements, written as TFLite: element type x op x form, on LiteRT's three kernels.

Types that a kernel lacks go by their bits or by a wider type; ranks, axes and forms that it lacks
by other operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, Quant, Value
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops import slices as c
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth
from nnconv.ops.diagonal import MatrixDiag, MatrixSetDiag
from nnconv.ops.segment import Bucketize, Segment
from nnconv.ops.window import Dilate, ReduceWindow
from support.tflite_spine import TfliteCase, check_tflite
from support.types import WHOLE

TYPES = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.FLOAT64,
    *WHOLE,
    DType.BOOL,
    DType.COMPLEX64,
)
CODES = (DType.INT8, DType.UINT8, DType.INT16)
QUANT = Quant.per_tensor(0.5, 3)
SYMMETRIC = Quant.per_tensor(0.25, 0)

Made = Value | Sequence[Value]
Form = Callable[[Builder, DType, Quant | None], Made]
"""Builds a graph for an element type."""


def one(op: Op, *shapes: Sequence[int | None]) -> Form:
    """An op on inputs of the same type."""

    def build(b: Builder, dtype: DType, quant: Quant | None) -> Made:
        inputs = [b.input(f"x{i}", dtype, shape, quant=quant) for i, shape in enumerate(shapes)]
        if isinstance(op, s.Concat):
            return b.add(op, inputs, quant=quant)
        return b.add_many(op, inputs)

    return build


def at(op: Op, shape: Sequence[int | None], *indices: np.ndarray) -> Form:
    """An op on one input with constant index operands."""

    def build(b: Builder, dtype: DType, quant: Quant | None) -> Made:
        x = b.input("x", dtype, shape, quant=quant)
        return b.add_many(op, [x, *(b.const(i) for i in indices)])

    return build


def ints(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, np.int32)


def whole(starts: Any, ends: Any, strides: Any = None) -> c.Slice:
    return c.Slice(starts=starts, ends=ends, strides=strides or (1,) * len(starts))


def _update(b: Builder, dtype: DType, quant: Quant | None) -> Made:
    x, new = (b.input(n, dtype, dims, quant=quant) for n, dims in (("x", (4, 5)), ("u", (2, 3))))
    return b.add(c.DynamicUpdateSlice(), [x, new, b.const(ints(1, 2))])


def _fill(b: Builder, dtype: DType, quant: Quant | None) -> Made:
    return b.add(s.Fill(shape=(2, 3)), [b.input("x", dtype, (1,), quant=quant)])


def _select_rows(b: Builder, dtype: DType, quant: Quant | None) -> Made:
    x = b.input("x", dtype, (4, 2), quant=quant)
    return b.add(g.Compress(axis=0), [x, b.const(np.asarray([1, 0, 0, 1], bool))])


MOVES: dict[str, Form] = {
    "reshape": one(s.Reshape(shape=(3, 2)), (2, 3)),
    "transpose": one(s.Transpose(perm=(2, 0, 1)), (2, 3, 4)),
    "concat": one(s.Concat(axis=1), (2, 3), (2, 1)),
    "stack": one(s.Stack(axis=1), (2, 3), (2, 3)),
    "unstack": one(s.Unstack(axis=1, count=3), (2, 3)),
    "split": one(s.Split(axis=1, sizes=(2, 2)), (3, 4)),
    "split-uneven": one(s.Split(axis=1, sizes=(1, 3)), (3, 4)),
    "tile": one(s.Tile(repeats=(2, 3)), (2, 3)),
    "broadcast": one(s.BroadcastTo(shape=(2, 3, 4)), (3, 1)),
    "fill": _fill,
    "slice": one(whole((1, 0), (3, None)), (4, 3)),
    "slice-by-two": one(whole((None, 2), (None, None), (2, -2)), (4, 3)),
    "slice-back": one(whole((None, 2), (None, None), (-1, -1)), (4, 3)),
    "reverse": one(c.Reverse(axes=(0, 2)), (2, 3, 4)),
    "pad": one(c.Pad(before=(1, 0), after=(0, 2)), (2, 3)),
    "pad-edge": one(c.Pad(before=(1, 0), after=(0, 2), mode=c.PadMode.EDGE), (2, 3)),
    "reverse-sequence": at(c.ReverseSequence(axis=1, batch_axis=0), (2, 4, 3), ints(3, 2)),
    "update": _update,
    "gather": at(g.Gather(axis=1), (2, 4, 3), ints(3, 0, 3)),
    "gather-nd": at(g.GatherNd(), (2, 4, 3), ints(1, 3, 0, 2).reshape(2, 2)),
    "gather-elements": at(g.GatherElements(axis=0), (4, 3), ints(3, 0, 1, 2, 1, 0).reshape(2, 3)),
    "compress": _select_rows,
    "depth-to-space": one(DepthToSpace(block=2), (1, 2, 3, 8)),
    "space-to-depth": one(SpaceToDepth(block=2), (1, 4, 2, 3)),
    "batch-to-space": one(BatchToSpace(block=(2, 2), crops=((0, 0), (1, 0))), (4, 2, 3, 2)),
    "space-to-batch": one(SpaceToBatch(block=(2, 2), pads=((0, 0), (1, 0))), (1, 4, 3, 2)),
    "batch-to-space-nchw": one(
        BatchToSpace(block=(2, 2), crops=((0, 0), (1, 0)), channels_first=True), (4, 2, 2, 3)
    ),
    "space-to-batch-nchw": one(
        SpaceToBatch(block=(2, 2), pads=((0, 0), (1, 0)), channels_first=True), (1, 2, 4, 3)
    ),
    "dilate": one(Dilate(dilations=(2, 1)), (2, 3), ()),
    "diagonal": one(MatrixDiag(), (2, 3)),
    "set-diagonal": one(MatrixSetDiag(), (2, 3, 4), (2, 3)),
}


def _typed(name: str, form: Form, dtype: DType, quant: Quant | None) -> TfliteCase:
    return TfliteCase(
        f"{name}-{dtype}{'' if quant is None else 'q'}", lambda b: form(b, dtype, quant), steps=0
    )


PLAIN = [_typed(name, form, dtype, None) for name, form in MOVES.items() for dtype in TYPES]
QUANTIZED = [
    _typed(name, form, dtype, SYMMETRIC if dtype is DType.INT16 else QUANT)
    for name, form in MOVES.items()
    for dtype in CODES
]


def float32(op: Op, *shapes: Sequence[int | None]) -> Callable[[Builder], Made]:
    form = one(op, *shapes)
    return lambda b: form(b, DType.FLOAT32, None)


def _arrays(*shapes: Sequence[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _open(
    label: str, op: Op, shape: Sequence[int | None], other: Sequence[int], **more: Any
) -> TfliteCase:
    return TfliteCase(label, float32(op, shape), more=[_arrays(other)], **more)


FORMS = [
    TfliteCase("concat-rank-6", float32(s.Concat(axis=1), (1, 2, 1, 3, 1, 2), (1, 1, 1, 3, 1, 2)),
               ops={"CONCATENATION": 1}),
    TfliteCase("concat-rank-8",
               float32(s.Concat(axis=2), *((1, 2, n, 3, 1, 2, 1, 1) for n in (2, 3))),
               ops={"RESHAPE": 3, "CONCATENATION": 1}),
    TfliteCase("split-rank-8", float32(s.Split(axis=5, sizes=(2, 2)), (1, 2, 1, 1, 1, 4, 2, 1)),
               ops={"RESHAPE": 3, "SPLIT": 1}),
    TfliteCase("too-large", float32(s.Tile(repeats=(1 << 20, 1 << 20)), (1 << 12, 0)),
               refused=True),
    TfliteCase("too-large-input", float32(s.Transpose(perm=(1, 0)), (1 << 31, 0)), refused=True),
    TfliteCase("split-five", float32(s.Split(axis=0, sizes=(1,) * 5), (5, 2)), ops={"SPLIT": 1}),
    TfliteCase("split-empty", float32(s.Split(axis=0, sizes=(0, 5)), (5, 2)), ops={"RESHAPE": 2}),
    TfliteCase("broadcast-rows", float32(s.BroadcastTo(shape=(4, 3)), (3,)),
               ops={"RESHAPE": 1, "TILE": 1}),
    TfliteCase("broadcast-empty", float32(s.BroadcastTo(shape=(0, 3)), (1, 3))),
    TfliteCase("broadcast-nothing", float32(s.BroadcastTo(shape=()), ())),
    TfliteCase("slice", float32(whole((1, -2), (3, None)), (4, 3)), ops={"SLICE": 1}),
    TfliteCase("slice-nothing", float32(whole((3, 0), (1, None)), (4, 3)), ops={"RESHAPE": 1}),
    TfliteCase("slice-back", float32(whole((2, None), (0, None), (-1, 1)), (4, 3)),
               ops={"SLICE": 1, "REVERSE_V2": 1}),
    TfliteCase("slice-back-by-three", float32(whole((None, None), (None, None), (-3, 1)), (7, 3)),
               ops={"STRIDED_SLICE": 1}),
    TfliteCase("slice-back-nothing", float32(whole((1,), (-1,), (-1,)), (4,))),
    TfliteCase("reverse-apart", float32(c.Reverse(axes=(0, 2)), (2, 3, 4)), ops={"REVERSE_V2": 2}),
    TfliteCase("reverse-side-by-side", float32(c.Reverse(axes=(1, 2)), (2, 3, 4)),
               ops={"REVERSE_V2": 1}),
    _open("open-slice", whole((None, 1), (None, None)), (None, 3), (5, 3),
          ops={"STRIDED_SLICE": 1}),
    _open("open-slice-end", whole((None, 1), (-1, None)), (None, 3), (5, 3),
          ops={"STRIDED_SLICE": 1}),
    _open("open-slice-first", whole((None,), (3,)), (None,), (2,), ops={"STRIDED_SLICE": 1}),
    _open("open-slice-last", whole((-3,), (None,)), (None,), (7,), ops={"STRIDED_SLICE": 1}),
    _open("open-slice-back", whole((None,), (None,), (-1,)), (None,), (7,), ops={"REVERSE_V2": 1}),
    _open("open-concat", s.Concat(axis=0), (None, 3), (5, 3)),
    _open("open-split", s.Split(axis=1, sizes=(1, -1)), (2, None), (3, 5), ops={"SPLIT_V": 1}),
    _open("open-tile", s.Tile(repeats=(1, 2)), (None, 3), (5, 3), ops={"TILE": 1}),
    _open("open-unsqueeze", s.Unsqueeze(axes=(0, 2)), (None, None), (5, 3),
          ops={"EXPAND_DIMS": 2}),
    _open("open-squeeze", s.Squeeze(axes=(1,)), (None, 1, None), (5, 1, 3), ops={"SQUEEZE": 1}),
    _open("open-shape", s.ShapeOf(dims=(1, 0)), (None, None), (5, 3),
          ops={"SHAPE": 1, "GATHER": 1}),
    _open("open-size", s.Size(), (None, None), (5, 3), ops={"SHAPE": 1, "REDUCE_PROD": 1}),
    _open("open-rank", s.Rank(), (None, None), (5, 3)),
    _open("open-stack", s.Stack(axis=1), (None, 3), (5, 3), ops={"PACK": 1}),
]  # fmt: skip


def _refed(
    label: str, build: Callable[[Builder], Made], *feeds: np.ndarray, **more: Any
) -> TfliteCase:
    return TfliteCase(label, build, feeds=feeds, **more)


def _shape_fed(op: Op, shape: Sequence[int], dtype: DType, count: int) -> Callable[[Builder], Made]:
    """An op with one index operand that is fed."""

    def build(b: Builder) -> Made:
        return b.add(op, [b.input("x", DType.FLOAT32, shape), b.input("i", dtype, (count,))])

    return build


FED = [
    _refed(f"{name}-{dtype}", _shape_fed(op, shape, dtype, len(numbers)),
           _arrays(shape)[0], np.asarray(numbers, dtype.numpy))
    for dtype in (DType.INT32, DType.INT64)
    for name, op, shape, numbers in (
        ("reshape", s.Reshape(shape=None), (2, 3), (3, -1)),
        ("transpose", s.Transpose(perm=None), (2, 3), (1, 0)),
        ("tile", s.Tile(repeats=None), (2, 3), (2, 1)),
        ("broadcast", s.BroadcastTo(shape=None), (1, 3), (2, 3)),
        ("gather", g.Gather(axis=0), (4, 3), (3, 0)),
        ("gather-from-end", g.Gather(axis=0, from_end=True), (4, 3), (-1, 0)),
        ("reverse-sequence", c.ReverseSequence(axis=1, batch_axis=0), (2, 4), (3, 1)),
    )
]  # fmt: skip


def _made_indices(b: Builder) -> Made:
    """Indices that can't be negative need no look at their sign."""
    x = b.input("x", DType.FLOAT32, (4, 3))
    _, places = b.add_many(g.TopK(axis=1, k=2), [x])
    return b.add(g.Gather(axis=1, from_end=True), [x, places])


def _top(
    largest: bool, dtype: DType, axis: int, quant: Quant | None = None
) -> Callable[[Builder], Made]:
    op = g.TopK(axis=axis, k=2, largest=largest)
    return lambda b: b.add_many(op, [b.input("x", dtype, (3, 4), quant=quant)])


SORTED = [
    *(
        TfliteCase(f"top-{'most' if largest else 'least'}-{dtype}", _top(largest, dtype, 1))
        for dtype in TYPES
        if dtype not in (DType.BOOL, DType.COMPLEX64)
        for largest in (True, False)
    ),
    *(
        TfliteCase(f"top-{'most' if largest else 'least'}-{dtype}q", _top(largest, dtype, 0, QUANT))
        for dtype in CODES[:2]
        for largest in (True, False)
    ),
    TfliteCase("made-indices", _made_indices, ops={"TOPK_V2": 1, "GATHER": 1}),
]


def _scatter(reduction: g.Reduction, dtype: DType, *, zeros: bool) -> TfliteCase:
    rng = np.random.default_rng(2)
    places = np.asarray([[2], [0]] if reduction is g.Reduction.NONE else [[2], [0], [2]], np.int32)

    def build(b: Builder) -> Made:
        new = b.input("u", dtype, (len(places), 3))
        if zeros:
            x = b.add(s.Fill(shape=(4, 3)), [b.const(np.zeros((), dtype.numpy))])
        else:
            x = b.input("x", dtype, (4, 3))
        return b.add(g.ScatterNd(reduction=reduction), [x, b.const(places), new])

    feeds = [rng.integers(0, 4, (len(places), 3)).astype(dtype.numpy)]
    if not zeros:
        feeds.append(rng.integers(0, 4, (4, 3)).astype(dtype.numpy))
    label = f"scatter-{reduction.value}-{dtype}{'-zeros' if zeros else ''}"
    return TfliteCase(label, build, feeds=feeds)


COMBINED = [
    DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.UINT8, DType.INT16, DType.INT32,
]  # fmt: skip
SCATTERED = [
    *(_scatter(g.Reduction.NONE, dtype, zeros=zeros) for dtype in TYPES[:-1] for zeros in (0, 1)),
    *(
        _scatter(reduction, dtype, zeros=zeros)
        for reduction in (g.Reduction.ADD, g.Reduction.MUL, g.Reduction.MIN, g.Reduction.MAX)
        for dtype in COMBINED
        for zeros in (False, True)
    ),
    _scatter(g.Reduction.ADD, DType.INT64, zeros=False),
    _scatter(g.Reduction.AND, DType.BOOL, zeros=False),
    _scatter(g.Reduction.OR, DType.BOOL, zeros=False),
]


def _infinite(b: Builder) -> Made:
    """Places that nothing goes to keep infinities."""
    x, new = b.input("x", DType.FLOAT32, (4, 1)), b.input("u", DType.FLOAT32, (1, 1))
    return b.add(g.ScatterNd(reduction=g.Reduction.MAX), [x, b.const(ints(1).reshape(1, 1)), new])


OTHERS = [
    TfliteCase(
        "scatter-beside-infinities",
        _infinite,
        feeds=(np.full((4, 1), -np.inf, np.float32), np.zeros((1, 1), np.float32)),
    ),
    *(
        TfliteCase(f"one-hot-{dtype}", lambda b, dtype=dtype: _hot(b, dtype))
        for dtype in TYPES
        if dtype is not DType.COMPLEX64
    ),
    *(
        TfliteCase(
            f"non-zero-{dtype}",
            lambda b, dtype=dtype: _found(b, dtype),
            feeds=(np.asarray([[0, 1, 0], [2, 0, 3]]).astype(dtype.numpy),),
        )
        for dtype in TYPES
        if dtype not in (DType.COMPLEX64, DType.UINT64)
    ),
    TfliteCase("segment", lambda b: _segment(b, DType.FLOAT32), ops={"UNSORTED_SEGMENT_SUM": 1}),
    TfliteCase("segment-int16", lambda b: _segment(b, DType.INT16)),
    TfliteCase(
        "bucketize",
        float32(Bucketize(boundaries=(-1.0, 0.0, 1.5)), (3, 4)),
        ops={"BUCKETIZE": 1},
    ),
    TfliteCase(
        "reduce-window",
        lambda b: b.add(
            ReduceWindow(reduction=g.Reduction.MAX, window=(2, 1), stride=(1, 2), dilation=(2, 1)),
            [b.input("x", DType.FLOAT32, (5, 4)), b.const(np.float32(-9))],
        ),
        ops={"REDUCE_WINDOW": 1},
    ),
    TfliteCase(
        "range",
        lambda b: b.add(
            s.Range(), [b.input(n, DType.FLOAT16, ()) for n in ("start", "limit", "step")]
        ),
        feeds=[np.asarray(n, np.float16) for n in (1, 4, 0.5)],
    ),
]


def _hot(b: Builder, dtype: DType) -> Made:
    on, off = (b.const(np.asarray(n).astype(dtype.numpy)) for n in (3, 1))
    op = g.OneHot(axis=1, depth=3, from_end=True)
    return b.add(op, [b.const(ints(0, -1, 5, 2)), on, off])


def _found(b: Builder, dtype: DType) -> Made:
    return b.add(g.NonZero(), [b.input("x", dtype, (2, 3))])


def _segment(b: Builder, dtype: DType) -> Made:
    op = Segment(reduction=g.Reduction.ADD, num_segments=3)
    return b.add(op, [b.input("x", dtype, (4, 2)), b.const(ints(2, 0, -1, 2))])


ALL = [*PLAIN, *QUANTIZED, *FORMS, *FED, *SORTED, *SCATTERED, *OTHERS]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_tflite(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
