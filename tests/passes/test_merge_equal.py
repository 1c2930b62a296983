"""What nodes compute alike is computed once."""

from __future__ import annotations

import numpy as np
import pytest

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ops.elementwise import Add, Mul, Neg
from nnconv.ops.random import Bernoulli
from nnconv.ops.shape import Transpose
from nnconv.passes.merge_equal import MOST_COMPARED, MergeEqualPass

FLOAT = (DType.FLOAT32, (2, 3))


def start() -> tuple[Builder, Graph]:
    graph = Graph("g")
    builder = Builder(graph)
    return builder, graph


def merged(graph: Graph) -> list[str]:
    before = len(graph)
    assert MergeEqualPass().run(graph) is (len(graph) != before)
    assert not MergeEqualPass().run(graph)
    return [node.op.name for node in graph.nodes]


def test_chains_of_equal_nodes_become_one() -> None:
    b, graph = start()
    x = b.input("x", *FLOAT)
    ends = [b.add(Neg(), [b.add(Transpose(perm=(1, 0)), [x])]) for _ in range(3)]
    total = b.add(Add(), [b.add(Add(), ends[:2]), ends[2]])
    graph.outputs = [total]
    assert merged(graph) == ["Transpose", "Neg", "Add", "Add"]


@pytest.mark.parametrize(
    ("count", "same"), [(1, True), (MOST_COMPARED, True), (MOST_COMPARED + 1, False)]
)
def test_constants_are_compared_where_they_are_small(count: int, same: bool) -> None:
    b, graph = start()
    x = b.input("x", DType.FLOAT32, (count,))
    parts = [b.add(Mul(), [x, b.const(np.full(count, 2, np.float32))]) for _ in range(2)]
    graph.outputs = [b.add(Add(), parts)]
    assert merged(graph) == ["Mul", *["Mul"] * (not same), "Add"]


def test_what_differs_stays() -> None:
    b, graph = start()
    x, y = b.input("x", *FLOAT), b.input("y", *FLOAT)
    two, minus = (b.const(np.float32(v)) for v in (0.0, -0.0))
    parts = [b.add(Mul(), [x, two]), b.add(Mul(), [x, minus]), b.add(Mul(), [y, two])]
    graph.outputs = [b.add(Add(), [b.add(Add(), parts[:2]), parts[2]])]
    assert merged(graph).count("Mul") == 3


def test_outputs_keep_their_nodes() -> None:
    b, graph = start()
    x = b.input("x", *FLOAT)
    graph.outputs = [b.add(Neg(), [x], name="a"), b.add(Neg(), [x], name="b")]
    assert merged(graph) == ["Neg", "Neg"]
    assert [value.name for value in graph.outputs] == ["a", "b"]


def test_random_numbers_are_drawn_as_often_as_before() -> None:
    b, graph = start()
    x = b.input("x", *FLOAT)
    drawn = [b.add(Bernoulli(dtype=DType.FLOAT32), [x]) for _ in range(2)]
    graph.outputs = [b.add(Add(), drawn)]
    assert merged(graph) == ["Bernoulli", "Bernoulli", "Add"]
