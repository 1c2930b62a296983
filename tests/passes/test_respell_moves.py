"""Moves spelled in simpler ones."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Model, Signature, Value
from nnconv.ops.elementwise import Add, Maximum, Minimum, Neg
from nnconv.ops.gather import Gather, Reduction, ScatterNd
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, Split, Squeeze, Stack, Unsqueeze, Unstack
from nnconv.ops.slices import DynamicUpdateSlice, Slice
from nnconv.passes.base import run_passes
from nnconv.passes.narrow_indices import NarrowIndicesPass
from nnconv.passes.prune import PrunePass
from nnconv.passes.respell_moves import RespellMovesPass

F32 = DType.FLOAT32


def _run(graph: Graph, *inputs: np.ndarray) -> list[type]:
    arrays = list(inputs) or [
        np.random.default_rng(0).standard_normal(v.shape).astype(v.dtype.numpy)  # type: ignore[arg-type]
        for v in graph.inputs
    ]
    before = run_graph(graph, arrays)
    steps = [NarrowIndicesPass(), RespellMovesPass(), PrunePass()]
    run_passes(Model([Signature("", graph)]), steps, verify=True)
    for old, new in zip(before, run_graph(graph, arrays), strict=True):
        np.testing.assert_array_equal(new, old)
    return [type(node.op) for node in graph.nodes]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("by", ["unsqueeze", "reshape"])
def test_stacks(axis, by):
    b = Builder(Graph())
    parts = [b.input(f"x{i}", F32, (2, 3)) for i in range(3)]
    shape = (*(2, 3)[:axis], 1, *(2, 3)[axis:])
    op = Unsqueeze(axes=(axis,)) if by == "unsqueeze" else Reshape(shape=shape)
    b.graph.outputs = [b.add(Concat(axis=axis), [b.add(op, [part]) for part in parts])]
    assert _run(b.graph) == [Stack]


@pytest.mark.parametrize("reason", ["other axis", "read again", "other shape", "one"])
def test_what_is_no_stack_stays(reason):
    b = Builder(Graph())
    x = b.input("x", F32, (2, 3))
    y = b.input("y", F32, (2, 6) if reason == "other shape" else (2, 3))
    axis = 1 if reason == "other axis" else 2
    wide = [b.add(Unsqueeze(axes=(axis,)), [x])]
    if reason == "other shape":
        wide.append(b.add(Reshape(shape=(2, 3, 2)), [y]))
    elif reason != "one":
        wide.append(b.add(Unsqueeze(axes=(axis,)), [y]))
    b.graph.outputs = [b.add(Concat(axis=2), wide)]
    if reason == "read again":
        b.graph.outputs.append(b.add(Neg(), [wide[0]]))
    assert Stack not in _run(b.graph)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("goes_out", [True, False])
def test_unstacks(axis, goes_out):
    b = Builder(Graph())
    x = b.input("x", F32, (3, 3, 3))
    parts = b.add_many(Split(axis=axis, sizes=(1, 1, 1)), [x])
    views = [b.add(Squeeze(axes=(axis,)), [part], name=f"v{i}") for i, part in enumerate(parts)]
    views = views if goes_out else [b.add(Neg(), [v], name=v.name) for v in views]
    b.graph.outputs = views
    assert _run(b.graph) == [Unstack, *([] if goes_out else [Neg] * 3)]
    assert [v.name for v in b.graph.outputs] == ["v0", "v1", "v2"]


def test_what_may_be_empty_is_split():
    """LiteRT's UNPACK fails on it; how many images there are is never 0."""
    for extent, ops in ((None, [Split, Squeeze, Squeeze]), ("batch", [Unstack])):
        b = Builder(Graph())
        parts = b.add_many(Split(axis=1, sizes=(1, 1)), [b.input("x", F32, (extent, 2))])
        b.graph.outputs = [b.add(Squeeze(axes=(1,)), [part]) for part in parts]
        assert _run(b.graph, np.ones((3, 2), np.float32)) == ops


@pytest.mark.parametrize("reason", ["pairs", "read whole", "other shape"])
def test_what_is_no_unstack_stays(reason):
    b = Builder(Graph())
    x = b.input("x", F32, (4, 3))
    parts = b.add_many(Split(axis=0, sizes=(2, 2) if reason == "pairs" else (1,) * 4), [x])
    shape = (3, 1) if reason == "other shape" else (6,) if reason == "pairs" else (3,)
    b.graph.outputs = [b.add(Reshape(shape=shape), [part]) for part in parts]
    if reason == "read whole":
        b.graph.outputs.append(b.add(Neg(), [parts[0]]))
    assert Unstack not in _run(b.graph)


def _update(b: Builder, *, depth: int = 2, wide: bool = True, room: int = 0, shift: int = 0):
    whole, box = (5, 6), (2, 6) if depth == 1 else (2, 3)
    x, update = b.input("x", F32, whole), b.input("u", F32, box)
    starts = b.input("s", DType.INT32, (2,))
    value: Value = b.add(Cast(dtype=DType.INT64), [starts]) if wide else starts
    if depth == 1:
        value = b.add(Slice(starts=(0,), ends=(1,), strides=(1,)), [value])
    numbers = value.dtype.numpy
    limits = np.array([3, 3 + room][:depth], numbers)
    value = b.add(Minimum(), [value, b.const(limits)])
    value = b.add(Maximum(), [value, b.const(np.zeros(1, numbers))])
    grid = np.moveaxis(np.indices(box[:depth]), 0, -1).astype(numbers) + numbers.type(shift)
    places = b.add(Add(), [b.const(grid), value])
    b.graph.outputs = [b.add(ScatterNd(), [x, places, update])]
    return places


STARTS = [(0, 0), (3, 3), (1, 2), (-4, 9)]


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("starts", STARTS)
def test_slices_that_are_written(starts, depth, wide):
    b = Builder(Graph())
    _update(b, depth=depth, wide=wide)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 6)).astype(np.float32)
    update = rng.standard_normal((2, 6 if depth == 1 else 3)).astype(np.float32)
    assert _run(b.graph, x, update, np.array(starts, np.int32)) == [DynamicUpdateSlice]


@pytest.mark.parametrize("reason", ["less room", "other places", "sums"])
def test_what_is_no_such_slice_stays(reason):
    b = Builder(Graph())
    _update(b, room=-1 if reason == "less room" else 0, shift=-1 if reason == "other places" else 0)
    if reason == "sums":
        (node,) = [n for n in b.graph.nodes if isinstance(n.op, ScatterNd)]
        node.op = ScatterNd(reduction=Reduction.ADD)
    x, u = np.zeros((5, 6), np.float32), np.ones((2, 3), np.float32)
    assert DynamicUpdateSlice not in _run(b.graph, x, u, np.array((1, 1), np.int32))


@pytest.mark.parametrize("narrow", [DType.INT32, DType.INT16])
def test_indices_are_read_before_they_are_widened(narrow):
    b = Builder(Graph())
    x, i = b.input("x", F32, (5, 2)), b.input("i", narrow, (3,))
    wide = b.add(Cast(dtype=DType.INT64), [i])
    b.graph.outputs = [b.add(Gather(axis=0), [x, wide])]
    ops = _run(
        b.graph, np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(3, dtype=narrow.numpy)
    )
    assert ops == ([Gather] if narrow is DType.INT32 else [Cast, Gather])
