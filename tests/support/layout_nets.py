"""Channels-first graphs of image networks, moved to channels last and compared."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Op, Signature, Value
from nnconv.ir.types import Dim
from nnconv.ir.verifier import verify_model
from nnconv.ops import elementwise as e
from nnconv.ops.conv import Conv2D
from nnconv.ops.shape import Transpose
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.prune import PrunePass
from nnconv.passes.tidy import TidyPass

F32 = DType.FLOAT32
NCHW = Layout.NCHW


class Net:
    """A channels-first graph under construction, with short words for its usual parts."""

    def __init__(self, *shape: Dim) -> None:
        self.rng = np.random.default_rng(0)
        self.graph = Graph("net")
        self.b = Builder(self.graph)
        self.x = self.b.input("x", F32, shape or (2, 3, 5, 7))

    def floats(self, *shape: int) -> Value:
        return self.b.const(self.rng.standard_normal(shape).astype(np.float32))

    def add(self, op: Op, *inputs: Value | None) -> Value:
        return self.b.add(op, inputs)

    def conv(self, x: Value, filters: int, size: int = 1, groups: int = 1, **more: object) -> Value:
        depth = x.shape[1]  # type: ignore[index]
        edge = (size // 2, size // 2)
        op = Conv2D(
            layout=NCHW,
            stride=(1, 1),
            dilation=(1, 1),
            padding=Padding(edge, edge),
            groups=groups,
            **more,  # type: ignore[arg-type]
        )
        weights = self.floats(filters, size, size, depth // groups)
        return self.add(op, x, weights, self.floats(filters))

    def norm(self, x: Value) -> Value:
        """What is left of a BatchNormalization."""
        shape = (x.shape[1], 1, 1)  # type: ignore[index]
        return self.add(e.Add(), self.add(e.Mul(), x, self.floats(*shape)), self.floats(1, *shape))

    def relu(self, x: Value) -> Value:
        return self.add(e.Clip(low=0.0, high=float("inf")), x)

    def out(self, *values: Value) -> None:
        self.graph.outputs += values


def count(graph: Graph, kind: type = Transpose) -> int:
    return sum(isinstance(node.op, kind) for node in graph.nodes)


def inner(graph: Graph) -> list[tuple[int, ...]]:
    """Transposes that neither take an input nor give an output."""
    edge = {*graph.inputs, *graph.outputs}
    return [
        node.op.perm
        for node in graph.nodes
        if isinstance(node.op, Transpose) and not edge & {*node.inputs, *node.outputs}
    ]


def move(graph: Graph, *, extent: int = 2) -> int:
    """Run the pass, compare before and after, and give the number of transposes left."""
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal(
            tuple(d if isinstance(d, int) else extent for d in v.shape or ())
        ).astype(v.dtype.numpy)
        for v in graph.inputs
    ]
    before = run_graph(graph, inputs)
    edge = [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)]
    model = Model([Signature("", graph)])
    verify_model(model)
    steps = [PrunePass(), LayoutPass(Layout.NHWC), TidyPass(settled=True), PrunePass()]
    run_passes(model, steps, verify=True)
    after = [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)]
    assert [t for _, t in after] == [t for _, t in edge]
    for node in graph.nodes:
        assert getattr(node.op, "layout", Layout.NHWC) is Layout.NHWC
    for old, new in zip(before, run_graph(graph, inputs), strict=True):
        assert old.shape == new.shape
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-4)
    return count(graph)
