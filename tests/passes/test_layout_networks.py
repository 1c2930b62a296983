"""Parts of well-known image networks, channels first, moved to channels last."""

from __future__ import annotations

import pytest

from nnconv.ir import Model, Signature, Value
from nnconv.ir.types import Dim
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.conv import Conv1D
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import Softmax
from nnconv.ops.shape import Concat, Reshape, Split, Squeeze, Transpose, Unsqueeze
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.raise_rows import RaiseRowsPass
from support.layout_nets import NCHW, Net, inner, move


@pytest.mark.parametrize("batch", [1, 2, "n"])
def test_gates_of_whole_channels(batch: Dim) -> None:
    """Squeeze-and-excite with layers on vectors."""
    net = Net(batch, 3, 5, 7)
    y = net.conv(net.x, 6, 3)
    first = batch if isinstance(batch, int) else -1
    gate = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), y)
    gate = net.add(Reshape(shape=(first, 6)), gate)
    gate = net.relu(net.add(FullyConnected(), gate, net.floats(3, 6), net.floats(3)))
    gate = net.add(e.Sigmoid(), net.add(MatMul(), gate, net.floats(3, 6)))
    gate = net.add(Reshape(shape=(first, 6, 1, 1)), gate)
    net.out(net.conv(net.add(e.Mul(), y, gate), 4))
    assert move(net.graph) == 2


def test_gates_by_a_convolution_over_channels() -> None:
    """ECA-Net: the channels become a row."""
    net = Net()
    y = net.conv(net.x, 6, 3)
    gate = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), y)
    gate = net.add(Transpose(perm=(0, 2, 1)), net.add(Squeeze(axes=(3,)), gate))
    row = Conv1D(layout=NCHW, stride=(1,), dilation=(1,), padding=Padding((1,), (1,)))
    gate = net.add(row, gate, net.floats(1, 3, 1), None)
    gate = net.add(Unsqueeze(axes=(3,)), net.add(Transpose(perm=(0, 2, 1)), gate))
    net.out(net.conv(net.add(e.Mul(), y, net.add(e.Sigmoid(), gate)), 4))
    run_passes(Model([Signature("", net.graph)]), [RaiseRowsPass()])
    assert move(net.graph) == 2


def test_gates_of_pixels() -> None:
    """CBAM: a mean and a maximum over channels."""
    net = Net()
    y = net.conv(net.x, 6, 3)
    parts = [net.add(kind(axes=(1,), keep_dims=True), y) for kind in (r.ReduceMean, r.ReduceMax)]
    gate = net.conv(net.add(Concat(axis=1), *parts), 1, 3)
    net.out(net.conv(net.add(e.Mul(), y, net.add(e.Sigmoid(), gate)), 4))
    assert move(net.graph) == 2


def test_gates_of_rows_and_columns() -> None:
    """Coordinate attention: means of columns are turned to lie behind those of rows."""
    net = Net()
    y = net.conv(net.x, 6, 3)
    turn = Transpose(perm=(0, 1, 3, 2))
    rows = net.add(r.ReduceMean(axes=(3,), keep_dims=True), y)
    columns = net.add(turn, net.add(r.ReduceMean(axes=(2,), keep_dims=True), y))
    both = net.relu(net.conv(net.add(Concat(axis=2), rows, columns), 4))
    rows, columns = net.b.add_many(Split(axis=2, sizes=(5, 7)), [both])
    columns = net.add(turn, columns)
    for gate in (rows, columns):
        y = net.add(e.Mul(), y, net.add(e.Sigmoid(), net.conv(gate, 6)))
    net.out(net.conv(y, 4))
    assert move(net.graph) == 2


def test_norms_of_groups_of_channels() -> None:
    net = Net()
    y = net.conv(net.x, 6, 3)
    z = net.add(Reshape(shape=(2, 2, 3, 35)), y)
    off = net.add(e.Sub(), z, net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), z))
    var = net.add(r.ReduceMean(axes=(2, 3), keep_dims=True), net.add(e.Square(), off))
    z = net.add(e.Mul(), off, net.add(e.Rsqrt(), var))
    z = net.norm(net.add(Reshape(shape=(2, 6, 5, 7)), z))
    net.out(net.conv(net.add(e.Add(), y, z), 4))
    assert move(net.graph) == 2


def test_pixels_as_tokens() -> None:
    """Vision transformers."""
    net = Net(2, 3, 4, 6)
    tokens = net.add(Reshape(shape=(2, 8, 24)), net.conv(net.x, 8))
    tokens = net.add(Transpose(perm=(0, 2, 1)), tokens)
    tokens = net.add(Concat(axis=1), net.floats(2, 1, 8), tokens)
    tokens = net.add(e.Add(), tokens, net.floats(1, 25, 8))
    net.out(net.add(FullyConnected(), tokens, net.floats(5, 8), None))
    assert move(net.graph) == 1


def test_columns_of_pixels_as_a_sequence_take_one_transpose() -> None:
    """CRNN, for text: channels and rows together are what is told of a column."""
    net = Net(2, 3, 4, 6)
    columns = net.add(Reshape(shape=(2, 32, 6)), net.conv(net.x, 8))
    columns = net.add(Transpose(perm=(2, 0, 1)), columns)
    net.out(net.add(FullyConnected(), columns, net.floats(5, 32), None))
    assert move(net.graph) == 2


def test_a_mean_of_flattened_pixels() -> None:
    net = Net(2, 3, 4, 6)
    flat = net.add(Reshape(shape=(2, 8, 24)), net.conv(net.x, 8))
    mean = net.add(r.ReduceMean(axes=(2,)), flat)
    net.out(net.add(FullyConnected(), mean, net.floats(5, 8), None))
    assert move(net.graph) == 1


def test_heads_of_attention_take_one_transpose_each() -> None:
    """Channels are heads times depth: heads have to come before the pixels."""
    net = Net()
    y = net.conv(net.x, 6)
    turn = Transpose(perm=(0, 1, 3, 2))
    q, k, v = (net.add(Reshape(shape=(2, 2, 3, 35)), net.conv(y, 6)) for _ in range(3))
    scores = net.add(Softmax(axis=3), net.add(MatMul(), net.add(turn, q), k))
    z = net.add(MatMul(), v, net.add(turn, scores))
    z = net.add(Reshape(shape=(2, 6, 5, 7)), z)
    net.out(net.conv(net.add(e.Add(), z, y), 4))
    assert move(net.graph) == 6


def test_anchors_before_pixels_take_one_transpose_each() -> None:
    """YOLO heads give anchors, then rows and columns, then what is told of each."""
    net = Net(2, 3, 4, 6)
    y = net.conv(net.x, 8)
    heads = []
    for size in (1, 3):
        head = net.add(Reshape(shape=(2, 3, 6, 4, 6)), net.conv(y, 18, size))
        head = net.add(e.Sigmoid(), net.add(Transpose(perm=(0, 1, 3, 4, 2)), head))
        heads.append(net.add(Reshape(shape=(2, -1, 6)), head))
    net.out(net.add(Concat(axis=1), *heads))
    assert move(net.graph) == 3


def test_boxes_as_expectations() -> None:
    """YOLOv8: a Softmax over bins, then their mean by a convolution."""
    net = Net(1, 3, 4, 6)
    y = net.conv(net.x, 8)
    heads = [net.add(Reshape(shape=(1, 20, -1)), net.conv(y, 20, size)) for size in (1, 3)]
    joined = net.add(Concat(axis=2), *heads)
    box, kinds = net.b.add_many(Split(axis=1, sizes=(16, 4)), [joined])
    box = net.add(Transpose(perm=(0, 2, 1, 3)), net.add(Reshape(shape=(1, 4, 4, 48)), box))
    box = net.conv(net.add(Softmax(axis=1), box), 1)
    low, high = net.b.add_many(
        Split(axis=1, sizes=(2, 2)), [net.add(Reshape(shape=(1, 4, 48)), box)]
    )
    ends: list[Value] = [
        net.add(e.Sub(), net.floats(1, 2, 48), low),
        net.add(e.Add(), net.floats(1, 2, 48), high),
    ]
    box = net.add(e.Mul(), net.add(Concat(axis=1), *ends), net.floats(1, 48))
    net.out(net.add(Concat(axis=1), box, net.add(e.Sigmoid(), kinds)))
    assert move(net.graph) == 3
    assert len(inner(net.graph)) == 2
