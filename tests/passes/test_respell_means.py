"""Means of windows that are spelled as depthwise convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Signature
from nnconv.ir.op import Activation
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import Mul, Neg
from nnconv.ops.pool import AveragePool2D
from nnconv.ops.reduce import ReduceMean
from nnconv.ops.shape import Reshape
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.respell_means import RespellMeansPass

WINDOW = (2, 3)
PADS = Padding((0, 1), (1, 1))


def _net(
    *,
    padding: Padding = PADS,
    stride: tuple[int, int] = (1, 1),
    weight: float = 1 / 6,
    reason: str = "",
    activation: Activation = Activation.NONE,
) -> Graph:
    b = Builder(Graph("net"))
    x = b.input("x", DType.FLOAT32, (2, 5, 7, 4))
    weights = np.full((4, *WINDOW, 1), weight, np.float32)
    if reason == "other weights":
        weights[1] *= 2
    op = Conv2D(layout=Layout.NHWC, stride=stride, dilation=(1, 1), padding=padding, groups=4)
    bias = [b.const(np.full(4, float(reason == "bias"), np.float32))]
    y = b.add(op, [x, b.const(weights), *bias])
    if padding == PADS and reason != "no factors":
        assert y.shape is not None
        ones = np.ones((1, 5, 7, 1), np.float32)
        shares = run_graph(_sums(stride, padding), [ones])[0]
        factors = 6 / shares if reason != "other factors" else shares
        y = b.add(Mul(activation=activation), [b.const(factors.astype(np.float32)), y], name="y")
    b.graph.outputs = [y]
    if reason == "read between":
        (conv,) = [n for n in b.graph.nodes if isinstance(n.op, Conv2D)]
        b.graph.outputs.append(b.add(Neg(), [conv.outputs[0]]))
    return b.graph


def _sums(stride: tuple[int, int], padding: Padding) -> Graph:
    b = Builder(Graph("sums"))
    x = b.input("x", DType.FLOAT32, (1, 5, 7, 1))
    op = Conv2D(layout=Layout.NHWC, stride=stride, dilation=(1, 1), padding=padding, groups=1)
    b.graph.outputs = [b.add(op, [x, b.const(np.ones((1, *WINDOW, 1), np.float32))])]
    return b.graph


def _ops(graph: Graph) -> list[type]:
    x = np.random.default_rng(0).standard_normal((2, 5, 7, 4)).astype(np.float32)
    before = run_graph(graph, [x])
    steps = [RespellMeansPass(), PrunePass()]
    run_passes(Model([Signature("", graph)]), steps, verify=True)
    for old, new in zip(before, run_graph(graph, [x]), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)
    return [type(node.op) for node in graph.nodes]


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
def test_means_beside_pads(stride, activation):
    assert _ops(_net(stride=stride, activation=activation)) == [AveragePool2D]


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_means_without_pads(stride):
    assert _ops(_net(stride=stride, padding=Padding.none())) == [AveragePool2D]


REASONS = ["other weights", "bias", "no factors", "other factors", "read between"]


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_no_mean_stays(reason):
    assert AveragePool2D not in _ops(_net(reason=reason))


def test_a_sum_is_no_mean():
    assert _ops(_net(padding=Padding.none(), weight=1.0)) == [Conv2D]


def _reduced(*, keep: bool = True, shape: tuple[int, ...] = (2, 4), read: bool = False) -> Graph:
    b = Builder(Graph("reduced"))
    x = b.input("x", DType.FLOAT32, (2, 5, 7, 4))
    mean = b.add(ReduceMean(axes=(1, 2), keep_dims=keep), [x])
    b.graph.outputs = [b.add(Reshape(shape=shape), [mean], name="y")]
    if read:
        b.graph.outputs.append(b.add(Neg(), [mean]))
    return b.graph


def test_dimensions_that_are_taken_away_are_not_kept():
    graph = _reduced()
    assert _ops(graph) == [ReduceMean]
    assert [value.shape for value in graph.outputs] == [(2, 4)]


@pytest.mark.parametrize(
    "graph",
    [_reduced(shape=(4, 2)), _reduced(shape=(2, 1, 4)), _reduced(read=True), _reduced(keep=False)],
    ids=["other elements", "one is left", "read between", "none kept"],
)
def test_other_moves_behind_a_reduction_stay(graph):
    assert Reshape in _ops(graph)
