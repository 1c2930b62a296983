"""A Resize of all dimensions leaves out those that keep their extents."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast
from nnconv.ops.resample import Policy, Resample, ResampleNearest
from nnconv.ops.shape import Concat, ShapeOf
from nnconv.ops.slices import Slice
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.resize_axes import ResizeAxesPass

OPS = {
    "linear": Resample(axes=(0, 1, 2, 3)),
    "nearest": ResampleNearest(axes=(0, 1, 2, 3)),
    "other order": Resample(axes=(3, 2, 1, 0)),
    "policy": Resample(axes=(0, 1, 2, 3), policy=Policy.NOT_LARGER),
}


def _net(name: str, sizes: str) -> Graph:
    """Images ``x``, whose batch and size aren't known, become as large as ``size`` says."""
    b = Builder(Graph("net"))
    x = b.input("x", DType.FLOAT32, ("batch", 3, "height", "width"))
    size = b.input("size", DType.INT32, (2,))
    own = b.add(ShapeOf(dtype=DType.INT64), [x])
    front = b.add(Slice(starts=(0,), ends=(2,), strides=(1,)), [own])
    wide = b.add(Cast(dtype=DType.INT64), [size])
    whole = b.add(Concat(axis=0), [front, wide])
    if sizes == "swapped":
        whole = b.add(Concat(axis=0), [wide, front])
    elif sizes == "gathered":
        order = b.const(np.asarray([1, 0, 2, 3]))
        whole = b.add(Gather(axis=0), [b.add(Gather(axis=0), [whole, order]), order])
    if name == "other order":
        back = b.const(np.asarray([3, 2, 1, 0]))
        whole = b.add(Gather(axis=0), [whole, back])
    b.graph.outputs = [b.add(OPS[name], [x, None, None, whole], name="y")]
    return b.graph


@pytest.mark.parametrize("sizes", ["joined", "gathered"])
@pytest.mark.parametrize("name", ["linear", "nearest", "other order"])
def test_dimensions_that_stay_are_left_out(name, sizes):
    graph = _net(name, sizes)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    feeds = [x, np.asarray([7, 3], np.int32)]
    (before,) = run_graph(graph, feeds)
    model = Model([Signature("", graph)])
    assert "resize_axes" in run_passes(model, [ResizeAxesPass(), PrunePass()], verify=True)
    node = graph.outputs[0].producer
    assert isinstance(node.op, Resample | ResampleNearest)
    assert sorted(node.op.axes) == [2, 3]
    assert any(isinstance(n.op, Concat) for n in graph.nodes) == (
        sizes != "joined" or name[0] == "o"
    )
    (after,) = run_graph(graph, feeds)
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("name", "sizes"), [("linear", "swapped"), ("policy", "joined")])
def test_what_may_change_stays(name, sizes):
    assert not ResizeAxesPass().run(_net(name, sizes))


NET = """
<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3,h,w] x, float[batch,2,hh,ww] other) => (float[batch,3,hh,ww] y)
<int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, float[3,1,1,1] w = {1, 2, 3}> {
  z = Conv <group = 3> (x, w)
  own = Shape (z)
  front = Slice (own, zero, two, zero)
  theirs = Shape (other)
  back = Slice (theirs, two, four, zero)
  sizes = Concat <axis = 0> (front, back)
  y = Resize <mode = "linear"> (z, , , sizes)
}
"""


def test_images_become_as_large_as_others_in_one_operator(tmp_path):
    """As PyTorch writes an interpolation to the size of another map."""
    source, target = tmp_path / "net.onnx", tmp_path / "net.tflite"
    onnx.save(onnx.parser.parse_model(NET), source)
    report = nnconv.convert(source, target, verify=True)
    assert report.verified
    assert report.counts["RESIZE_BILINEAR"] == 1
    assert "GATHER" not in report.counts
