"""NNRt models whose extents a run tells, on all devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.wire import Graph, QuantParams
from nnconv.lowering import one_entry, to_nnrt
from support.nnrt_models import GraphBuilder
from support.nnrt_ops import DEVICES

F32 = np.float32


def _run(graph: Graph, x: np.ndarray, device: str) -> np.ndarray:
    executable = nnconv.compile(import_model(graph), device)
    (result,) = executable.run({"x": x}).values()
    executable.close()
    return result


def _same_padded(op: str, window: int, step: int) -> Graph:
    """A model of one layer on images of any size."""
    b = GraphBuilder()
    inputs, y = [b.input((1, -1, -1, 2), name="x")], b.output((1, -1, -1, 2), name="y")
    sizes: dict[str, Any] = {"kernelSize": (window, window), "strides": (step, step)}
    if op == "CONV2D":
        kernel = np.arange(1, 4 * window**2 + 1)
        inputs += [b.data((2, window, window, 2), value=kernel), b.data((2,), value=[0, 1])]
        sizes = {"stride": (step, step), "dilation": (1, 1)}
    params = [b.param(op, *pair) for pair in (sizes | {"padMode": 0}).items()]
    b.op(op, inputs, [y], params)
    return b.graph


def _layer(x: np.ndarray, op: str, window: int, step: int) -> np.ndarray:
    """The layer by the document's formula: as many windows as the extent divided, rounded up."""
    extent = x.shape[1]
    count = -(-extent // step)
    before = max((count - 1) * step + window - extent, 0) // 2
    kernel = np.arange(1, 4 * window**2 + 1).reshape(2, window, window, 2)
    result = np.zeros((1, count, count, 2))
    for i in range(count):
        for j in range(count):
            top, left = i * step - before, j * step - before
            part = x[0, max(top, 0) : top + window, max(left, 0) : left + window].astype(float)
            if op == "CONV2D":
                rows, columns = max(-top, 0), max(-left, 0)
                seen = kernel[:, rows : rows + len(part), columns : columns + part.shape[1]]
                result[0, i, j] = (seen * part).sum((1, 2, 3)) + np.arange(2)
            else:
                result[0, i, j] = (part.mean if op == "AVG_POOL" else part.max)((0, 1))
    return result


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("window", "step"), [(1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3)])
@pytest.mark.parametrize("op", ["AVG_POOL", "CONV2D", "MAX_POOL"])
def test_same_padding_is_none_where_windows_leave_gaps(
    op: str, window: int, step: int, device: str
) -> None:
    """ONNX's auto_pad would pad less than nothing, and so move the windows."""
    graph = _same_padded(op, window, step)
    for extent in range(3, 8):
        x = np.random.default_rng(extent).normal(size=(1, extent, extent, 2)).astype(F32)
        found = _run(graph, x, device)
        np.testing.assert_allclose(found, _layer(x, op, window, step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["AVG_POOL", "MAX_POOL"])
def test_gaps_between_larger_windows_of_open_images_are_refused_in_onnx(op: str) -> None:
    model = import_model(_same_padded(op, 3, 5))
    with pytest.raises(UnsupportedError, match=r"steps of .*the shape of `\w+` \(--input-shape"):
        nnconv.compile(model, "onnxruntime:cpu")


@pytest.mark.parametrize("device", DEVICES)
def test_a_single_element_may_be_stated_as_open(device: str) -> None:
    b = GraphBuilder()
    x, axis = b.input((-1, 2), name="x"), b.data((2,), "INT32", value=[0, 1])
    b.op("REDUCE_SUM", [x, axis], [b.output((-1,), name="y")])
    found = _run(b.graph, np.array([[1, 2], [4, 8]], F32), device)
    assert found.tolist() == [15]


@pytest.mark.parametrize("device", DEVICES)
def test_scales_tell_an_open_extent(device: str) -> None:
    b = GraphBuilder()
    x = b.input((-1, -1), "INT8", quant=QuantParams([0.5, 2.0], [0, 1]), name="x")
    params = {"srcT": 2, "dstT": 11, "axis": 1}
    given = [b.param("QUANT_DTYPE_CAST", *pair) for pair in params.items()]
    b.op("QUANT_DTYPE_CAST", [x], [b.output((-1, -1), name="y")], given)
    found = _run(b.graph, np.array([[3, 4], [-1, 0], [2, 1]], np.int8), device)
    assert found.tolist() == [[1.5, 6], [-0.5, -2], [1, 0]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("activation", [0, 1, 2])
@pytest.mark.parametrize("op", ["AVG_POOL", "MAX_POOL"])
def test_pools_over_all_of_an_open_image(op: str, activation: int, device: str) -> None:
    b = GraphBuilder()
    x, y = b.input((1, -1, -1, 2), name="x"), b.output((1, 1, 1, 2), name="y")
    sizes = {"kernelSize": (1, 1), "strides": (1, 1), "global": True, "activationType": activation}
    b.op(op, [x], [y], [b.param(op, *pair) for pair in sizes.items()])
    numbers = np.array([[[[-9, 3], [8, 5]], [[-3, 9], [-2, 6]]]], F32)
    wanted = (np.mean if op == "AVG_POOL" else np.max)(numbers, (1, 2), keepdims=True)
    bounds = {0: (-np.inf, np.inf), 1: (0, np.inf), 2: (0, 6)}[activation]
    np.testing.assert_allclose(_run(b.graph, numbers, device), np.clip(wanted, *bounds))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_flattened_extents_may_be_open_on_both_sides(axis: int, device: str) -> None:
    b = GraphBuilder()
    x, y = b.input((-1, -1, -1), name="x"), b.output((-1, -1), name="y")
    b.op("FLATTEN", [x], [y], [b.param("FLATTEN", "axis", axis)])
    numbers = np.arange(24, dtype=F32).reshape(2, 3, 4)
    wanted = numbers.reshape(int(np.prod(numbers.shape[:axis])), -1)
    np.testing.assert_array_equal(_run(b.graph, numbers, device), wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("axis", "offset"), [(0, (1, 0)), (1, (2,)), (0, (1,))])
def test_what_a_crop_is_cut_to_may_be_open(axis: int, offset: tuple[int, ...], device: str) -> None:
    b = GraphBuilder()
    x, like = b.input((-1, 4), name="x"), b.input((-1, -1), name="like")
    params = [b.param("CROP", "axis", axis), b.param("CROP", "offset", offset)]
    b.op("CROP", [x, like], [b.output((-1, -1), name="y")], params)
    numbers = np.arange(12, dtype=F32).reshape(3, 4)
    starts = (*[0] * axis, *(offset * (2 - axis))[: 2 - axis])
    executable = nnconv.compile(import_model(b.graph), device)
    found = executable.run({"x": numbers, "like": np.zeros((2, 2), F32)})["y"]
    executable.close()
    rows = slice(None) if axis else slice(starts[0], starts[0] + 2)
    np.testing.assert_array_equal(found, numbers[rows, starts[1] : starts[1] + 2])


@pytest.mark.parametrize("device", DEVICES)
def test_the_rank_of_the_result_tells_which_extents_are_squeezed(device: str) -> None:
    b = GraphBuilder()
    b.op("SQUEEZE", [b.input((-1, 1, 1, 3), name="x")], [b.output((-1, 3), name="y")])
    numbers = np.arange(6, dtype=F32).reshape(2, 1, 1, 3)
    np.testing.assert_array_equal(_run(b.graph, numbers, device), numbers.reshape(2, 3))
    np.testing.assert_array_equal(_run(b.graph, numbers[:1], device), numbers[0, 0])


def test_weights_tell_how_wide_the_steps_of_a_layer_are() -> None:
    """Of the data it may be open, where the layer is written anew."""
    b, draw = GraphBuilder(), np.random.default_rng(5)
    x = b.input((-1, 1, -1), name="x")
    weights = [(1, 8, 3), (1, 8, 2), (1, 16), (1, 1, 2), (1, 1, 2)]
    others = [b.data(shape, value=draw.normal(0, 0.5, shape)) for shape in weights]
    y, last = b.output((-1, 1, 2), name="y"), [b.data((1, 1, 2)), b.data((1, 1, 2))]
    params = {"inputSize": 3, "hiddenSize": 2, "numLayers": 1, "numDirections": 1}
    b.op("LSTM", [x, *others], [y, *last], [b.param("LSTM", *pair) for pair in params.items()])
    model = import_model(b.graph)
    written = to_nnrt(one_entry(model, model.main)).model
    assert not findings(written)
    numbers = draw.normal(size=(4, 1, 3)).astype(F32)
    wanted = _run(b.graph, numbers, "onnxruntime:cpu")
    np.testing.assert_allclose(_run(written, numbers, "reference"), wanted, rtol=1e-5, atol=1e-6)
