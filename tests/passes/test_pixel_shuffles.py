"""Pixel shuffles: found where they are spelled out, with their depth where TFLite wants it."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Layout, Model, Quant, Signature, Value
from nnconv.ops import elementwise as e
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.conv import Conv2D
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Reshape, Transpose
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.pixel_shuffles import PixelShufflesPass
from nnconv.passes.prune import PrunePass

F32 = DType.FLOAT32
CONV = Conv2D(layout=Layout.NCHW, stride=(1, 1), dilation=(1, 1), padding=Padding.none())
RNG = np.random.default_rng(0)


def _net(*shape: object) -> tuple[Builder, Value]:
    builder = Builder(Graph("net"))
    return builder, builder.input("x", F32, shape)  # type: ignore[arg-type]


def _floats(b: Builder, *shape: int) -> Value:
    return b.const(RNG.standard_normal(shape).astype(np.float32))


def _run(b: Builder, *outputs: Value) -> list[object]:
    """Run the pass, compare, and give the ops that are left."""
    graph = b.graph
    graph.outputs = list(outputs)
    shapes = [[d if isinstance(d, int) else 3 for d in v.shape or ()] for v in graph.inputs]
    inputs = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    before = run_graph(graph, inputs)
    model = Model([Signature("", graph)])
    run_passes(model, [PixelShufflesPass(), PrunePass()], verify=True)
    for old, new in zip(before, run_graph(graph, inputs), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    ops = [node.op for node in graph.nodes]
    run_passes(model, [LayoutPass(Layout.NHWC), PrunePass()], verify=True)
    for old, new in zip(before, run_graph(graph, inputs), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return ops


def _spelled(
    b: Builder, x: Value, spread: tuple[int, ...], perm: tuple[int, ...], result: tuple[int, ...]
) -> Value:
    y = b.add(Transpose(perm=perm), [b.add(Reshape(shape=spread), [x])])
    return b.add(Reshape(shape=result), [y])


@pytest.mark.parametrize("batch", [2, "n"])
@pytest.mark.parametrize(
    ("spread", "perm", "crd"),
    [((5, 2, 2, 3, 4), (0, 1, 4, 2, 5, 3), True), ((2, 2, 5, 3, 4), (0, 3, 4, 1, 5, 2), False)],
)
def test_depth_to_space_is_found(batch, spread, perm, crd):
    b, x = _net(batch, 20, 3, 4)
    first = -1 if batch == "n" else 2
    ops = _run(b, _spelled(b, x, (first, *spread), perm, (first, 5, 6, 8)))
    assert ops == [DepthToSpace(layout=Layout.NCHW, block=2, column_row_depth=crd)]


def test_space_to_depth_is_found():
    b, x = _net(2, 5, 6, 8)
    ops = _run(b, _spelled(b, x, (2, 5, 3, 2, 4, 2), (0, 3, 5, 1, 2, 4), (2, 20, 3, 4)))
    assert ops == [SpaceToDepth(layout=Layout.NCHW, block=2)]


@pytest.mark.parametrize(
    ("shape", "spread", "perm", "result"),
    [
        ((2, 20, 3, 4), (2, 5, 2, 2, 3, 4), (0, 1, 4, 3, 5, 2), (2, 5, 6, 8)),
        ((2, 24, 3, 4), (2, 4, 2, 3, 3, 4), (0, 1, 4, 2, 5, 3), (2, 4, 6, 12)),
        ((2, 20, 3, 4), (2, 5, 2, 2, 4, 3), (0, 1, 4, 2, 5, 3), (2, 5, 8, 6)),
        ((2, 20, 3, 4), (2, 5, 2, 2, 3, 4), (0, 1, 4, 2, 5, 3), (2, 5, 8, 6)),
        ((2, 20, 1, 4), (2, 20, 1, 1, 1, 4), (0, 1, 4, 2, 5, 3), (2, 20, 1, 4)),
        ((2, 5, 6, 8), (2, 5, 2, 3, 4, 2), (0, 3, 5, 1, 2, 4), (2, 30, 2, 4)),
        ((2, 5, 6, 8), (2, 5, 3, 2, 4, 2), (0, 1, 3, 5, 2, 4), (2, 20, 3, 4)),
        ((2, 5, 6, 8), (10, 1, 3, 2, 4, 2), (0, 3, 5, 1, 2, 4), (2, 20, 3, 4)),
    ],
)
def test_what_is_no_shuffle_stays(shape, spread, perm, result):
    b, x = _net(*shape)
    ops = _run(b, _spelled(b, x, spread, perm, result))
    assert not any(isinstance(op, DepthToSpace | SpaceToDepth) for op in ops)


def _shuffled(b: Builder, y: Value) -> Value:
    return b.add(DepthToSpace(layout=Layout.NCHW, block=2, column_row_depth=True), [y])


def _crd(ops: list[object]) -> list[bool]:
    return [op.column_row_depth for op in ops if isinstance(op, DepthToSpace)]


@pytest.mark.parametrize("bias", [True, False])
def test_filters_change_places(bias):
    b, x = _net(2, 3, 4, 5)
    y = b.add(CONV, [x, _floats(b, 20, 2, 1, 3), _floats(b, 20) if bias else None])
    y = b.add(e.Clip(low=0.0, high=1.0), [b.add(e.Mul(), [y, _floats(b, 1, 1)])])
    assert _crd(_run(b, _shuffled(b, y))) == [False]


def test_filters_before_a_spelled_shuffle_change_places():
    b, x = _net(2, 3, 4, 5)
    y = b.add(CONV, [x, _floats(b, 20, 1, 1, 3), _floats(b, 20)])
    y = _spelled(b, y, (2, 5, 2, 2, 4, 5), (0, 1, 4, 2, 5, 3), (2, 5, 8, 10))
    assert _crd(_run(b, y)) == [False]


def test_widened_filters_change_places():
    b, x = _net(2, 3, 4, 5)
    half = [b.const(RNG.standard_normal(s).astype(np.float16)) for s in ((12, 1, 1, 3), (12,))]
    wide = [b.add(Cast(dtype=F32), [value]) for value in half]
    ops = _run(b, _shuffled(b, b.add(CONV, [x, *wide])))
    assert _crd(ops) == [False]


def test_quantized_filters_change_places_with_their_scales():
    graph = Graph("q")
    b = Builder(graph)
    quant = Quant.per_tensor(0.05, 3)
    x = b.input("x", DType.INT8, (1, 3, 4, 5), quant=quant)
    scales = [0.01 * (i + 1) for i in range(8)]
    weights = b.const(
        RNG.integers(-99, 99, (8, 1, 1, 3)).astype(np.int8), quant=Quant.per_channel(scales, axis=0)
    )
    bias = b.const(
        RNG.integers(-99, 99, 8).astype(np.int32),
        quant=Quant.per_channel([0.05 * s for s in scales], axis=0),
    )
    y = b.add(CONV, [x, weights, bias], quant=quant)
    graph.outputs = [_shuffled(b, y)]
    inputs = [RNG.integers(-128, 128, (1, 3, 4, 5)).astype(np.int8)]
    before = run_graph(graph, inputs)
    run_passes(Model([Signature("", graph)]), [PixelShufflesPass()], verify=True)
    np.testing.assert_array_equal(run_graph(graph, inputs)[0], before[0])
    assert _crd([node.op for node in graph.nodes]) == [False]


@pytest.mark.parametrize("reason", ["read twice", "goes out", "grouped", "by channel", "weights"])
def test_filters_that_others_depend_on_stay(reason):
    b, x = _net(2, 4, 4, 5)
    weights = _floats(b, 8, 1, 1, 2 if reason == "grouped" else 4)
    if reason == "weights":
        weights = b.input("weights", F32, (8, 1, 1, 4))
    y = b.add(CONV.replace(groups=2 if reason == "grouped" else 1), [x, weights, None])
    if reason == "by channel":
        y = b.add(e.Mul(), [y, _floats(b, 8, 1, 1)])
    more = [b.add(e.Abs(), [y])] if reason == "read twice" else []
    more += [y] if reason == "goes out" else []
    assert _crd(_run(b, _shuffled(b, y), *more)) == [True]
