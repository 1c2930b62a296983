"""Kinds of fault that show when a model comes back, in its own format or in each version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.formats.nnrt.file import to_bytes
from nnconv.formats.nnrt.wire import QuantParams
from nnconv.ir import DType, Model
from support.litert import RESOLVERS
from support.litert_worker import worker
from support.nnrt_ops import Given, const, graph_of
from support.onnx_routes import assert_interface, node, run_onnxruntime
from support.onnx_whole import info, onnx_model
from support.places import FIXTURES
from support.whole import normal

DIGITS = sorted((FIXTURES / "digits").glob("*.tflite"))
FLOAT = "float32"


def parameters(model: Model) -> set[tuple[str, tuple[float, ...], tuple[int, ...]]]:
    """Type, scales and zero points of each quantized value, unsigned bytes as signed ones."""
    found = set()
    for graph_node in model.graph.nodes:
        for value in (*graph_node.inputs, *graph_node.outputs):
            if value is None or value.quant is None or value.dtype is DType.INT32:
                continue
            quant, kind = value.quant, value.dtype
            if kind is DType.UINT8:
                quant, kind = quant.shifted(-128), DType.INT8
            found.add((kind.value, quant.scale, quant.zero_point))
    return found


def drawn(model: Model, count: int = 3) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    (value,) = model.inputs
    shape = tuple(dim if isinstance(dim, int) else count for dim in value.shape or ())
    array = rng.random(shape) if value.dtype.is_float else rng.integers(0, 100, shape)
    return [[array.astype(value.dtype.numpy)]]


def compare(seen: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for have, want in zip(seen, wanted, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        if want.dtype.kind == "f":
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
        else:
            assert np.abs(have.astype(int) - want).max() <= 1


@pytest.mark.parametrize("way", ["nnapi", "nnrt"])
def test_codes_stay_codes_by_way_of_formats_that_compute_with_them(
    way: str, tmp_path: Path
) -> None:
    (path,) = (path for path in DIGITS if path.stem == "digits_int8")
    nnconv.convert(path, tmp_path / f"digits.{way}")
    report = nnconv.convert(tmp_path / f"digits.{way}", tmp_path / "again.tflite", int8="keep")
    assert report.counts["SOFTMAX"] == 1
    assert not any("Softmax" in note for note in report.notes)


@pytest.mark.parametrize("path", DIGITS, ids=lambda path: path.stem)
def test_a_tflite_model_written_anew_stays_what_it_was(path: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tflite", tmp_path / "second.tflite"
    report = nnconv.convert(path, first, int8="keep")
    again = nnconv.convert(first, second, int8="keep")
    assert first.read_bytes() == second.read_bytes()
    assert again.counts == report.counts
    source, result = nnconv.load(path), nnconv.load(first)
    assert parameters(result) <= parameters(source)
    assert sum(report.counts.values()) <= sum(1 for _ in source.graph.nodes)
    runs = drawn(source)
    for resolver in RESOLVERS:
        _, wanted = worker().run(path.read_bytes(), runs, resolver)
        _, seen = worker().run(first.read_bytes(), runs, resolver)
        compare(seen[0], wanted[0])


def network(opset: int) -> onnx.ModelProto:
    """What every operator set since 7 spells alike."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c1", "s", "b1", "b1", "v"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], group=4, pads=[0, 0, 2, 2]),
        node("LeakyRelu", ["c2"], ["r2"], alpha=0.1),
        node("Add", ["r1", "r2"], ["a"]),
        node("MaxPool", ["a"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", ["m", "w3"], ["t"], strides=[2, 2]),
        node("Concat", ["t", "a"], ["k"], axis=1),
        node("GlobalAveragePool", ["k"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w4", "b4"], ["o"], transB=1),
        node("Softmax", ["o"], ["y"], axis=1),
    ]
    constants = {
        "w1": normal(4, 3, 3, 3), "b1": normal(4), "s": np.abs(normal(4)),
        "v": 1 + np.abs(normal(4)),
        "w2": normal(4, 1, 3, 3), "w3": normal(4, 4, 2, 2), "w4": normal(5, 8), "b4": normal(5),
    }  # fmt: skip
    inputs, outputs = [info("x", FLOAT, ["N", 3, 8, 8])], [info("y", FLOAT, ["N", 5])]
    return onnx_model(nodes, inputs, outputs, constants, opset=opset, ir_version=8)


@pytest.mark.parametrize("opset", range(7, 28))
def test_an_onnx_model_of_every_opset_goes_to_tflite_and_back(opset: int, tmp_path: Path) -> None:
    source, there, back = (tmp_path / name for name in ("a.onnx", "b.tflite", "c.onnx"))
    source.write_bytes(network(opset).SerializeToString())
    nnconv.convert(source, there)
    nnconv.convert(there, back)
    x = normal(2, 3, 8, 8)
    spoken = source if opset <= 25 else tmp_path / "older.onnx"  # which onnxruntime knows
    if spoken is not source:
        spoken.write_bytes(network(21).SerializeToString())
    (wanted,) = run_onnxruntime(str(spoken), {"x": x})
    for resolver in RESOLVERS:
        interface, seen = worker().run(there.read_bytes(), [[x]], resolver)
        assert_interface(source, interface)
        np.testing.assert_allclose(seen[0][0], wanted, rtol=1e-4, atol=1e-5)
    (again,) = run_onnxruntime(str(back), {"x": x})
    np.testing.assert_allclose(again, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [13, 21])
def test_an_onnx_model_written_anew_stays_what_it_was(opset: int, tmp_path: Path) -> None:
    """Names may grow once, where nodes need some that weren't there, but not each time."""
    first, second, third, fourth = (tmp_path / f"{i}.onnx" for i in range(4))
    first.write_bytes(network(opset).SerializeToString())
    report = nnconv.convert(first, second, opset=opset)
    again = nnconv.convert(second, third, opset=opset)
    nnconv.convert(third, fourth, opset=opset)
    assert third.read_bytes() == fourth.read_bytes()
    assert report.counts == again.counts
    assert sum(report.counts.values()) <= len(network(opset).graph.node)
    x = normal(2, 3, 8, 8)
    (wanted,), (seen,) = (run_onnxruntime(str(path), {"x": x}) for path in (first, second))
    np.testing.assert_allclose(seen, wanted, rtol=1e-5, atol=1e-6)


def test_float_arithmetic_around_weights_stays_when_an_onnx_file_is_written_anew(
    tmp_path: Path,
) -> None:
    """Of a DequantizeLinear in its place onnxruntime would quantize the weights by itself."""
    codes = np.random.default_rng(3).integers(-127, 128, (6, 2, 1, 1))
    weights = Given(codes.astype(np.int8), QuantParams([0.006], [0]), constant=True)
    given = {
        "input": Given(np.zeros((2, 1, 3, 2), np.int8), QuantParams([0.2], [2])),
        "weight": weights, "bias": const([-285, -80, -47, -33, -420, 45], np.int32),
    }  # fmt: skip
    params = {"stride": [3, 3], "dilation": [1, 1], "group": 2, "padMode": 1, "activationType": 2}
    result = Given(np.zeros((2, 2, 7, 6), np.int8), QuantParams([0.023], [-128]))
    source, first, second = (tmp_path / name for name in ("a.nnrt", "b.onnx", "c.onnx"))
    source.write_bytes(to_bytes(graph_of("CONV2D_TRANSPOSE", given, params, [result])))
    nnconv.convert(source, first)
    nnconv.convert(first, second)
    x = np.random.default_rng(1).integers(-128, 128, (2, 1, 3, 2)).astype(np.int8)
    wanted, found = (run_onnxruntime(str(path), {"input": x}) for path in (first, second))
    np.testing.assert_array_equal(found[0], wanted[0])
