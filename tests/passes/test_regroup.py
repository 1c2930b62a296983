"""Reshapes to several open extents become moves of parts, where what stays is known by symbols."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph, run_node

from nnconv.ir.builder import Builder
from nnconv.ir.clone import clone_model
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ops.dynamic import DynamicReshape
from nnconv.ops.gather import Gather
from nnconv.ops.shape import Concat, Reshape, ShapeOf
from nnconv.passes.base import run_passes
from nnconv.passes.fold_constants import FoldConstantsPass
from nnconv.passes.prune import PrunePass
from nnconv.passes.regroup import RegroupPass


def built(shape, target, *, op=None):
    """A Reshape of [x.shape] to ``target``, whose strings are those extents of x."""
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, shape)
    extents = b.add(ShapeOf(), [x])
    parts = [
        b.add(Gather(axis=0), [extents, b.const(np.int32([shape.index(t)]))])
        if isinstance(t, str)
        else b.const(np.int32([t]))
        for t in target
    ]
    y = b.add(op or Reshape(shape=None), [x, b.add(Concat(axis=0), parts)], name="y")
    graph.outputs = [y]
    return Model([Signature("", graph, ("x",), ("y",))])


def regrouped(model):
    changed = clone_model(model)
    passes = [FoldConstantsPass(run_node), RegroupPass(), PrunePass()]
    run_passes(changed, passes, verify=True)
    return changed.graph


CASES = {
    "split": (("n", "t", 8), ("n", "t", 2, 4), ["Split", "Stack"], ("n", "t", 2, 4)),
    "joined": (("n", "t", 2, 4), ("n", "t", 8), ["Unstack", "Concat"], ("n", "t", 8)),
    "what is left": (("n", "t", 2, 4), ("n", "t", -1), ["Unstack", "Concat"], ("n", "t", 8)),
    "in between": (
        ("n", 6, "t"), ("n", 2, 3, "t"), ["Split", "Stack"], ("n", 2, 3, "t"),
    ),
    "otherwise": (
        ("n", "t", 4, 3), ("n", "t", 2, 6), ["Unstack", "Concat", "Split", "Stack"],
        ("n", "t", 2, 6),
    ),
    "in three": (
        ("n", 12, "t"), ("n", 2, 3, 2, "t"), ["Split", "Stack", "Split", "Stack"],
        ("n", 2, 3, 2, "t"),
    ),
    "a one put in": (("n", "t"), ("n", 1, "t"), ["Unsqueeze"], ("n", 1, "t")),
    "a one taken out": (("n", 1, "t"), ("n", "t"), ["Squeeze"], ("n", "t")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_reshape_becomes_moves(case):
    shape, target, ops, result = CASES[case]
    model = built(shape, target)
    graph = regrouped(model)
    assert [node.op.name for node in graph.nodes] == ops
    assert graph.outputs[0].shape == result
    assert graph.outputs[0].name == "y"
    known = {"n": 2, "t": 5}
    x = np.random.default_rng(0).normal(size=[known.get(d, d) for d in shape])
    feeds = [x.astype(np.float32)]
    np.testing.assert_array_equal(run_graph(graph, feeds)[0], run_graph(model.graph, feeds)[0])


def test_zeros_stand_for_the_extents_of_the_operand():
    model = built(("n", "t", 8), (0, 0, 4, 2), op=DynamicReshape())
    assert [node.op.name for node in regrouped(model).nodes] == ["Split", "Stack"]


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        (("n", "t", 8), ("t", "n", 8)),
        (("n", "t", 130), ("n", "t", 65, 2)),
        ((None, None, 8), (-1, 8)),
    ],
    ids=["extents change places", "too many parts", "one extent alone"],
)
def test_what_is_no_regrouping_stays(shape, target):
    graph = regrouped(built(shape, target))
    assert [node.op.name for node in graph.nodes if "eshape" in node.op.name]
