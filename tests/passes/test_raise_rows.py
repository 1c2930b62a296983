"""1-D convolutions and pools as 2-D ones, and the layout pass behind that."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Op, Quant, Signature, Value
from nnconv.ir.types import Dim
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.conv import Conv1D, Conv2D, ConvTranspose1D
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool1D, MaxPool1D
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, Split, Squeeze, Transpose, Unsqueeze
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.spatial import Padding, channel_dim, spatial_dims
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.prune import PrunePass
from nnconv.passes.raise_rows import RaiseRowsPass
from nnconv.passes.tidy import TidyPass

F32 = DType.FLOAT32
RESHAPES = (Reshape, Squeeze, Unsqueeze)


class Net:
    """A graph on rows under construction."""

    def __init__(self, layout: Layout, batch: Dim = 2) -> None:
        self.layout = layout
        self.channels, (self.row,) = channel_dim(3, layout), spatial_dims(3, layout)
        self.rng = np.random.default_rng(0)
        self.graph = Graph("rows")
        self.b = Builder(self.graph)
        self.x = self.b.input("x", F32, self.order(batch, 3, 9))

    def order(self, batch: Dim, channels: Dim, width: Dim) -> tuple[Dim, ...]:
        channels_first = self.layout is Layout.NCHW
        return (batch, channels, width) if channels_first else (batch, width, channels)

    def floats(self, *shape: Dim) -> Value:
        return self.b.const(self.rng.standard_normal(shape).astype(np.float32))  # type: ignore[arg-type]

    def add(self, op: Op, *inputs: Value | None) -> Value:
        return self.b.add(op, inputs)

    def conv(
        self, x: Value, filters: int, size: int = 3, stride: int = 1, groups: int = 1
    ) -> Value:
        op = Conv1D(
            layout=self.layout,
            stride=(stride,),
            dilation=(2,),
            padding=Padding((size - 1,), (size - 1,)),
            groups=groups,
        )
        depth = x.shape[self.channels] // groups  # type: ignore[index, operator]
        return self.add(op, x, self.floats(filters, size, depth), self.floats(filters))

    def along(self, entry: object, rest: object) -> tuple[object, ...]:
        return tuple(entry if i == self.row else rest for i in range(3))


def run(net: Net, *outputs: Value) -> dict[str, int]:
    """Raise, move, tidy; compare before and after; say how many nodes of each kind are left."""
    net.graph.outputs = list(outputs)
    shape = [d if isinstance(d, int) else 4 for d in net.x.shape or ()]
    inputs = [net.rng.standard_normal(shape).astype(np.float32)]
    before = run_graph(net.graph, inputs)
    model = Model([Signature("", net.graph)])
    raising = RaiseRowsPass()
    run_passes(model, [raising], verify=True)
    for old, new in zip(before, run_graph(net.graph, inputs), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)
    types = [v.type for v in (*net.graph.inputs, *net.graph.outputs)]
    steps = [TidyPass(), LayoutPass(Layout.NHWC), TidyPass(settled=True), PrunePass()]
    run_passes(model, [PrunePass(), *steps], verify=True)
    for old, new in zip(before, run_graph(net.graph, inputs), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)
    assert [v.type for v in (*net.graph.inputs, *net.graph.outputs)] == types
    assert not raising.run(net.graph)
    nodes = list(net.graph.nodes)
    return {
        "transposes": sum(isinstance(n.op, Transpose) for n in nodes),
        "reshapes": sum(isinstance(n.op, RESHAPES) for n in nodes),
    }


def edges(layout: Layout) -> dict[str, int]:
    """What one input and one output take."""
    return {"transposes": 2 if layout is Layout.NCHW else 0, "reshapes": 2}


@pytest.mark.parametrize("batch", [2, "n"])
@pytest.mark.parametrize("layout", Layout)
def test_what_lies_between_is_raised_too(layout, batch):
    net = Net(layout, batch)
    y = net.conv(net.x, 4, stride=2)
    scale = (4, 1) if layout is Layout.NCHW else (4,)
    y = net.add(
        e.Mul(),
        net.add(e.Add(), y, net.floats(*scale)),
        net.floats(1, *scale[:1], 1) if layout is Layout.NCHW else net.floats(1, 1, 4),
    )
    y = net.add(e.PRelu(), y, net.floats(*scale))
    y = net.add(e.Clip(low=0.0, high=3.0), net.add(e.Mul(), y, net.floats()))
    y = net.add(e.Add(), y, net.conv(y, 4, groups=4))
    parts = net.b.add_many(Split(axis=net.channels, sizes=(1, 3)), [y])
    y = net.add(Concat(axis=net.channels), parts[1], net.conv(y, 2), parts[0])
    y = net.add(Pad(before=net.along(2, 0), after=net.along(1, 0)), y)  # type: ignore[arg-type]
    op = Slice(starts=net.along(1, 0), ends=net.along(-1, None), strides=net.along(1, 1))  # type: ignore[arg-type]
    y = net.add(op, y)
    gate = net.add(r.ReduceMean(axes=(net.row,), keep_dims=True), y)
    y = net.add(e.Mul(), y, net.add(e.Sigmoid(), net.conv(gate, 6, 1)))
    y = net.add(Softmax(axis=net.channels), net.conv(y, 5))
    assert run(net, y) == edges(layout)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("kind", [MaxPool1D, AveragePool1D])
@pytest.mark.parametrize("more", [{}, {"dilation": (2,)}, {"ceil": True}])
def test_pools(layout, kind, more):
    net = Net(layout)
    pads = Padding((1,), (1,))
    y = net.add(kind(layout=layout, window=(3,), stride=(2,), padding=pads, **more), net.x)
    assert run(net, y) == edges(layout)


@pytest.mark.parametrize("layout", Layout)
def test_padding_that_awaits_an_extent(layout):
    net = Net(layout)
    net.x.type = net.x.type.with_shape(net.order(2, 3, "w"))
    same = Padding((0,), (0,), same=True)
    op = MaxPool1D(layout=layout, window=(3,), stride=(2,), padding=same)
    assert run(net, net.add(op, net.x)) == edges(layout)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("size", [None, (19,)])
def test_transposed_convolutions(layout, size):
    net = Net(layout)
    op = ConvTranspose1D(
        layout=layout,
        stride=(2,),
        dilation=(1,),
        padding=Padding((1,), (0,)),
        output_padding=(1,),
        size=size,
    )
    y = net.add(op, net.x, net.floats(4, 3, 3), None)
    assert run(net, net.conv(y, 2)) == edges(layout)


@pytest.mark.parametrize("layout", Layout)
def test_values_used_outside_keep_three_dimensions(layout):
    net = Net(layout)
    y = net.conv(net.x, 4)
    last = net.add(Reshape(shape=(2, 36)), y)
    assert run(net, y, last, net.conv(y, 4))["transposes"] <= 3


@pytest.mark.parametrize("layout", Layout)
def test_weights_of_the_graph_and_small_types(layout):
    net = Net(layout)
    op = Conv1D(layout=layout, stride=(1,), dilation=(1,), padding=Padding.none(1))
    half = net.b.const(net.rng.standard_normal((4, 3, 3)).astype(np.float16))
    y = net.add(op, net.x, net.add(Cast(dtype=F32), half))
    weights = net.add(e.Abs(), net.add(e.Neg(), net.floats(2, 2, 4)))
    found = run(net, net.add(op, y, weights))
    assert found["transposes"] == edges(layout)["transposes"]


@pytest.mark.parametrize("layout", Layout)
def test_quantized_parameters_follow(layout):
    net = Net(layout)
    quant = Quant.per_tensor(0.05, 3)
    x = net.b.input("q", DType.INT8, net.order(2, 3, 9), quant=quant)
    weights = net.b.const(
        net.rng.integers(-99, 99, (6, 2, 3)).astype(np.int8),
        quant=Quant.per_channel([0.01 * (i + 1) for i in range(6)], axis=0),
    )
    op = Conv1D(layout=layout, stride=(1,), dilation=(1,), padding=Padding((1,), (0,)))
    y = net.b.add(op, [x, weights, None], quant=quant)
    shape = net.order(1, 6, 1)
    codes = net.b.const(
        np.arange(1, 7, dtype=np.int8).reshape(shape),  # type: ignore[arg-type]
        quant=Quant.per_channel([0.1, 0.2, 0.3] * 2, axis=net.channels),
    )
    y = net.b.add(e.Mul(), [y, codes], quant=Quant.per_tensor(0.1, -5))
    net.graph.inputs, net.graph.outputs = [x], [y]
    inputs = [net.rng.integers(-128, 128, x.shape).astype(np.int8)]
    before = run_graph(net.graph, inputs)
    steps = [RaiseRowsPass(), LayoutPass(Layout.NHWC), PrunePass()]
    run_passes(Model([Signature("", net.graph)]), steps, verify=True)
    np.testing.assert_array_equal(run_graph(net.graph, inputs)[0], before[0])
    assert any(isinstance(node.op, Conv2D) for node in net.graph.nodes)


def test_rows_of_unknown_rank_stay():
    graph = Graph("open")
    b = Builder(graph)
    x = b.input("x", F32, None)
    op = Conv1D(stride=(1,), dilation=(1,), padding=Padding.none(1))
    graph.outputs = [b.add(op, [x, b.const(np.ones((1, 1, 1), np.float32))])]
    run_passes(Model([Signature("", graph)]), [RaiseRowsPass()], verify=True)
    assert any(isinstance(node.op, Conv1D) for node in graph.nodes)
