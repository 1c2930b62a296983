"""Sizes that are extents times whole factors become the factors."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.formats.nnapi.types import OperationCode
from nnconv.ir import Builder, DType, Graph, Layout, Model, Quant, Signature
from nnconv.ir.graph import Value
from nnconv.lowering import to_nnapi
from nnconv.ops.elementwise import Mul
from nnconv.ops.quantize import Cast
from nnconv.ops.resample import Resample, ResampleNearest
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.shape import ShapeOf
from nnconv.ops.slices import Slice
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.resize_factors import ResizeFactorsPass

CODES = Quant.per_tensor(0.1, 3)
RESIZES = {
    "corners": ResizeBilinear(layout=Layout.NHWC, size=None),
    "pixels": ResizeBilinear(layout=Layout.NHWC, size=None, half_pixel=True),
    "nearest": ResizeNearest(layout=Layout.NHWC, size=None),
    "nearest pixels": ResizeNearest(layout=Layout.NHWC, size=None, half_pixel=True),
}


def _extents(b: Builder, x: Value, spelled: str) -> Value:
    if spelled == "dims":
        return b.add(ShapeOf(dims=(1, 2)), [x])
    cut = {"slice": ((1,), (3,)), "from the end": ((-3,), (-1,)), "wrong": ((2,), (4,))}[spelled]
    return b.add(Slice(starts=cut[0], ends=cut[1], strides=(1,)), [b.add(ShapeOf(), [x])])


def _net(name: str, spelled: str, factors: list[int] | int, *, coded: bool = False) -> Graph:
    b = Builder(Graph("net"))
    dtype, quant = (DType.INT8, CODES) if coded else (DType.FLOAT32, None)
    x = b.input("x", dtype, (1, "height", "width", 2), quant=quant)
    times = b.const(np.asarray(factors, np.int32))
    size = b.add(Mul(), [_extents(b, x, spelled), times])
    b.graph.outputs = [b.add(RESIZES[name], [x, size], quant=quant, name="y")]
    return b.graph


def _image(*, coded: bool = False) -> np.ndarray:
    rng = np.random.default_rng(0)
    if coded:
        return rng.integers(-128, 128, (1, 4, 3, 2)).astype(np.int8)
    return rng.standard_normal((1, 4, 3, 2)).astype(np.float32)


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize(
    ("spelled", "factors"), [("dims", [2, 3]), ("slice", 2), ("from the end", [3, 1])]
)
def test_sizes_become_factors(name, coded, spelled, factors):
    graph = _net(name, spelled, factors, coded=coded)
    (before,) = run_graph(graph, [_image(coded=coded)])
    model = Model([Signature("", graph)])
    assert "resize_factors" in run_passes(model, [ResizeFactorsPass(), PrunePass()], verify=True)
    (node,) = graph.nodes
    assert isinstance(node.op, Resample | ResampleNearest)
    (after,) = run_graph(graph, [_image(coded=coded)])
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", [Resample, ResampleNearest])
def test_sizes_of_images_that_onnx_has_become_factors(op):
    """Through casts of integers, and with the channels first."""
    b = Builder(Graph("net"))
    x = b.input("x", DType.FLOAT32, (1, 2, "height", "width"))
    own = b.add(ShapeOf(dims=(2, 3), dtype=DType.INT64), [x])
    size = b.add(Mul(), [b.add(Cast(dtype=DType.INT32), [own]), b.const(np.int32([2, 3]))])
    wide = b.add(Cast(dtype=DType.INT64), [size])
    b.graph.outputs = [b.add(op(axes=(2, 3)), [x, None, None, wide], name="y")]
    image = np.moveaxis(_image(), -1, 1)
    (before,) = run_graph(b.graph, [image])
    run_passes(Model([Signature("", b.graph)]), [ResizeFactorsPass(), PrunePass()], verify=True)
    (node,) = b.graph.nodes
    assert node.op.scales == (2.0, 3.0)
    (after,) = run_graph(b.graph, [image])
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("spelled", "factors"), [("wrong", 2), ("dims", 0)])
def test_what_is_no_such_size_stays(spelled, factors):
    assert not ResizeFactorsPass().run(_net("pixels", spelled, factors))


def test_images_grow_by_factors_in_nnapi():
    model = to_nnapi(Model([Signature("", _net("pixels", "slice", 2))])).model
    (operation,) = model.main.operations
    assert operation.code is OperationCode.RESIZE_BILINEAR
