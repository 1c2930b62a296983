"""The layout pass: what it computes stays the same, and no transpose is left that needn't be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Activation, Builder, DType, Graph, Layout, Model, Quant, Signature, Value
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.conv import Conv2D
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.norm import L2Normalization, LogSoftmax, Softmax
from nnconv.ops.quantize import Cast
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.shape import Concat, Reshape, ShapeOf, Split, Squeeze, Tile, Transpose, Unsqueeze
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from support.image_nets import F32, Net, arrays, count, move

# ---------------------------------------------------------------- constants and operands


def test_nothing_but_the_interface_is_transposed():
    net = Net()
    left = net.conv(net.x, 6, 3)
    left = net.b.add(e.Clip(low=0.0, high=float("inf")), [left])
    left = net.b.add(e.Add(), [left, net.floats(6)])
    left = net.conv(left, 4)
    right = net.conv(net.x, 7)
    joined = net.b.add(Concat(axis=3), [left, right])
    net.out(net.b.add(r.ReduceMean(axes=(1, 2)), [joined]))
    assert move(net.graph) == 1


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (2, 4, 4, 4), (1, 4, 5, 4), (1, 1, 1, 4)])
@pytest.mark.parametrize("wide", [(), (3,), (2,), (1,), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_constants_follow_by_place_not_by_size(shape, wide, rank):
    net = Net(*shape)
    const = tuple(d if i in wide else 1 for i, d in enumerate(shape))[4 - rank :]
    net.out(net.b.add(e.Add(), [net.conv(net.x, 4), net.floats(*const)]))
    assert move(net.graph) <= 2


@pytest.mark.parametrize("shape", [(5,), (3, 1), (2, 1, 1), (3, 5), (1, 2, 3, 5), (1, 1, 1, 5)])
def test_constants_of_lower_rank_keep_their_meaning(shape):
    net = Net(1, 2, 3, 7)
    net.out(net.b.add(e.Mul(), [net.conv(net.x, 5), net.floats(*shape)]))
    assert move(net.graph) == 2


@pytest.mark.parametrize("shape", [(), (5,), (3, 1), (4, 1, 5), (4, 3, 5), (2, 4, 3, 5), (1, 1)])
def test_widened_constants_follow_like_constants(shape):
    net = Net(2, 4, 3, 7)
    y = net.b.add(e.Add(), [net.x, net.b.add(Cast(dtype=F32), [net.floats16(7)])])
    y = net.b.add(e.Mul(), [net.conv(y, 5), net.b.add(Cast(dtype=F32), [net.floats16(*shape)])])
    net.out(net.conv(y, 2))
    assert move(net.graph) == 2
    assert all(c.dtype is DType.FLOAT16 for c in _cast(net.graph))


def _cast(graph: Graph) -> list[Value]:
    return [n.inputs[0] for n in graph.nodes if isinstance(n.op, Cast)]


@pytest.mark.parametrize("shape", [(), (5,), (3, 1), (4, 1, 5), (4, 3, 5), (2, 4, 3, 5), (1, 1)])
def test_operands_of_lower_rank_keep_their_meaning(shape):
    net = Net(2, 4, 3, 7)
    other = net.b.input("other", F32, shape)
    net.out(net.b.add(e.Sub(), [net.b.add(e.Abs(), [other]), net.conv(net.x, 5)]))
    move(net.graph)


def test_an_operand_of_unknown_extents_is_lifted():
    net = Net(2, 4, 3, 7)
    other = net.b.input("other", F32, ("a", "b", 5))
    y = net.b.add(e.Sub(), [net.conv(net.x, 5), other])
    net.out(y)
    inputs = [*arrays(net.graph)[:1], np.ones((4, 3, 5), np.float32)]
    before = run_graph(net.graph, inputs)
    model = Model([Signature("", net.graph)])
    run_passes(model, [LayoutPass(Layout.NCHW)], verify=True)
    np.testing.assert_allclose(run_graph(net.graph, inputs)[0], before[0], rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- ops with axes


def _pair(build: Callable[[Net, Value], Value | Sequence[Value]]) -> int:
    net = Net(2, 3, 4, 7)
    y = build(net, net.conv(net.x, 5))
    net.out(*([y] if isinstance(y, Value) else y))
    return move(net.graph)


REDUCTIONS = [r.ReduceMean, r.ReduceSum, r.ReduceProd, r.ReduceMax, r.ReduceMin]
AXES = [(0,), (1,), (2,), (3,), (1, 2), (0, 3), (2, 3), (0, 1, 2, 3), ()]


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(kind, axes, keep):
    left = _pair(lambda net, y: net.b.add(kind(axes=axes, keep_dims=keep), [y]))
    assert left == (1 if not keep and set(axes) & {3} else left)
    assert left <= 2


@pytest.mark.parametrize("op", [r.ArgMax, r.ArgMin])
@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("keep", [False, True])
def test_indices_of_extremes(op, axis, keep):
    left = _pair(lambda net, y: net.b.add(op(axis=axis, keep_dims=keep), [y]))
    assert left == (1 if axis == 3 else 2)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("kind", [Softmax, LogSoftmax, L2Normalization])
def test_normalizations(kind, axis):
    assert _pair(lambda net, y: net.b.add(kind(axis=axis), [y])) == 2


@pytest.mark.parametrize("axis", range(4))
def test_running_sums(axis):
    assert _pair(lambda net, y: net.b.add(r.CumSum(axis=axis, reverse=True), [y])) == 2


@pytest.mark.parametrize("axis", range(4))
def test_joining_and_splitting(axis):
    def build(net: Net, y: Value) -> list[Value]:
        joined = net.b.add(Concat(axis=axis), [y, y])
        size = y.shape[axis]
        parts = net.b.add_many(Split(axis=axis, sizes=(1, 2 * size - 1)), [joined])
        return [net.conv(parts[0], 2), net.b.add(e.Neg(), [parts[1]])]

    assert _pair(build) == 3


@pytest.mark.parametrize(
    "op",
    [
        Slice(starts=(0, 1, 1, 2), ends=(None, 3, None, -1), strides=(1, 1, 2, 1)),
        Slice(starts=(None, -1, 0, 4), ends=(None, None, 2, 0), strides=(-1, -1, 1, -2)),
        Pad(before=(0, 1, 2, 3), after=(1, 0, 0, 2)),
        Tile(repeats=(1, 2, 1, 3)),
        Transpose(perm=(0, 3, 1, 2)),
        Transpose(perm=(3, 2, 1, 0)),
        Squeeze(axes=()),
        Reshape(shape=(2, -1)),
        Reshape(shape=(6, 20)),
    ],
)
def test_moving_ops(op):
    assert _pair(lambda net, y: net.b.add(op, [y])) <= 2


def test_transposes_of_the_source_cancel():
    net = Net(2, 7, 3, 4)
    y = net.conv(net.b.add(Transpose(perm=(0, 2, 3, 1)), [net.x]), 5)
    net.out(net.b.add(Transpose(perm=(0, 3, 1, 2)), [y]))
    assert move(net.graph) == 0


@pytest.mark.parametrize("axis", range(4))
def test_gather(axis):
    def build(net: Net, y: Value) -> Value:
        return net.b.add(Gather(axis=axis), [y, net.b.const(np.array([1, 0], np.int32))])

    assert _pair(build) <= 2


def test_shape_of_a_moved_value():
    def build(net: Net, y: Value) -> list[Value]:
        return [net.b.add(ShapeOf(), [y]), net.b.add(ShapeOf(dims=(3, 1)), [y])]

    assert _pair(build) == 1


# ---------------------------------------------------------------- structure


def test_squeeze_and_excite_keeps_inside():
    net = Net()
    y = net.conv(net.x, 6, 3)
    gate = net.b.add(r.ReduceMean(axes=(1, 2), keep_dims=True), [y])
    gate = net.b.add(e.Sigmoid(), [net.conv(net.conv(gate, 2), 6)])
    net.out(net.conv(net.b.add(e.Mul(), [y, gate]), 4))
    assert move(net.graph) == 2


def test_squeeze_and_excite_with_fully_connected_layers():
    net = Net()
    y = net.conv(net.x, 6, 3)
    gate = net.b.add(r.ReduceMean(axes=(1, 2)), [y])
    gate = net.b.add(FullyConnected(), [gate, net.floats(6, 6), None])
    gate = net.b.add(Reshape(shape=(2, 1, 1, 6)), [gate])
    net.out(net.conv(net.b.add(e.Mul(), [y, gate]), 4))
    assert move(net.graph) == 2


def test_select_and_prelu_follow():
    net = Net()
    y = net.conv(net.x, 6)
    y = net.b.add(e.PRelu(), [y, net.floats(1, 1, 6)])
    y = net.b.add(e.Select(), [net.b.add(e.Less(), [y, net.floats(6)]), y, net.floats()])
    net.out(net.conv(y, 3))
    assert move(net.graph) == 2


def test_an_output_inside_a_region_costs_one_transpose():
    net = Net()
    middle = net.conv(net.x, 6)
    net.out(middle, net.conv(middle, 3), middle)
    assert move(net.graph) == 3


def test_two_readers_share_a_transpose():
    net = Net()
    y = net.conv(net.x, 6)
    net.out(*(net.b.add(Reshape(shape=(4, 60)), [y]) for _ in range(3)))
    assert move(net.graph) == 2


def test_input_read_in_both_orders():
    net = Net()
    net.out(net.conv(net.x, 6), net.b.add(Reshape(shape=(-1,)), [net.x]))
    assert move(net.graph) == 2


def test_residual_of_two_inputs_is_transposed_behind_the_sum():
    net = Net()
    other = net.b.input("other", F32, (2, 4, 5, 3))
    net.out(net.conv(net.b.add(e.Add(), [net.x, other]), 4))
    assert move(net.graph) == 2


def test_flattening_turns_the_weights():
    net = Net()
    flat = net.b.add(Reshape(shape=(2, 120)), [net.conv(net.x, 6)])
    net.out(net.b.add(FullyConnected(), [flat, net.floats(4, 120), net.floats(4)]))
    assert move(net.graph) == 1


def test_flattening_read_twice():
    net = Net()
    flat = net.b.add(Reshape(shape=(2, 120)), [net.conv(net.x, 6)])
    net.out(net.b.add(FullyConnected(), [flat, net.floats(4, 120), None]), flat)
    assert move(net.graph) == 2


def test_shared_weights_are_turned_for_one_reader_only():
    net = Net()
    weights = net.floats(4, 120)
    flat = net.b.add(Reshape(shape=(2, 120)), [net.conv(net.x, 6)])
    plain = net.b.input("plain", F32, (3, 120))
    net.out(*(net.b.add(FullyConnected(), [v, weights, None]) for v in (flat, plain)))
    assert move(net.graph) == 1


def test_extents_of_one_need_no_transpose():
    net = Net(2, 1, 1, 3)
    y = net.conv(net.x, 6)
    net.out(net.b.add(Reshape(shape=(2, 6)), [y]), y)
    assert move(net.graph) == 0


def test_one_channel_in_needs_no_transpose():
    net = Net(2, 4, 5, 1)
    net.out(net.b.add(r.ReduceMax(axes=(1, 2)), [net.conv(net.x, 3)]))
    assert move(net.graph) == 0


@pytest.mark.parametrize("shape", [("n", 4, 5, 3), ("n", "h", "w", 3), (None, None, None, 3)])
def test_dynamic_extents(shape):
    net = Net(*shape)
    y = net.b.add(e.Mul(), [net.conv(net.x, 4, 3), net.floats(4)])
    gate = net.b.add(r.ReduceMean(axes=(1, 2), keep_dims=True), [y])
    net.out(net.b.add(e.Mul(), [y, gate]), net.b.add(Reshape(shape=(-1, 4)), [gate]))
    assert move(net.graph) == 2


@pytest.mark.parametrize("batch", [2, "n", 1])
@pytest.mark.parametrize("down", [Squeeze(axes=(1,)), Reshape(shape=(-1, 7, 5))])
@pytest.mark.parametrize("up", [Unsqueeze(axes=(1,)), Reshape(shape=(-1, 1, 7, 5))])
def test_convolutions_along_one_dimension_keep_inside(batch, down, up):
    net = Net(batch, 1, 7, 3)
    y = net.b.add(down, [net.conv(net.x, 5)])
    y = net.b.add(e.Clip(low=0.0, high=6.0), [net.b.add(e.Add(), [y, net.floats(5)])])
    net.out(net.conv(net.b.add(up, [y]), 4))
    assert move(net.graph) == 2


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (3,), (1, 2), (1, 2, 3), ()])
def test_squeezing(axes):
    net = Net(*(1 if i in axes else d for i, d in enumerate((2, 4, 5, 3))))
    y = net.b.add(Squeeze(axes=axes), [net.conv(net.x, 1 if 3 in axes else 6)])
    net.out(net.b.add(e.Neg(), [y]))
    assert move(net.graph) <= 2


@pytest.mark.parametrize("shape", [(2, 4, 5, 6, 1), (2, 4, 1, 5, 6), (1, 2, 4, 5, 6), (8, 5, 6)])
def test_reshapes_of_moved_values(shape):
    net = Net(2, 4, 5, 3)
    y = net.b.add(Reshape(shape=shape), [net.conv(net.x, 6)])
    net.out(net.b.add(e.Neg(), [y]), net.b.add(r.ReduceSum(axes=(0,)), [y]))
    assert move(net.graph) <= 3


def test_dynamic_batch_of_single_pixels():
    net = Net("n", 1, 1, 3)
    net.out(net.b.add(Reshape(shape=(-1, 4)), [net.conv(net.x, 4)]))
    assert move(net.graph) == 0


@pytest.mark.parametrize("kind", [ResizeBilinear, ResizeNearest])
def test_resize_between_convolutions_moves(kind):
    net = Net()
    y = net.b.add(kind(size=(8, 10), half_pixel=True), [net.conv(net.x, 4)])
    net.out(net.conv(y, 3))
    assert move(net.graph) == 2
    assert _resize(net.graph).layout is Layout.NCHW


def test_bilinear_resize_at_an_edge_stays():
    net = Net()
    y = net.conv(net.b.add(ResizeBilinear(size=(8, 10)), [net.x]), 4)
    net.out(y)
    assert move(net.graph) == 2
    assert _resize(net.graph).layout is Layout.NHWC
    net = Net()
    net.out(net.b.add(ResizeBilinear(size=(8, 10)), [net.conv(net.x, 4)]))
    assert move(net.graph) == 2
    assert _resize(net.graph).layout is Layout.NHWC


def _resize(graph: Graph) -> ResizeBilinear:
    (op,) = [n.op for n in graph.nodes if isinstance(n.op, ResizeBilinear | ResizeNearest)]
    return op


def test_attention_over_channels_stays_inside():
    net = Net()
    y = net.conv(net.x, 6)
    net.out(net.conv(net.b.add(e.Mul(), [net.b.add(Softmax(axis=3), [y]), y]), 3))
    assert move(net.graph) == 2


def test_quantized_parameters_follow():
    net = Net()
    quant = Quant.per_tensor(0.05, 3)
    graph = Graph("q")
    b = Builder(graph)
    x = b.input("x", DType.INT8, (2, 4, 5, 3), quant=quant)
    weights = b.const(
        net.rng.integers(-99, 99, (6, 3, 3, 3)).astype(np.int8),
        quant=Quant.per_channel([0.01 * (i + 1) for i in range(6)], axis=0),
    )
    op = Conv2D(
        stride=(2, 1),
        dilation=(1, 1),
        padding=Padding((0, 1), (1, 1)),
        activation=Activation.RELU6,
    )
    y = b.add(op, [x, weights, None], quant=quant)
    scale = b.const(
        np.arange(1, 7, dtype=np.int8), quant=Quant.per_channel([0.1, 0.2, 0.3] * 2, axis=0)
    )
    y = b.add(e.Mul(), [y, scale], quant=Quant.per_tensor(0.1, -5))
    graph.outputs = [y]
    inputs = [net.rng.integers(-128, 128, (2, 4, 5, 3)).astype(np.int8)]
    before = run_graph(graph, inputs)
    run_passes(Model([Signature("", graph)]), [LayoutPass(Layout.NCHW)], verify=True)
    assert count(graph) == 2
    np.testing.assert_array_equal(run_graph(graph, inputs)[0], before[0])


@pytest.mark.parametrize("target", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize("order", [(Layout.NHWC, Layout.NCHW), (Layout.NCHW, Layout.NHWC)])
@pytest.mark.parametrize("middle", [(2, 3, 1, 2), (2, 3, 2, 1), (2, 2, 3, 1), (2, 1, 2, 3)])
@pytest.mark.parametrize("whole", [False, True])
def test_layouts_may_be_mixed(
    target: Layout, order: tuple[Layout, Layout], middle: tuple[int, ...], whole: bool
) -> None:
    """NNAPI's operations say each for itself where their channels are."""
    net = Net()
    graph = Graph("main")
    b = Builder(graph)
    first = order[0] is Layout.NHWC
    value = b.input("x", F32, (2, 3, 1, 4) if first else (2, 4, 3, 1))
    for layout, filters in zip(order, (2, 1), strict=True):
        assert value.shape is not None
        _, *rest = value.shape
        channels, sides = (rest[0], rest[1:]) if layout is Layout.NCHW else (rest[2], rest[:2])
        window = sides if whole and filters == 1 else (1, 1)
        weights = b.const(net.rng.normal(size=(filters, *window, channels)).astype(np.float32))
        op = Conv2D(layout=layout, stride=(1, 1), dilation=(1, 1), padding=Padding.none())
        value = b.add(op, [value, weights, None])
        if filters == 2:
            value = b.add(Reshape(shape=middle), [value])
    graph.outputs = [value]
    x = net.rng.normal(size=graph.inputs[0].shape).astype(np.float32)
    (wanted,) = run_graph(graph, [x])
    run_passes(Model([Signature("", graph)]), [LayoutPass(target)], verify=True)
    (found,) = run_graph(graph, [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
