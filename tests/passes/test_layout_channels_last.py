"""The layout pass to channels last: what image networks in PyTorch's style are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Activation, DType, Layout, Model, Quant, Signature, Value
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.control import If
from nnconv.ops.conv import Conv2D, Conv3D, ConvInteger, ConvTranspose2D
from nnconv.ops.gather import TopK
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.product import Gemm
from nnconv.ops.quantize import Cast, Dequantize, DynamicQuantize, Quantize
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.shape import BroadcastTo, Concat, Reshape, Split, Squeeze, Transpose, Unsqueeze
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.prune import PrunePass
from support.layout_nets import F32, NCHW, Net, count, inner, move

# ---------------------------------------------------------------- inside one region


def test_a_residual_block_keeps_inside():
    net = Net(2, 4, 5, 7)
    y = net.relu(net.norm(net.conv(net.x, 8, 3)))
    z = net.norm(net.conv(y, 8, 3, groups=8))
    z = net.relu(net.add(e.Add(), z, y))
    pool = MaxPool2D(layout=NCHW, window=(3, 3), stride=(2, 2), padding=Padding((1, 1), (1, 1)))
    net.out(net.add(pool, z))
    assert move(net.graph) == 2


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1), (1, 1), (), (6, 5, 7), (5, 7), (7,)])
def test_constants_follow_by_place(shape):
    net = Net()
    y = net.conv(net.x, 6)
    y = net.add(e.Mul(), y, net.floats(*shape))
    y = net.add(e.PRelu(), y, net.floats(*shape))
    net.out(net.conv(y, 2))
    assert move(net.graph) == 2


@pytest.mark.parametrize("keep", [True, False])
def test_squeeze_and_excite(keep):
    net = Net()
    y = net.conv(net.x, 6, 3)
    gate = net.add(r.ReduceMean(axes=(2, 3), keep_dims=keep), y)
    if not keep:
        gate = net.add(FullyConnected(), gate, net.floats(6, 6), None)
        gate = net.add(Unsqueeze(axes=(2, 3)), gate)
    gate = net.add(e.Sigmoid(), net.conv(net.relu(net.conv(gate, 2)), 6))
    net.out(net.conv(net.add(e.Mul(), y, gate), 4))
    assert move(net.graph) == 2


def test_joining_splitting_slicing_and_padding_channels():
    net = Net()
    y = net.conv(net.x, 6)
    parts = net.b.add_many(Split(axis=1, sizes=(2, 4)), [y])
    y = net.add(Concat(axis=1), parts[1], net.conv(parts[0], 5), parts[0])
    full = (None,) * 2
    y = net.add(Slice(starts=(0, 1, *full), ends=(None, 9, None, -1), strides=(1, 2, 1, 1)), y)
    y = net.add(Pad(before=(0, 1, 1, 0), after=(0, 0, 2, 1), value=0.5), y)
    net.out(net.conv(y, 3))
    assert move(net.graph) == 2


@pytest.mark.parametrize("kind", [ResizeBilinear, ResizeNearest])
def test_resizes_move_wherever_they_stand(kind):
    net = Net()
    first = net.add(kind(layout=NCHW, size=(10, 14), half_pixel=True), net.x)
    net.out(net.add(kind(layout=NCHW, size=(20, 28)), net.conv(first, 4)))
    assert move(net.graph) == 2


@pytest.mark.parametrize("kind", [ResizeBilinear, ResizeNearest])
def test_a_resize_alone_moves(kind):
    net = Net()
    net.out(net.add(kind(layout=NCHW, size=(10, 14)), net.x))
    assert move(net.graph) == 2


def test_a_segmentation_head():
    net = Net()
    y = net.add(ResizeBilinear(layout=NCHW, size=(10, 14)), net.conv(net.x, 6))
    net.out(net.add(Softmax(axis=1), y), net.add(r.ArgMax(axis=1), y))
    assert move(net.graph) == 2
    assert {n.op.axis for n in net.graph.nodes if isinstance(n.op, Softmax | r.ArgMax)} == {3}


def test_what_works_along_the_last_dimension_alone_stays_there():
    net = Net()
    flat = net.add(Reshape(shape=(2, 6, 35)), net.conv(net.x, 6))
    soft = net.add(Softmax(axis=2), flat)
    places = net.add(MatMul(), soft, net.floats(35, 2))
    net.out(places, *net.b.add_many(TopK(axis=2, k=3), [net.relu(flat)]))
    move(net.graph)
    assert {n.op.axis for n in net.graph.nodes if isinstance(n.op, Softmax | TopK)} == {2}


@pytest.mark.parametrize("shape", [(2, 6, 1, 1), (6, 1, 1), (1, 6, 5, 1), (7,)])
def test_broadcasting_to_an_image(shape):
    net = Net()
    other = net.b.input("other", F32, shape)
    wide = net.add(BroadcastTo(shape=(2, 6, 5, 7)), net.relu(other))
    net.out(net.conv(net.add(Concat(axis=1), wide, net.conv(net.x, 4)), 3))
    assert move(net.graph) <= 4 - (2 * (shape[-2:] in [(1, 1), (7,)]))
    assert not inner(net.graph)


def test_normalizing_over_an_image():
    net = Net()
    y = net.conv(net.x, 6)
    mean = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), y)
    off = net.add(e.Sub(), y, mean)
    var = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), net.add(e.Square(), off))
    y = net.norm(net.add(e.Mul(), off, net.add(e.Rsqrt(), var)))
    net.out(net.conv(y, 3))
    assert move(net.graph) == 2


@pytest.mark.parametrize("crd", [False, True])
def test_pixel_shuffle(crd):
    net = Net()
    y = net.add(DepthToSpace(layout=NCHW, block=2, column_row_depth=crd), net.conv(net.x, 12))
    y = net.add(SpaceToDepth(layout=NCHW, block=2), net.conv(y, 5))
    net.out(net.conv(y, 3))
    assert move(net.graph) == 2


def test_transposed_convolutions():
    net = Net()
    y = net.conv(net.x, 4)
    op = ConvTranspose2D(
        layout=NCHW,
        stride=(2, 2),
        dilation=(1, 1),
        padding=Padding((1, 1), (1, 1)),
        output_padding=(1, 1),
    )
    net.out(net.conv(net.add(op, y, net.floats(5, 3, 3, 4), None), 2))
    assert move(net.graph) == 2


def test_volumes():
    net = Net(2, 3, 4, 5, 6)
    one = (1, 1, 1)
    op = Conv3D(layout=NCHW, stride=one, dilation=one, padding=Padding(one, one))
    y = net.add(op, net.x, net.floats(8, 3, 3, 3, 3), net.floats(8))
    y = net.add(e.Mul(), net.relu(y), net.floats(8, 1, 1, 1))
    gate = net.add(r.ReduceMean(axes=(2, 3, 4), keep_dims=True), y)
    y = net.add(e.Mul(), y, net.add(e.Sigmoid(), gate))
    net.out(net.add(op, y, net.floats(2, 3, 3, 3, 8), None))
    assert move(net.graph) == 2


@pytest.mark.parametrize("shape", [("n", 3, 5, 7), ("n", 3, "h", "w"), (None, 3, None, None)])
def test_dynamic_extents(shape):
    net = Net(*shape)
    y = net.norm(net.conv(net.x, 4, 3))
    gate = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), y)
    y = net.conv(net.add(e.Mul(), y, gate), 6)
    flat = net.add(Reshape(shape=(-1, 6)), net.add(r.ReduceMax(axes=(2, 3), keep_dims=True), y))
    net.out(y, net.add(FullyConnected(), flat, net.floats(4, 6), None))
    assert move(net.graph, extent=3) == 2


def test_an_output_inside_a_region_costs_one_transpose():
    net = Net()
    middle = net.conv(net.x, 6)
    net.out(middle, net.conv(net.relu(middle), 3), middle)
    assert move(net.graph) == 3
    assert not inner(net.graph)


# ---------------------------------------------------------------- flattening


def _layers(net: Net, kind: str, flat: Value, outs: int = 4) -> Value:
    depth = flat.shape[1]
    if kind == "fully connected":
        return net.add(FullyConnected(), flat, net.floats(outs, depth), net.floats(outs))
    if kind.startswith("sum of products"):
        shape = (depth, outs) if kind == KINDS[3] else (outs, depth)
        op = Gemm(alpha=0.5, transpose_b=kind != KINDS[3])
        return net.add(op, flat, net.floats(*shape), net.floats(outs))
    if kind == "product":
        return net.add(MatMul(), flat, net.floats(depth, outs))
    return net.add(MatMul(transpose_b=True), flat, net.floats(outs, depth))


KINDS = [
    "fully connected",
    "product",
    "product with the transpose",
    "sum of products",
    "sum of products with the transpose",
]


@pytest.mark.parametrize("batch", [1, 2, "n"])
@pytest.mark.parametrize("kind", KINDS)
def test_flattening_turns_the_weights(kind, batch):
    net = Net(batch, 3, 5, 7)
    flat = net.add(Reshape(shape=(-1, 210)), net.relu(net.conv(net.x, 6)))
    net.out(_layers(net, kind, flat), _layers(net, kind, flat, 2))
    assert move(net.graph) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_works_on_columns_in_between_is_turned_too(kind):
    net = Net()
    flat = net.add(Reshape(shape=(2, -1)), net.conv(net.x, 6))
    flat = net.add(e.Mul(), flat, net.floats(210))
    flat = net.add(e.Add(), net.floats(1, 210), flat)
    flat = net.relu(net.add(e.Mul(), flat, net.floats(1)))
    net.out(_layers(net, kind, flat))
    assert move(net.graph) == 1


def test_a_flattened_value_that_others_read_is_turned_back():
    net = Net()
    flat = net.add(Reshape(shape=(2, -1)), net.conv(net.x, 6))
    net.out(_layers(net, "product", flat), net.relu(flat))
    assert move(net.graph) == 2
    net = Net()
    flat = net.add(Reshape(shape=(2, -1)), net.conv(net.x, 6))
    net.out(net.add(MatMul(transpose_a=True), flat, net.floats(2, 4)))
    assert move(net.graph) == 2


def test_flattening_one_pixel_needs_no_transpose():
    net = Net("n", 3, 5, 7)
    y = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), net.conv(net.x, 6))
    net.out(net.add(Reshape(shape=(-1, 6)), y))
    assert move(net.graph) == 1


# ---------------------------------------------------------------- transposes and regrouping


def test_a_detector_head_has_no_transposes():
    net = Net()
    heads = []
    y = net.conv(net.x, 8)
    for size in (1, 3):
        head = net.add(Transpose(perm=(0, 2, 3, 1)), net.conv(y, 12, size))
        heads.append(net.add(Reshape(shape=(2, -1, 4)), head))
    net.out(net.add(Concat(axis=1), *heads))
    assert move(net.graph) == 1


def test_channels_last_in_the_source_cancels():
    net = Net(2, 5, 7, 3)
    y = net.conv(net.add(Transpose(perm=(0, 3, 1, 2)), net.x), 6)
    net.out(net.add(Transpose(perm=(0, 2, 3, 1)), y))
    assert move(net.graph) == 0


def test_normalizing_channels_between_transposes():
    net = Net()
    y = net.conv(net.x, 6, 3)
    z = net.add(Transpose(perm=(0, 2, 3, 1)), y)
    z = net.add(e.Sub(), z, net.add(r.ReduceMean(axes=(3,), keep_dims=True), z))
    z = net.add(e.Mul(), z, net.floats(6))
    z = net.add(FullyConnected(), z, net.floats(12, 6), None)
    z = net.add(FullyConnected(), z, net.floats(6, 12), None)
    z = net.add(Transpose(perm=(0, 3, 1, 2)), net.add(e.Mul(), z, net.floats(6)))
    net.out(net.conv(net.add(e.Add(), y, z), 3))
    assert move(net.graph) == 2


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("open_batch", [False, True])
def test_a_channel_shuffle_moves_last_dimensions_alone(batch, open_batch):
    net = Net(batch, 3, 5, 7)
    y = net.conv(net.x, 6)
    first = -1 if open_batch else batch
    y = net.add(Reshape(shape=(first, 2, 3, 5, 7)), y)
    y = net.add(Transpose(perm=(0, 2, 1, 3, 4)), y)
    y = net.add(Reshape(shape=(first, 6, 5, 7)), y)
    parts = net.b.add_many(Split(axis=1, sizes=(3, 3)), [y])
    net.out(net.conv(net.add(Concat(axis=1), parts[0], net.conv(parts[1], 4)), 3))
    assert move(net.graph) == 3
    assert inner(net.graph) == [(0, 1, 2, 4, 3)]


def test_pixel_shuffle_spelled_out():
    net = Net()
    y = net.add(Reshape(shape=(2, 3, 2, 2, 5, 7)), net.conv(net.x, 12))
    y = net.add(Transpose(perm=(0, 1, 4, 2, 5, 3)), y)
    net.out(net.conv(net.add(Reshape(shape=(2, 3, 10, 14)), y), 4))
    assert move(net.graph) == 3


@pytest.mark.parametrize("spelled", [True, False])
def test_attention_over_pixels(spelled):
    net = Net()
    y = net.conv(net.x, 6)
    flat = [net.add(Reshape(shape=(2, 6, 35)), net.conv(y, 6)) for _ in range(3)]
    turn = Transpose(perm=(0, 2, 1))
    if spelled:
        scores = net.add(MatMul(), net.add(turn, flat[0]), flat[1])
        scores = net.add(Softmax(axis=2), scores)
        z = net.add(MatMul(), flat[2], net.add(turn, scores))
    else:
        scores = net.add(Softmax(axis=2), net.add(MatMul(transpose_a=True), flat[0], flat[1]))
        z = net.add(MatMul(transpose_b=True), flat[2], scores)
    z = net.add(Reshape(shape=(2, 6, 5, 7)), z)
    net.out(net.conv(net.add(e.Add(), y, z), 3))
    assert move(net.graph) == 2


def test_attention_behind_a_transpose():
    net = Net()
    y = net.add(Reshape(shape=(2, 6, 35)), net.conv(net.x, 6))
    y = net.add(Transpose(perm=(0, 2, 1)), y)
    y = net.add(FullyConnected(), y, net.floats(8, 6), None)
    y = net.add(Reshape(shape=(2, 8, 5, 7)), net.add(Transpose(perm=(0, 2, 1)), y))
    net.out(net.conv(y, 3))
    assert move(net.graph) == 2


def test_convolutions_over_a_row_of_features_read_as_a_sequence():
    net = Net(2, 3, 1, 7)
    y = net.add(Squeeze(axes=(2,)), net.conv(net.x, 6))
    y = net.add(Transpose(perm=(0, 2, 1)), y)
    net.out(net.add(FullyConnected(), y, net.floats(8, 6), None))
    assert move(net.graph) == 1


@pytest.mark.parametrize("batch", [2, "n"])
def test_convolutions_along_one_dimension_keep_inside(batch):
    net = Net(batch, 3, 9)

    def conv(x: Value, filters: int) -> Value:
        return net.add(Squeeze(axes=(2,)), net.conv(net.add(Unsqueeze(axes=(2,)), x), filters))

    y = net.add(e.Add(), net.relu(conv(net.x, 6)), net.floats(6, 1))
    z = conv(net.add(Pad(before=(0, 0, 2), after=(0, 0, 1)), y), 6)
    z = net.add(Slice(starts=(0, 0, 3), ends=(None,) * 3, strides=(1,) * 3), z)
    y = net.add(Concat(axis=1), z, y)
    gate = net.add(e.Sigmoid(), conv(net.add(r.ReduceMean(axes=(2,), keep_dims=True), y), 12))
    net.out(conv(net.add(e.Mul(), y, gate), 4))
    assert move(net.graph) == 2
    assert not inner(net.graph)


# ---------------------------------------------------------------- quantized


def test_quantized_parameters_follow():
    net = Net()
    b = net.b
    quant = Quant.per_tensor(0.05, 3)
    x = b.input("q", DType.INT8, (2, 3, 4, 5), quant=quant)
    weights = b.const(
        net.rng.integers(-99, 99, (6, 3, 3, 3)).astype(np.int8),
        quant=Quant.per_channel([0.01 * (i + 1) for i in range(6)], axis=0),
    )
    op = Conv2D(
        layout=NCHW,
        stride=(2, 1),
        dilation=(1, 1),
        padding=Padding((0, 1), (1, 1)),
        activation=Activation.RELU6,
    )
    y = b.add(op, [x, weights, None], quant=quant)
    codes = b.const(
        np.arange(1, 7, dtype=np.int8).reshape(1, 6, 1, 1),
        quant=Quant.per_channel([0.1, 0.2, 0.3] * 2, axis=1),
    )
    y = b.add(e.Mul(), [y, codes], quant=Quant.per_tensor(0.1, -5))
    scale = b.add(Dequantize(dtype=F32), [codes])
    z = b.add(e.Mul(), [b.add(Dequantize(dtype=F32), [y]), scale])
    flat = b.add(Reshape(shape=(2, -1)), [y])
    columns = flat.shape[1]
    layer = b.const(
        net.rng.integers(-99, 99, (4, columns)).astype(np.int8),
        quant=Quant.per_channel([0.1, 0.2, 0.3, 0.4], axis=0),
    )
    net.graph.inputs = [x]
    net.out(z, b.add(FullyConnected(), [flat, layer, None], quant=quant))
    inputs = [net.rng.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8)]
    before = run_graph(net.graph, inputs)
    run_passes(Model([Signature("", net.graph)]), [LayoutPass(Layout.NHWC)], verify=True)
    assert count(net.graph) == 2
    for old, new in zip(before, run_graph(net.graph, inputs), strict=True):
        np.testing.assert_array_equal(new, old)


def test_codes_are_turned_rather_than_real_numbers():
    net = Net()
    quant = Quant.per_tensor(0.05, 3)
    codes = net.b.add(Quantize(dtype=DType.INT8), [net.x], quant=quant)
    y = net.b.add(
        Conv2D(layout=NCHW, stride=(1, 1), dilation=(1, 1), padding=Padding.none()),
        [codes, net.b.const(np.ones((4, 1, 1, 3), np.int8), quant=quant), None],
        quant=quant,
    )
    net.out(net.b.add(Dequantize(dtype=F32), [y]))
    assert move(net.graph) == 2
    turned = [node.inputs[0] for node in net.graph.nodes if isinstance(node.op, Transpose)]
    assert [value.dtype for value in turned if value is not None] == [DType.INT8] * 2


def test_quantizing_by_the_data_keeps_inside():
    net = Net()
    y = net.conv(net.x, 6)
    codes, scale, zero = net.b.add_many(DynamicQuantize(), [y])
    op = ConvInteger(layout=NCHW, stride=(1, 1), dilation=(1, 1), padding=Padding.none())
    weights = net.b.const(net.rng.integers(-99, 99, (4, 1, 1, 6)).astype(np.int8))
    y = net.add(Cast(dtype=F32), net.add(op, codes, weights, zero))
    net.out(net.add(e.Mul(), y, scale))
    assert move(net.graph) == 2
    net = Net(2, 5, 7, 6)
    y = net.add(Transpose(perm=(0, 3, 1, 2)), net.add(e.Neg(), net.x))
    codes, _, zero = net.b.add_many(DynamicQuantize(), [y])
    net.out(net.add(Cast(dtype=F32), net.add(op, codes, weights, zero)))
    assert move(net.graph) == 1


# ---------------------------------------------------------------- bodies and the interface


def test_bodies_keep_their_interface():
    net = Net()
    bodies = []
    for size in (1, 3):
        body = Net(2, 6, 5, 7)
        body.out(body.conv(body.relu(body.conv(body.x, 6)), 6, size))
        bodies.append(body.graph)
    y = net.conv(net.x, 6)
    which = net.b.input("which", DType.BOOL, ())
    kinds = [v.type for v in bodies[0].outputs]
    (z,) = net.b.add_typed(If(), [which, y], kinds, bodies=bodies)
    net.out(net.conv(z, 3))
    assert move(net.graph) == 4
    assert [count(body) for body in bodies] == [2, 2]


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), ("n", 3, 5, 7)])
def test_the_interface_moves_on_request(shape):
    net = Net(*shape)
    y = net.relu(net.conv(net.x, 6, 3))
    pooled = net.add(
        AveragePool2D(layout=NCHW, window=(2, 2), stride=(2, 2), padding=Padding.none()), y
    )
    flat = net.add(r.ReduceMean(axes=(2, 3)), pooled)
    y.name, flat.name = "y", "flat"
    net.out(y, flat)
    x = np.random.default_rng(2).standard_normal((2, 3, 5, 7)).astype(np.float32)
    before = run_graph(net.graph, [x])
    model = Model([Signature("", net.graph)])
    layout = LayoutPass(Layout.NHWC, edge=model.main)
    run_passes(model, [layout, PrunePass()], verify=True)
    assert layout.moved_io == ["x", "y"]
    assert count(net.graph) == 0
    after = run_graph(net.graph, [x.transpose(0, 2, 3, 1)])
    np.testing.assert_allclose(after[0].transpose(0, 3, 1, 2), before[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(after[1], before[1], rtol=1e-5, atol=1e-5)


def test_values_read_in_both_orders_are_turned_once():
    net = Net()
    y = net.conv(net.x, 6)
    readers: Sequence[Value] = [net.add(Reshape(shape=(4, 105)), y) for _ in range(3)]
    net.out(net.conv(y, 2), *readers)
    assert move(net.graph) == 3
