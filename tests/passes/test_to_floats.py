"""Quantized models in floats: what is left of the codes, and how near the results stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import UsageError
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.ir import DType, Graph, Model, Signature
from nnconv.ir.builder import Builder
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast, Dequantize, DynamicQuantize, Quantize
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.to_floats import ToFloatsPass
from support.digits import DIGITS, heldout, quantize_images
from support.nnapi_models import NnapiBuilder
from support.spine import onnx_ops, onnx_session
from support.tflite_builder import TfliteBuilder

QUANTIZED = ["digits_int8", "digits_uint8", "digits_int16x8"]


def _in_floats(model: Model) -> Model:
    run_passes(model, [ToFloatsPass(), PrunePass()], verify=True)
    return model


@pytest.mark.parametrize("name", QUANTIZED)
def test_only_the_edges_and_weights_have_codes(name: str):
    graph = _in_floats(nnconv.load(DIGITS / f"{name}.tflite")).graph
    inner = [v for node in graph.nodes for v in node.outputs if v not in graph.outputs]
    assert inner
    assert not any(value.type.has_codes for value in inner)
    assert all(value.type.has_codes for value in (*graph.inputs, *graph.outputs))


@pytest.mark.parametrize("name", QUANTIZED)
def test_results_stay_near_the_quantized_ones(name: str, tmp_path: Path):
    source = DIGITS / f"{name}.tflite"
    report = nnconv.convert(source, tmp_path / "floats.onnx", quant="float")
    model = nnconv.load(source)
    quant = model.inputs[0].quant
    assert quant is not None
    assert [row[:2] for row in report.inputs] == [(v.name, v.dtype.value) for v in model.inputs]
    assert [row[:2] for row in report.outputs] == [(v.name, v.dtype.value) for v in model.outputs]
    counts = onnx_ops(tmp_path / "floats.onnx")
    assert counts.get("DequantizeLinear", 0) <= 1
    assert counts.get("QuantizeLinear", 0) <= 1
    session = onnx_session(tmp_path / "floats.onnx")
    nnconv.save(model, tmp_path / "codes.onnx")
    exact = onnx_session(tmp_path / "codes.onnx")
    images, labels = heldout()
    dtype = model.inputs[0].dtype.numpy
    codes = quantize_images(images, dtype, quant.scale[0], quant.zero_point[0])
    right, far = 0, 0.0
    scale = model.outputs[0].quant.scale[0]
    for image, label in zip(codes[:60], labels[:60], strict=True):
        feeds = {model.inputs[0].name: image[np.newaxis]}
        found, wanted = session.run(None, feeds)[0], exact.run(None, feeds)[0]
        right += int(found.argmax() == label)
        far = max(far, float(np.abs(found.astype(int) - wanted.astype(int)).max()) * scale)
    assert right >= 57  # of 60; the quantized file gets 98 % right
    assert far < 0.1  # of a probability


def test_ops_on_codes_keep_them_between_conversions(tmp_path: Path):
    quant = (0.5, 3)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", (2, 5), quant=quant)
        y = b.op("ABS", [x], [("int8", (2, 5), quant)])
        b.output(b.op("CAST", [y], [("int32", (2, 5))]))
        b.output(y)

    b = TfliteBuilder()
    build(b)
    path = tmp_path / "m.tflite"
    path.write_bytes(bytes(b.build()))
    nnconv.convert(path, tmp_path / "m.onnx", quant="float")
    codes = np.arange(-5, 5, dtype=np.int8).reshape(2, 5)
    stored, moved = onnx_session(tmp_path / "m.onnx").run(None, {"x": codes})
    wanted = np.abs(codes.astype(np.int32) - 3) + 3
    assert np.array_equal(stored, wanted)
    assert np.array_equal(moved, wanted.astype(np.int8))


def test_codes_that_an_op_makes_go_on_as_floats(tmp_path: Path):
    quant = (0.5, 3)
    b = TfliteBuilder()
    x = b.input("x", "int8", (2, 5), quant=quant)
    y = b.op("BITWISE_XOR", [x, b.const(np.full((2, 5), 1, np.int8))], [("int8", (2, 5), quant)])
    b.output(b.op("ABS", [y], [("int8", (2, 5), quant)]))
    path = tmp_path / "m.tflite"
    path.write_bytes(bytes(b.build()))
    nnconv.convert(path, tmp_path / "m.onnx", quant="float")
    codes = np.arange(-5, 5, dtype=np.int8).reshape(2, 5)
    found = onnx_session(tmp_path / "m.onnx").run(None, {"x": codes})[0]
    assert np.array_equal(found, np.abs((codes ^ 1) - 3) + 3)


def test_floats_cannot_be_verified(tmp_path: Path):
    with pytest.raises(UsageError, match="nothing to verify"):
        nnconv.convert(
            DIGITS / "digits_int8.tflite", tmp_path / "m.onnx", quant="float", verify=True
        )


def test_a_model_without_codes_is_verified_in_floats_too(tmp_path: Path):
    """As one is whose weights alone are quantized, on devices that leave the data as they are."""
    path = DIGITS / "digits_float.tflite"
    assert nnconv.convert(path, tmp_path / "m.onnx", quant="float", verify=True).verified
    b = TfliteBuilder()
    codes = b.const(np.arange(12, dtype=np.int8).reshape(4, 3), quant=(0.1, 0))
    weights = b.op("DEQUANTIZE", [codes], [("float32", (4, 3))])
    x = b.input("x", "float32", (2, 3))
    b.output(b.op("FULLY_CONNECTED", [x, weights, None], [("float32", (2, 4))]))
    path = tmp_path / "weights.tflite"
    path.write_bytes(bytes(b.build()))
    assert nnconv.convert(path, tmp_path / "m.nnapi", quant="float", verify=True).verified


def test_data_that_a_run_quantizes_cannot_be_verified_in_floats(tmp_path: Path):
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 3))
    codes, scale, _ = b.add_many(DynamicQuantize(), [x])
    graph.outputs = [b.add(e.Mul(), [b.add(Cast(dtype=DType.FLOAT32), [codes]), scale], name="y")]
    path = tmp_path / "m.onnx"
    nnconv.save(Model([Signature("", graph, ("x",), ("y",))]), path)
    with pytest.raises(UsageError, match="nothing to verify"):
        nnconv.convert(path, tmp_path / "m.tflite", quant="float", verify=True)
    assert not (tmp_path / "m.tflite").exists()


def test_what_is_dequantized_to_go_out_goes_out(tmp_path: Path):
    quant = (0.5, 3)
    b = TfliteBuilder()
    x = b.input("x", "int8", (2, 5), quant=quant)
    y = b.op("ABS", [x], [("int8", (2, 5), quant)])
    b.output(b.op("DEQUANTIZE", [y], [("float32", (2, 5))]))
    path = tmp_path / "m.tflite"
    path.write_bytes(bytes(b.build()))
    model = _in_floats(nnconv.load(path))
    assert [node.op.name for node in model.graph.nodes] == ["Dequantize", "Abs", "Identity"]
    nnconv.convert(path, tmp_path / "m.onnx", quant="float")
    codes = np.arange(-5, 5, dtype=np.int8).reshape(2, 5)
    session = onnx_session(tmp_path / "m.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: codes})
    np.testing.assert_array_equal(found, np.abs((codes - np.float32(3)) * np.float32(0.5)))


@pytest.mark.parametrize("form", ["on codes", "between conversions"])
@pytest.mark.parametrize("high", [6.0, 9.0])
def test_a_clamp_that_codes_imply_comes_back(high: float, form: str):
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.INT8, (1, 256), quant=Quant.per_tensor(0.1, 3))
    y = Quant.per_tensor(high / 255, -128)
    if form == "on codes":
        z = b.add(e.Neg(), [b.add(e.Neg(), [x], quant=y)], quant=Quant.per_tensor(0.1))
    else:
        real = b.add(e.Neg(), [b.add(Dequantize(dtype=DType.FLOAT32), [x])])
        codes = b.add(Quantize(dtype=DType.INT8), [real], quant=y)
        z = b.add(e.Neg(), [b.add(Dequantize(dtype=DType.FLOAT32), [codes])])
    graph.outputs = [b.add(Dequantize(dtype=DType.FLOAT32), [z]) if z.quant else z]
    data = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    (before,) = run_graph(graph, [data])
    _in_floats(Model([Signature("", graph)]))
    (after,) = run_graph(graph, [data])
    inside = np.abs(before) <= 5.9
    np.testing.assert_allclose(before[inside], after[inside], atol=0.15)
    assert (np.abs(after) > 6.1).any() == (high != 6)
    kinds = [n.op for n in graph.nodes if isinstance(n.op, e.Clip)]
    assert kinds == [e.Clip(low=0.0, high=6.0 if high == 6 else float("inf"))]


@pytest.mark.parametrize("quant", ["keep", "float"])
@pytest.mark.parametrize("target", ["onnx", "tflite", "nnapi", "nnrt"])
def test_halves_become_codes_and_codes_halves(target: str, quant: str, tmp_path: Path):
    """Codes that are floats now need no conversion to other floats but a Cast."""
    b = NnapiBuilder()
    half, codes = OperandCode.TENSOR_FLOAT16, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
    x, kept = b.input(half, (3,)), b.const(codes, np.int8([6, -2, 100]), scale=0.5)
    coded, doubled = (b.operand(codes, (3,), scale=0.5) for _ in range(2))
    read, sums = b.operand(half, (3,)), b.operand(half, (3,))
    y = b.output(half, (3,))
    none = b.const(OperandCode.INT32, 0)
    b.run(OperationCode.QUANTIZE, [x], [coded])
    b.run(OperationCode.ADD, [coded, coded, none], [doubled])
    b.run(OperationCode.DEQUANTIZE, [doubled], [sums])
    b.run(OperationCode.DEQUANTIZE, [kept], [read])
    b.run(OperationCode.ADD, [sums, read, none], [y])
    nnconv.save(import_model(b.model()), tmp_path / f"result.{target}", quant=quant)
    again = nnconv.load(tmp_path / f"result.{target}")
    given = np.array([1, -3, 7.5], again.inputs[0].dtype.numpy)
    (found,) = run_graph(again.graph, [given])
    np.testing.assert_array_equal(found, [5, -7, 65])


@pytest.mark.parametrize("target", ["onnx", "tflite", "nnapi", "nnrt"])
def test_codes_beyond_halves_are_infinite(target: str, tmp_path: Path):
    """Without a warning, as in kernels."""
    b = NnapiBuilder()
    half, codes = OperandCode.TENSOR_FLOAT16, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
    x, kept = b.input(half, (2,)), b.const(codes, np.int8([100, -3]), scale=1000.0)
    read, y = b.operand(half, (2,)), b.output(half, (2,))
    b.run(OperationCode.DEQUANTIZE, [kept], [read])
    b.run(OperationCode.ADD, [x, read, b.const(OperandCode.INT32, 0)], [y])
    nnconv.save(import_model(b.model()), tmp_path / f"result.{target}")
    again = nnconv.load(tmp_path / f"result.{target}")
    (found,) = run_graph(again.graph, [np.zeros(2, again.inputs[0].dtype.numpy)])
    np.testing.assert_array_equal(found.astype(np.float16), np.float16([np.inf, -3000]))
