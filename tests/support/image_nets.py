"""Image networks with channels last, and what the layout pass makes of them."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Signature, Value
from nnconv.ir.types import Dim
from nnconv.ir.verifier import verify_model
from nnconv.ops.conv import Conv2D
from nnconv.ops.pool import MaxPool2D
from nnconv.ops.shape import Transpose
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.prune import PrunePass

F32 = DType.FLOAT32


class Net:
    """A graph under construction, with short words for what image networks are made of."""

    def __init__(self, *shape: Dim, dtype: DType = F32) -> None:
        self.rng = np.random.default_rng(0)
        self.graph = Graph("net")
        self.b = Builder(self.graph)
        self.x = self.b.input("x", dtype, shape or (2, 4, 5, 3))

    def floats(self, *shape: int) -> Value:
        return self.b.const(self.rng.standard_normal(shape).astype(np.float32))

    def floats16(self, *shape: int) -> Value:
        return self.b.const(self.rng.standard_normal(shape).astype(np.float16))

    def conv(self, x: Value, filters: int, size: int = 1, stride: int = 1) -> Value:
        depth = x.shape[-1]  # type: ignore[index]
        edge = (size // 2, size // 2)
        op = Conv2D(stride=(stride, stride), dilation=(1, 1), padding=Padding(edge, edge))
        return self.b.add(op, [x, self.floats(filters, size, size, depth), self.floats(filters)])

    def out(self, *values: Value) -> None:
        self.graph.outputs += values


def arrays(graph: Graph, *, extent: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal(tuple(d if isinstance(d, int) else extent for d in value.shape)).astype(
            value.dtype.numpy
        )
        for value in graph.inputs
    ]


def count(graph: Graph, kind: type = Transpose) -> int:
    return sum(isinstance(node.op, kind) for node in graph.nodes)


def move(graph: Graph, *, extent: int = 3) -> int:
    """Run the pass, compare before and after, and give the number of transposes left."""
    inputs = arrays(graph, extent=extent)
    before = run_graph(graph, inputs)
    names = [(v.name, v.type) for v in graph.inputs]
    model = Model([Signature("", graph)])
    verify_model(model)
    run_passes(model, [PrunePass(), LayoutPass(Layout.NCHW), PrunePass()], verify=True)
    assert [(v.name, v.type) for v in graph.inputs] == names
    for node in graph.nodes:
        if isinstance(node.op, Conv2D | MaxPool2D):
            assert node.op.layout is Layout.NCHW
    after = run_graph(graph, inputs)
    for old, new in zip(before, after, strict=True):
        assert old.shape == new.shape
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return count(graph)
