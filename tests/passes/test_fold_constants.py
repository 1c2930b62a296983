"""Folding: the same results from fewer nodes, shapes fixed, weights left small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph, run_node

from nnconv.ir import DType, Graph, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Op
from nnconv.ir.verifier import verify_graph
from nnconv.ops import activation as act
from nnconv.ops import elementwise as e
from nnconv.ops import numeric as num
from nnconv.ops import shape as s
from nnconv.ops.blocks import SpaceToBatch
from nnconv.ops.diagonal import Trilu
from nnconv.ops.matmul import MatMul
from nnconv.ops.proposals import Decay, LimitedBoxes
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.slices import Pad, Slice
from nnconv.passes.fold_constants import MOST, FoldConstantsPass
from nnconv.passes.prune import PrunePass

Made = Callable[[Builder, Value], Value]


def fold(
    build: Made, shape: tuple[int | str, ...] = (2, 3, 4)
) -> tuple[list[Op], Graph, np.ndarray]:
    """Fold a graph of one input; its results before and after are the same."""
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, shape)
    graph.outputs = [build(b, x)]
    data = np.random.default_rng(0).standard_normal([d if isinstance(d, int) else 3 for d in shape])
    data = data.astype(np.float32)
    (before,) = run_graph(graph, [data])
    FoldConstantsPass(run_node).run(graph)
    PrunePass().run(graph)
    verify_graph(graph)
    (after,) = run_graph(graph, [data])
    np.testing.assert_array_equal(before, after)
    return [node.op for node in graph.nodes], graph, after


def ints(b: Builder, *values: int) -> Value:
    return b.const(np.asarray(values, np.int32))


def keras_flatten(b: Builder, x: Value) -> Value:
    sizes = b.add(s.ShapeOf(), [x])
    batch = b.add(
        s.Squeeze(axes=(0,)), [b.add(Slice(starts=(0,), ends=(1,), strides=(1,)), [sizes])]
    )
    shape = b.add(s.Stack(axis=0), [batch, b.const(np.int32(12))])
    return b.add(s.Reshape(shape=None), [x, shape])


def test_a_computed_shape_becomes_fixed() -> None:
    ops, graph, _ = fold(keras_flatten)
    assert ops == [s.Reshape(shape=(2, 12))]
    assert graph.outputs[0].shape == (2, 12)


def test_an_open_batch_stays_open() -> None:
    ops, graph, _ = fold(keras_flatten, ("batch", 3, 4))
    assert ops == [s.Reshape(shape=(-1, 12))]
    assert graph.outputs[0].shape == ("batch", 12)


def test_minus_one_beside_an_open_batch_is_worked_out() -> None:
    def build(b: Builder, x: Value) -> Value:
        parts = b.add_many(s.Unstack(axis=0, count=3), [b.add(s.ShapeOf(), [x])])
        shape = b.add(s.Stack(axis=0), [parts[0], b.const(np.int32(-1)), b.const(np.int32(2))])
        return b.add(s.Reshape(shape=None), [x, shape])

    ops, _, _ = fold(build, ("batch", 3, 4))
    assert ops == [s.Reshape(shape=(-1, 6, 2))]


def test_two_open_extents_are_left_to_run_time() -> None:
    def build(b: Builder, x: Value) -> Value:
        sizes = b.add(s.ShapeOf(), [x])
        return b.add(s.Reshape(shape=None), [x, b.add(s.Concat(axis=0), [sizes, ints(b, 1)])])

    ops, _, _ = fold(build, ("a", "b", 4))
    assert ops[-1] == s.Reshape(shape=None)


OPERANDS: dict[str, tuple[Made, Op]] = {
    "transpose": (
        lambda b, x: b.add(s.Transpose(perm=None), [x, ints(b, -1, 0, 1)]),
        s.Transpose(perm=(2, 0, 1)),
    ),
    "tile": (
        lambda b, x: b.add(s.Tile(repeats=None), [x, ints(b, 1, 2, 1)]),
        s.Tile(repeats=(1, 2, 1)),
    ),
    "slice": (
        lambda b, x: b.add(
            Slice(starts=None, ends=None, strides=(1, 1, 1)),
            [x, ints(b, 0, 1, 0), ints(b, 1, 3, -1)],
        ),
        Slice(starts=(0, 1, 0), ends=(1, 3, -1), strides=(1, 1, 1)),
    ),
    "pad": (
        lambda b, x: b.add(
            Pad(before=None, after=None),
            [x, b.const(np.asarray([[0, 1], [2, 0], [0, 0]], np.int32)), b.const(np.float32(5))],
        ),
        Pad(before=(0, 2, 0), after=(1, 0, 0)),
    ),
    "broadcast": (
        lambda b, x: b.add(s.BroadcastTo(shape=None), [x, ints(b, 5, 2, 3, 4)]),
        s.BroadcastTo(shape=(5, 2, 3, 4)),
    ),
    "reduce": (
        lambda b, x: b.add(ReduceSum(axes=None, keep_dims=True), [x, ints(b, -1)]),
        ReduceSum(axes=(2,), keep_dims=True),
    ),
    "space to batch": (
        lambda b, x: b.add(
            SpaceToBatch(block=None, pads=None),
            [x, ints(b, 2), b.const(np.asarray([[0, 1]], np.int32))],
        ),
        SpaceToBatch(block=(2,), pads=((0, 1),)),
    ),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_a_known_index_operand_becomes_an_attribute(name: str) -> None:
    build, expected = OPERANDS[name]
    ops, graph, result = fold(build)
    assert ops == [expected]
    assert graph.outputs[0].shape == result.shape


def test_types_behind_are_inferred_again() -> None:
    def build(b: Builder, x: Value) -> Value:
        flat = b.add(s.Reshape(shape=None), [x, b.add(s.Identity(), [ints(b, 4, 6)])])
        return b.add(e.Neg(), [b.add(e.Abs(), [flat])])

    _, graph, _ = fold(build)
    assert [v.shape for node in graph.nodes for v in node.outputs] == [(4, 6)] * 3


def test_constants_are_computed() -> None:
    def build(b: Builder, x: Value) -> Value:
        table = b.const(np.arange(12, dtype=np.float32).reshape(3, 4))
        return b.add(e.Add(), [x, b.add(e.Mul(), [table, b.add(e.Neg(), [table])])])

    ops, _, _ = fold(build)
    assert ops == [e.Add()]


@pytest.mark.parametrize("op", [num.Reciprocal(), act.Softplus(), MatMul(), Trilu()], ids=str)
def test_numbers_are_worked_out_whatever_the_op(op: Op) -> None:
    def build(b: Builder, x: Value) -> Value:
        table = b.const(np.arange(1, 17, dtype=np.float32).reshape(4, 4))
        operands = [table, table] if isinstance(op, MatMul) else [table]
        return b.add(e.Add(), [x, b.add(op, operands)])

    ops, _, _ = fold(build, (2, 4, 4))
    assert ops == [e.Add()]


def test_a_constant_may_go_out() -> None:
    def build(b: Builder, _: Value) -> Value:
        return b.add(e.Neg(), [b.const(np.float32([1, 2]))], name="y")

    ops, graph, result = fold(build)
    assert ops == []
    assert graph.outputs[0].name == "y"
    np.testing.assert_array_equal(result, [-1, -2])


@pytest.mark.parametrize(
    ("build", "kept"),
    [
        (
            lambda b, x: b.add(
                e.Mul(),
                [x, b.add(Cast(dtype=DType.FLOAT32), [b.const(np.ones((3, 4), np.float16))])],
            ),
            Cast(dtype=DType.FLOAT32),
        ),
        (
            lambda b, x: b.add(
                e.Mul(),
                [
                    b.add(s.Fill(shape=(MOST + 1, 1, 1)), [b.const(np.float32(3))]),
                    b.add(ReduceSum(axes=(0, 1, 2)), [x]),
                ],
            ),
            s.Fill(shape=(MOST + 1, 1, 1)),
        ),
    ],
)
def test_what_would_make_the_file_bigger_stays(build: Made, kept: Op) -> None:
    ops, _, _ = fold(build)
    assert kept in ops


def test_nothing_to_fold_changes_nothing() -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 3))
    graph.outputs = [b.add(e.Abs(), [b.add(s.Reshape(shape=(3, 2)), [x])])]

    def refuse(*_: object) -> list[np.ndarray]:
        raise AssertionError("there is nothing to evaluate")

    assert not FoldConstantsPass(refuse).run(graph)


def test_weights_put_in_another_order_are_weights() -> None:
    """As PyTorch writes the gates of an LSTM: the file doesn't get bigger by it."""
    data = np.arange(4 * 64 * 128, dtype=np.float32).reshape(256, 128)

    def build(b: Builder, x: Value) -> Value:
        stored = b.const(data)
        parts = [
            b.add(Slice(starts=(64 * i, 0), ends=(64 * i + 64, None), strides=(1, 1)), [stored])
            for i in (0, 3, 1, 2)
        ]
        weights = b.add(s.Unsqueeze(axes=(0,)), [b.add(s.Concat(axis=0), parts)])
        return b.add(e.Add(), [x, weights])

    ops, graph, _ = fold(build, (1, 256, 128))
    assert ops == [e.Add()]
    assert sum(v.data.size for v in graph.constants() if v.data is not None) == data.size


def test_what_makes_the_file_bigger_is_left() -> None:
    def build(b: Builder, x: Value) -> Value:
        stored = b.const(np.arange(100, dtype=np.float32).reshape(1, 100))
        return b.add(e.Add(), [x, b.add(s.Tile(repeats=(200, 1)), [stored])])

    ops, _, _ = fold(build, (200, 100))
    assert ops == [s.Tile(repeats=(200, 1)), e.Add()]


@pytest.mark.parametrize("empty", [True, False])
def test_results_without_elements_are_constants_on_demand(empty: bool) -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (0, 3))
    graph.outputs = [b.add(e.Exp(), [x])]
    assert FoldConstantsPass(run_node, empty=empty).run(graph) is empty
    verify_graph(graph)
    assert (graph.outputs[0].data is not None) is empty
    assert graph.outputs[0].shape == (0, 3)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_without_elements_are_constants_on_demand(axis: int) -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (3, 3))
    first, *others = b.add_many(s.Split(axis=axis, sizes=(0, 2, 0, 1)), [x])
    graph.outputs = [b.add(e.Neg(), [others[0]]), others[2], first]
    data = np.arange(9, dtype=np.float32).reshape(3, 3)
    before = run_graph(graph, [data])
    assert not FoldConstantsPass(run_node).run(graph)
    assert FoldConstantsPass(run_node, empty=True).run(graph)
    verify_graph(graph)
    assert next(iter(graph.nodes)).op == s.Split(axis=axis, sizes=(2, 1))
    assert graph.outputs[2].data is not None
    for found, wanted in zip(run_graph(graph, [data]), before, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_regions_chosen_of_constants_are_constants() -> None:
    graph = Graph("g")
    b = Builder(graph)
    scores = np.asarray([[0.0, 0.9], [0.0, 0.8], [0.0, 0.05]], np.float32)
    boxes = np.tile(np.asarray([0, 0, 4, 4], np.float32), (3, 2))
    images = np.asarray([0, 1, 1], np.int32)
    op = LimitedBoxes(
        score_threshold=0.1,
        limit=-1,
        decay=Decay.HARD,
        iou_threshold=0.5,
        sigma=1.0,
        least_score=0.1,
    )
    graph.outputs = list(b.add_many(op, [b.const(a) for a in (scores, boxes, images)]))
    assert FoldConstantsPass(run_node).run(graph)
    verify_graph(graph)
    assert not list(graph.nodes)
    assert [v.data.shape for v in graph.outputs if v.data is not None] == [(2,), (2, 4), (2,), (2,)]


@pytest.mark.parametrize(
    ("number", "known"),
    [
        (16.0, True),
        (2.5, True),
        (2.0**31, False),
        (-(2.0**31), True),
        (np.inf, False),
        (np.nan, False),
    ],
)
def test_extents_worked_out_in_floats_are_known_where_integers_hold_them(
    number: float, known: bool
) -> None:
    def build(b: Builder, _x: Value) -> Value:
        return b.add(Cast(dtype=DType.INT32), [b.const(np.float32(number))])

    ops, _, result = fold(build)
    assert bool(ops) is not known
    if known:
        assert result == int(number)


def test_a_square_root_is_a_size() -> None:
    def build(b: Builder, x: Value) -> Value:
        root = b.add(Cast(dtype=DType.INT64), [b.add(e.Sqrt(), [b.const(np.float32([16]))])])
        return b.add(s.Reshape(shape=None), [x, b.add(s.Concat(axis=0), [root, root])])

    ops, _, result = fold(build, (2, 8))
    assert ops == [s.Reshape(shape=(4, 4))]
    assert result.shape == (4, 4)
