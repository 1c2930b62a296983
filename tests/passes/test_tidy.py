"""Tidying: moves that move nothing go, pairs become one, and graph outputs keep their names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.slices import Pad, Reverse, Slice
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.tidy import TidyPass

Made = Callable[[Builder, Value], Value]


def tidy(build: Made, shape: tuple[int | str, ...] = (2, 3, 4)) -> Graph:
    """Tidy a graph of one input between two Abs; its results before and after are the same."""
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, shape)
    graph.outputs = [b.add(e.Neg(), [build(b, b.add(e.Abs(), [x]))], name="y")]
    data = np.random.default_rng(0).standard_normal([d if isinstance(d, int) else 3 for d in shape])
    (before,) = run_graph(graph, [data.astype(np.float32)])
    run_passes(Model([Signature("", graph)]), [TidyPass(), PrunePass()], verify=True)
    (after,) = run_graph(graph, [data.astype(np.float32)])
    np.testing.assert_array_equal(before, after)
    return graph


NOTHING: dict[str, Made] = {
    "identity": lambda b, x: b.add(s.Identity(), [x]),
    "reshape": lambda b, x: b.add(s.Reshape(shape=(2, 3, 4)), [x]),
    "transpose": lambda b, x: b.add(s.Transpose(perm=(0, 1, 2)), [x]),
    "slice": lambda b, x: b.add(
        Slice(starts=(0, None, 0), ends=(2, None, 9), strides=(1, 1, 1)), [x]
    ),
    "pad": lambda b, x: b.add(Pad(before=(0, 0, 0), after=(0, 0, 0)), [x]),
    "concat": lambda b, x: b.add(s.Concat(axis=1), [x]),
    "split": lambda b, x: b.add(s.Split(axis=1, sizes=(3,)), [x]),
    "tile": lambda b, x: b.add(s.Tile(repeats=(1, 1, 1)), [x]),
    "broadcast": lambda b, x: b.add(s.BroadcastTo(shape=(2, 3, 4)), [x]),
    "reverse": lambda b, x: b.add(Reverse(axes=()), [x]),
    "sum with zeros": lambda b, x: b.add(e.Add(), [b.const(np.zeros((3, 1), np.float32)), x]),
    "always the first": lambda b, x: b.add(
        e.Select(), [b.const(np.ones((3, 1), np.bool_)), x, b.const(np.zeros((), np.float32))]
    ),
    "always the second": lambda b, x: b.add(
        e.Select(), [b.const(np.zeros((), np.bool_)), b.const(np.zeros((), np.float32)), x]
    ),
    "transposes": lambda b, x: b.add(
        s.Transpose(perm=(2, 0, 1)), [b.add(s.Transpose(perm=(1, 2, 0)), [x])]
    ),
    "reshapes": lambda b, x: b.add(
        s.Reshape(shape=(2, -1, 4)), [b.add(s.Reshape(shape=(24,)), [x])]
    ),
    "squeeze of unsqueeze": lambda b, x: b.add(
        s.Squeeze(axes=(1,)), [b.add(s.Unsqueeze(axes=(1,)), [x])]
    ),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_moves_nothing_goes(name: str) -> None:
    assert [node.op for node in tidy(NOTHING[name]).nodes] == [e.Abs(), e.Neg()]


SOMETHING: dict[str, Made] = {
    "transpose": lambda b, x: b.add(s.Transpose(perm=(0, 2, 1)), [x]),
    "reshape": lambda b, x: b.add(s.Reshape(shape=(3, 2, 4)), [x]),
    "slice": lambda b, x: b.add(Slice(starts=(0, 1), ends=(2, 3), strides=(1, 1)), [x]),
    "concat": lambda b, x: b.add(s.Concat(axis=1), [x, x]),
    "two reshapes": lambda b, x: b.add(
        s.Reshape(shape=(4, -1)), [b.add(s.Reshape(shape=(24,)), [x])]
    ),
    "reshape of squeeze": lambda b, x: b.add(
        s.Reshape(shape=(6, 4)), [b.add(s.Unsqueeze(axes=(0,)), [x])]
    ),
    "transposes": lambda b, x: b.add(
        s.Transpose(perm=(1, 2, 0)), [b.add(s.Transpose(perm=(1, 2, 0)), [x])]
    ),
}


@pytest.mark.parametrize("name", SOMETHING)
def test_what_moves_something_stays_once(name: str) -> None:
    shape = (2, 4) if name == "slice" else (2, 3, 4)
    assert len(tidy(SOMETHING[name], shape)) == 3


def test_a_symbol_is_itself() -> None:
    def build(b: Builder, x: Value) -> Value:
        flat = b.add(s.Reshape(shape=(-1, 12)), [x])
        return b.add(s.Reshape(shape=(-1, 3, 4)), [flat])

    assert len(tidy(build, ("n", 3, 4))) == 2


def test_a_transpose_of_ones_becomes_a_reshape_once_the_layout_is_settled() -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, ("n", 1, 4, 1, 3))
    near = b.add(s.Transpose(perm=(0, 2, 1, 3, 4)), [x])
    graph.outputs = [b.add(e.Abs(), [b.add(s.Reshape(shape=(-1, 12)), [near])])]
    data = np.random.default_rng(0).standard_normal((2, 1, 4, 1, 3)).astype(np.float32)
    (before,) = run_graph(graph, [data])
    model = Model([Signature("", graph)])
    assert run_passes(model, [TidyPass()]) == []
    run_passes(model, [TidyPass(settled=True), PrunePass()], verify=True)
    assert [node.op for node in graph.nodes] == [s.Reshape(shape=(-1, 12)), e.Abs()]
    np.testing.assert_array_equal(run_graph(graph, [data])[0], before)


def test_outputs_keep_their_names_and_places() -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 3))
    y = b.add(e.Abs(), [x], name="inner")
    renamed = b.add(s.Reshape(shape=(2, 3)), [y], name="y")
    alias = b.add(s.Identity(), [x], name="copy of x")
    again = b.add(s.Transpose(perm=(0, 1)), [renamed], name="second")
    graph.outputs = [renamed, x, alias, again, renamed]
    data = np.float32([[1, -2, 3], [-4, 5, -6]])
    before = run_graph(graph, [data])
    run_passes(Model([Signature("", graph)]), [TidyPass()], verify=True)
    assert [v.name for v in graph.outputs] == ["y", "x", "copy of x", "second", "y"]
    for old, new in zip(before, run_graph(graph, [data]), strict=True):
        np.testing.assert_array_equal(old, new)
    assert [type(node.op) for node in graph.nodes] == [e.Abs, s.Identity, s.Identity]


def test_other_parameters_are_a_difference() -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.INT8, (2, 3), quant=Quant.per_tensor(0.5))
    graph.outputs = [b.add(s.Reshape(shape=(2, 3)), [x], quant=Quant.per_tensor(0.25))]
    assert not TidyPass().run(graph)
