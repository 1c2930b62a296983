"""The layout of the interface on request, and what onnxruntime makes of the inside."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import nnconv
from support.litert import run_litert
from support.spine import onnx_ops, optimized_ops
from support.tflite_builder import TfliteBuilder

RNG = np.random.default_rng(4)
CONV = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
INT8 = (0.05, 3)


def _conv(b: TfliteBuilder, x: object, depth: int, filters: int) -> object:
    """A 3x3 convolution of [2, 4, 5, depth] float32 or int8 data."""
    shape = (2, 4, 5, filters)
    if x.dtype == "float32":  # type: ignore[attr-defined]
        weights = b.const(RNG.standard_normal((filters, 3, 3, depth)).astype(np.float32))
        bias = b.const(RNG.standard_normal(filters).astype(np.float32))
        return b.op("CONV_2D", [x, weights, bias], [("float32", shape)], options=CONV)
    weights = b.const(
        RNG.integers(-90, 90, (filters, 3, 3, depth)).astype(np.int8), quant=(0.01, 0)
    )
    bias = b.const(np.zeros(filters, np.int32), quant=(0.05 * 0.01, 0))
    return b.op("CONV_2D", [x, weights, bias], [("int8", shape, INT8)], options=CONV)


def _model(dtype: str) -> bytes:
    """Two outputs: a feature map, and its mean over the image."""
    b = TfliteBuilder()
    quant = INT8 if dtype == "int8" else None
    x = b.input("x", dtype, (2, 4, 5, 9), quant=quant)
    y = _conv(b, _conv(b, x, 9, 16), 16, 16)
    axes = b.const(np.array([1, 2], np.int32))
    mean = b.op("MEAN", [y, axes], [(dtype, (2, 16), quant, "mean")])
    b.output(y, mean)
    return bytes(b.build())


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("io_layout", ["keep", "nhwc", "nchw"])
def test_the_interface_has_the_layout_asked_for(dtype, io_layout, tmp_path):
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(_model(dtype))
    report = nnconv.convert(source, target, io_layout=io_layout)
    x = RNG.integers(-100, 100, (2, 4, 5, 9)).astype(dtype)
    wanted = run_litert(source.read_bytes(), [x])
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    moves = io_layout == "nchw"
    (info,) = session.get_inputs()
    assert info.shape == ([2, 9, 4, 5] if moves else [2, 4, 5, 9])
    assert [tuple(row[2]) for row in report.inputs] == [tuple(info.shape)]
    assert report.moved_io == (["x", session.get_outputs()[0].name] if moves else [])
    assert onnx_ops(target).get("Transpose", 0) == (0 if moves else 2)
    y, mean = session.run(None, {"x": x.transpose(0, 3, 1, 2) if moves else x})
    y = y.transpose(0, 2, 3, 1) if moves else y
    for actual, expected in ((y, wanted[0]), (mean, wanted[1])):
        assert actual.shape == expected.shape
        bound = 1 if dtype == "int8" else 1e-5 * np.abs(expected).max()
        assert np.abs(actual.astype(float) - expected.astype(float)).max() <= bound


def test_a_quantized_mean_over_the_image_is_an_integer_kernel(tmp_path):
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(_model("int8"))
    nnconv.convert(source, target)
    kernels = optimized_ops(target, tmp_path)
    assert kernels["QLinearGlobalAveragePool"] == 1
    assert kernels["QLinearConv"] == 2
    assert "ReduceMean" not in kernels


@pytest.mark.parametrize("op", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_resizing_between_convolutions_stays_in_their_layout(op, tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 4, 5, 9))
    y = _conv(b, x, 9, 16)
    size = b.const(np.array([8, 10], np.int32))
    options = {"half_pixel_centers": True}
    y = b.op(op, [y, size], [("float32", (2, 8, 10, 16))], options=options, version=3)
    b.output(_conv(b, y, 16, 16))
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    nnconv.convert(source, target)
    onnx.checker.check_model(str(target), full_check=True)
    kernels = optimized_ops(target, tmp_path)
    assert kernels["Upsample"] == 1
    assert kernels.get("ReorderInput", 0) <= 1


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("io_layout", ["keep", "nchw"])
def test_outputs_keep_their_names_where_transposes_meet(io_layout, both, tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 4, 5, 9))
    y = _conv(b, x, 9, 16)
    order = b.const(np.array([0, 3, 1, 2], np.int32))
    turned = b.op("TRANSPOSE", [y, order], [("float32", (2, 16, 4, 5), None, "turned")])
    b.output(*([y, turned] if both else [turned]))
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    nnconv.convert(source, target, io_layout=io_layout)
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    names = [info.name for info in session.get_outputs()]
    assert names == ([y.name, "turned"] if both else ["turned"])
    data = RNG.standard_normal((2, 4, 5, 9)).astype(np.float32)
    feed = data.transpose(0, 3, 1, 2) if io_layout == "nchw" else data
    result = session.run(["turned"], {"x": feed})[0]
    expected = run_litert(source.read_bytes(), [data])[-1]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_only_images_turn_at_the_edge(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 4, 5, 3))
    y = _conv(b, x, 3, 16)
    last = b.const(np.array([4], np.int32))
    b.output(b.op("EXPAND_DIMS", [y, last], [("float32", (2, 4, 5, 16, 1))]))
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    report = nnconv.convert(source, target, io_layout="nchw")
    assert report.moved_io == ["x"]
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].shape == [2, 4, 5, 16, 1]
