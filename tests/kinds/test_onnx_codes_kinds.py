"""Kinds of fault in ops on codes of ONNX models: each op, moves into other parameters, padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnconv
from support.onnx_qdq import Qdq, run_all
from support.onnx_routes import node, run_onnxruntime
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite
from support.whole import normal

FLOAT = "float32"

# ---------------------------------------------------------------- single ops

TWO = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Concat", "Greater"}
PARAMETERS = {
    "uint8": (0.05, 131),
    "int8": (0.05, 3),
    "int16": (0.0003, 0),
    "int16 with a point": (0.0003, 1500),
    "uint16": (0.0003, 32768),
    "uint16 with a point": (0.0003, 30000),
}
OPS: dict[str, tuple[str, dict[str, Any]]] = {
    **{op: (op, {}) for op in ("Relu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "HardSwish")},
    **{op: (op, {}) for op in ("Exp", "Abs", "Neg", "Elu", "Selu", "Gelu", "Softplus", "Sin")},
    **{op: (op, {}) for op in ("Flatten", "Identity", "ReduceMean", "ReduceMax", "ReduceL2")},
    **{op: (op, {}) for op in ("GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "Erf")},
    **{op: (op, {}) for op in ("Add", "Sub", "Mul", "Max", "Min", "Mish", "Shrink", "Celu")},
    "Elu by halves": ("Elu", {"alpha": 0.5}),
    "LeakyRelu": ("LeakyRelu", {"alpha": 0.1}),
    "Concat": ("Concat", {"axis": 1}),
    "MaxPool": ("MaxPool", {"kernel_shape": [2, 2]}),
    "MaxPool padded": ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "MaxPool dilated": ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    "AveragePool": ("AveragePool", {"kernel_shape": [2, 2]}),
    "AveragePool padded": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 0, 1]}),
    "Transpose": ("Transpose", {"perm": [0, 2, 3, 1]}),
    "DepthToSpace": ("DepthToSpace", {"blocksize": 2}),
    "DepthToSpace CRD": ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    "LpNormalization": ("LpNormalization", {"axis": 1}),
    "LRN": ("LRN", {"size": 3}),
    "ArgMax": ("ArgMax", {"axis": 1}),
    "Greater": ("Greater", {}),
}


def quantized_op(name: str, kind: str) -> onnx.ModelProto:
    """An op between quantizers, the result's parameters others than the operands'."""
    op, attributes = OPS[name]
    dtype = kind.split(maxsplit=1)[0]
    scale, point = PARAMETERS[kind]
    q = Qdq()
    operands = [q.qdq(q.input("x", FLOAT, [1, 4, 4, 4]), scale, point, dtype)]
    if op in TWO:
        operands.append(q.qdq(q.input("z", FLOAT, [1, 4, 4, 4]), 1.5 * scale, point, dtype))
    if op in ("ArgMax", "Greater"):
        q.op(op, *operands, name="y", **attributes)
        return q.model([("y", "int64" if op == "ArgMax" else "bool", None)])
    codes = q.q(q.op(op, *operands, **attributes), 2 * scale, point, dtype)
    constants = [q.const(np.float32(2 * scale)), q.const(point, dtype)]
    q.op("DequantizeLinear", codes, *constants, name="y")
    return q.model([("y", FLOAT, None)])


@pytest.mark.parametrize("kind", PARAMETERS)
@pytest.mark.parametrize("name", OPS)
def test_each_op_between_quantizers(name: str, kind: str, tmp_path: Path) -> None:
    """Within a step of onnxruntime; what computes with floats in between is told."""
    model = quantized_op(name, kind)
    feeds = {i.name: 2 * normal(1, 4, 4, 4, seed=ord(i.name)) for i in model.graph.input}
    try:
        wanted = run_onnxruntime(model.SerializeToString(), feeds)[0]
    except Exception as error:  # noqa: BLE001 - onnxruntime lacks some ops of some types
        assert "NOT_IMPLEMENTED" in str(error)  # noqa: PT017
        assert kind.startswith("uint16")
        return
    made = to_tflite(model, tmp_path)
    step = 2 * PARAMETERS[kind][0]
    for got in run_all(made, *feeds.values()):
        assert got.shape == wanted.shape
        if wanted.dtype == np.float32:
            assert np.abs(got - wanted).max() <= 1.01 * step
        else:
            assert np.mean(got != wanted) <= 0.05  # where a rounding made a tie
    if made.ops.get("DEQUANTIZE", 0) > 1:
        assert any(" with floats" in text for text in made.report.notes)


@pytest.mark.parametrize("exponent", ["a number", "a code"])
def test_the_square_of_codes_is_a_product_of_codes(exponent: str, tmp_path: Path) -> None:
    """A quantizer that shares the number 2 with a product turns the exponent into a code."""
    q = Qdq()
    x = q.qdq(q.input("x", FLOAT, [1, 4, 4, 4]), 0.05, 3, "int8")
    two = q.const(np.float32(2))
    if exponent == "a code":
        two = q.weights(np.int8(127), 2 / 255, -128)
    q.q(q.op("Pow", x, two), 0.08, -128, "int8", name="y")
    model = q.model([("y", "int8", None)])
    made = to_tflite(model, tmp_path)
    check_against_onnxruntime(made, [2 * normal(1, 4, 4, 4)], steps=1)
    assert made.ops["MUL"] == 1
    assert "DEQUANTIZE" not in made.ops
    for target in ("nnapi", "nnrt"):
        report = nnconv.convert(made.source, tmp_path / f"m.{target}", verify=True)
        assert report.verified
        assert report.counts["MUL"] == 1
        assert "DEQUANTIZE" not in report.counts
        assert report.counts.get("QUANT_DTYPE_CAST", 1) == 1  # of the input


@pytest.mark.parametrize("target", ["nnapi", "nnrt"])
def test_narrow_weights_are_widened_where_there_are_no_narrow_codes(
    target: str, tmp_path: Path
) -> None:
    """The layer stays one on codes; so does a mean that counts its padding."""
    q = Qdq()
    x = q.qdq(q.input("x", FLOAT, [1, 4, 4, 4]), 0.05, 3, "int8")
    codes = np.random.default_rng(3).integers(-8, 8, (5, 4, 3, 3))
    w = q.weights(codes, np.float32([0.01, 0.02, 0.03, 0.04, 0.05]), 0, "int4")
    y = q.qdq(q.op("Conv", x, w, pads=[1, 1, 1, 1]), 0.1, 5, "int8")
    more = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    q.q(q.op("AveragePool", y, **more), 0.1, 5, "int8", name="z")
    source = tmp_path / "m.onnx"
    source.write_bytes(q.model([("z", "int8", [1, 5, 4, 4])]).SerializeToString())
    report = nnconv.convert(source, tmp_path / f"m.{target}", verify=True)
    assert report.verified
    assert not any("Conv2D" in note or "AveragePool" in note for note in report.notes)
    layer = next(n for n in nnconv.load(report.target).graph.nodes if n.op.name == "Conv2D")
    assert [str(v.dtype) for v in layer.inputs[:2] if v is not None] == ["int8", "int8"]


# ---------------------------------------------------------------- parameters that must agree


def test_onnx_parts_of_other_scales_are_joined(tmp_path: Path) -> None:
    q = Qdq()
    parts = [
        q.dq(q.input(f"x{i}", "uint8", [1, 3]), scale, point)
        for i, (scale, point) in enumerate([(0.1, 128), (0.05, 100), (0.2, 0)])
    ]
    q.q(q.op("Concat", *parts, axis=1), 0.1, 128, name="y")
    made = to_tflite(q.model([("y", "uint8", [1, 9])]), tmp_path)
    check_against_onnxruntime(
        made, [np.uint8([[0, 128, 255]]), np.uint8([[0, 77, 255]]), np.uint8([[0, 7, 63]])], steps=1
    )
    assert "DEQUANTIZE" not in made.ops


@pytest.mark.parametrize("op", ["MaxPool", "Transpose", "Reshape", "Slice", "DepthToSpace", "Pad"])
def test_onnx_moves_into_other_parameters(op: str, tmp_path: Path) -> None:
    """Kernels give the operand's: a step between has the others."""
    q = Qdq()
    x = q.dq(q.input("x", "uint8", [1, 4, 4, 4]), 0.1, 128)
    more = {
        "Reshape": lambda: [q.const(np.int64([2, 32]))],
        "Slice": lambda: [q.const(np.int64([1])), q.const(np.int64([3])), q.const(np.int64([2]))],
        "Pad": lambda: [q.const(np.int64([0, 0, 1, 0, 0, 0, 0, 2]))],
    }.get(op, list)()
    attributes = {"MaxPool": {"kernel_shape": [2, 2]}, "DepthToSpace": {"blocksize": 2}}
    q.q(q.op(op, x, *more, **attributes.get(op, {})), 0.05, 60, name="y")
    made = to_tflite(q.model([("y", "uint8", None)]), tmp_path)
    data = np.linspace(0, 255, 64).astype(np.uint8).reshape(1, 4, 4, 4)
    check_against_onnxruntime(made, [data], steps=1)


@pytest.mark.parametrize(("scale", "point"), [(1 / 256, 0), (1 / 128, 0), (1 / 255, 0), (0.01, 7)])
@pytest.mark.parametrize("op", ["Softmax", "Sigmoid"])
def test_onnx_results_of_fixed_parameters(
    op: str, scale: float, point: int, tmp_path: Path
) -> None:
    q = Qdq()
    x = q.dq(q.input("x", "uint8", [2, 5]), 0.1, 128)
    q.q(q.op(op, x), scale, point, name="y")
    made = to_tflite(q.model([("y", "uint8", [2, 5])]), tmp_path)
    data = np.linspace(0, 255, 10).astype(np.uint8).reshape(2, 5)
    check_against_onnxruntime(made, [data], steps=1)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_integers_are_kept_to_where_they_are_asked_for(op: str, tmp_path: Path) -> None:
    """By itself ONNX says floats between codes, and these are faster."""
    q = Qdq()
    x = q.dq(q.input("x", "int8", [2, 5]), 0.1, 0, "int8")
    fixed = {"Softmax": (1 / 256, -128), "LogSoftmax": (16 / 256, 127)}
    q.q(q.op(op, x), *fixed[op], "int8", name="y")
    model = q.model([("y", "int8", [2, 5])])
    assert to_tflite(model, tmp_path).ops["DEQUANTIZE"] == 1
    integers = to_tflite(model, tmp_path, quant="integer")
    assert "DEQUANTIZE" not in integers.ops
    data = np.linspace(-128, 127, 10).astype(np.int8).reshape(2, 5)
    check_against_onnxruntime(integers, [data], steps=1)


# ---------------------------------------------------------------- padding


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_onnx_padding_of_codes_is_the_zero_point(dtype: str, tmp_path: Path) -> None:
    point = -7 if dtype == "int8" else 121
    q = Qdq()
    x = q.dq(q.input("x", dtype, [3]), 0.1, point, dtype)
    q.q(q.op("Pad", x, q.const(np.int64([1, 2]))), 0.1, point, dtype, name="y")
    made = to_tflite(q.model([("y", dtype, [6])]), tmp_path)
    for got in run_all(made, np.array([1, 2, 3], dtype)):
        assert got.tolist() == [point, 1, 2, 3, point, point]
    assert sum(made.ops.values()) == 1


def test_onnx_padding_of_bare_bytes_is_0(tmp_path: Path) -> None:
    """No quantizer says what they stand for."""
    nodes = [node("Pad", ["x", "p"], ["y"])]
    constants = {"p": np.int64([1, 2])}
    model = onnx_model(nodes, [info("x", "int8", [3])], [info("y", "int8", [6])], constants)
    check_against_onnxruntime(to_tflite(model, tmp_path), [np.int8([1, 2, 3])])


def test_an_onnx_maximum_over_padding_is_that_of_the_codes(tmp_path: Path) -> None:
    q = Qdq()
    x = q.dq(q.input("x", "int8", [1, 1, 3, 3]), 0.1, -7, "int8")
    y = q.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    q.q(y, 0.1, -7, "int8", name="y")
    made = to_tflite(q.model([("y", "int8", [1, 1, 2, 2])]), tmp_path)
    check_against_onnxruntime(made, [np.int8(np.arange(-128, -119)).reshape(1, 1, 3, 3)])
    assert not {"QUANTIZE", "DEQUANTIZE"} & made.ops.keys()


def test_zeros_around_a_quantized_onnx_convolution_are_the_zero_point(tmp_path: Path) -> None:
    q = Qdq()
    x = q.dq(q.input("x", "uint8", [1, 1, 3, 3]), 0.1, 77)
    y = q.op("Conv", x, q.weights(np.ones((1, 1, 3, 3), int), 0.1), pads=[2, 1, 0, 1])
    q.q(y, 0.1, 50, name="y")
    made = to_tflite(q.model([("y", "uint8", [1, 1, 3, 3])]), tmp_path)
    data = np.arange(70, 79).astype(np.uint8).reshape(1, 1, 3, 3)
    check_against_onnxruntime(made, [data], steps=1)
    assert not {"DEQUANTIZE"} & made.ops.keys()


# ---------------------------------------------------------------- onnxruntime's own operators

MICROSOFT = "com.microsoft"
A, B, Y = (0.05, 131), (0.08, 100), (0.1, 120)
"""Scales and zero points of two operands and the result."""


def own(op: str, **attributes: Any) -> onnx.ModelProto:
    """An operator on codes whose parameters are operands."""
    q = Qdq(17, MICROSOFT)

    def known(pair: tuple[float, int]) -> list[str]:
        return [q.const(np.float32(pair[0])), q.const(pair[1], "uint8")]

    x = q.input("x", "uint8", [1, 4, 4, 4])
    operands = [x, *known(A)]
    results: list[Any] = [("y", "uint8", None)]
    if op in ("QLinearAdd", "QLinearMul"):
        operands += [q.input("z", "uint8", [1, 4, 4, 4]), *known(B), *known(Y)]
    elif op == "QLinearConcat":
        operands = [*known(Y), *operands, q.input("z", "uint8", [1, 4, 4, 4]), *known(B)]
    elif op == "QLinearWhere":
        flags = q.input("k", "bool", [1, 4, 4, 4])
        operands = [flags, *operands, q.input("z", "uint8", [1, 4, 4, 4]), *known(B), *known(Y)]
    elif op == "QGemm":
        q.inputs.clear()
        weights = q.const(np.arange(-10, 10).reshape(4, 5), "int8")
        operands = [q.input("x", "uint8", [3, 4]), *known(A), weights]
        operands += [q.const(np.float32(0.02)), q.const(0, "int8")]
        operands += [q.const(np.int32([100, -200, 300, 0, 50]))]
        if attributes.pop("quantized"):
            operands += known(Y)
        else:
            results = [("y", FLOAT, None)]
    elif op == "QLinearSoftmax":
        operands += known((1 / 256, 0))
    else:
        operands += known(Y)
    q.op(op, *operands, name="y", domain=MICROSOFT, **attributes)
    return q.model(results)


OWN: dict[str, tuple[str, dict[str, Any]]] = {
    "add": ("QLinearAdd", {}),
    "multiply": ("QLinearMul", {}),
    "join": ("QLinearConcat", {"axis": 1}),
    "choose": ("QLinearWhere", {}),
    "sigmoid": ("QLinearSigmoid", {}),
    "leak": ("QLinearLeakyRelu", {"alpha": 0.1}),
    "softmax": ("QLinearSoftmax", {"axis": -1, "opset": 13}),
    "softmax of channels": ("QLinearSoftmax", {"axis": 1, "opset": 13}),
    "old softmax": ("QLinearSoftmax", {"axis": 3, "opset": 12}),
    "mean": ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "padded mean": ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "mean with padding": (
        "QLinearAveragePool",
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "mean, channels last": ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}),
    "global mean": ("QLinearGlobalAveragePool", {"channels_last": 0}),
    "global mean, channels last": ("QLinearGlobalAveragePool", {"channels_last": 1}),
    "layer": ("QGemm", {"quantized": True}),
    "layer of floats": ("QGemm", {"quantized": False}),
}


@pytest.mark.parametrize("name", OWN)
def test_onnxruntimes_operators_on_codes(name: str, tmp_path: Path) -> None:
    op, attributes = OWN[name]
    made = to_tflite(own(op, **attributes), tmp_path)
    rng = np.random.default_rng(0)
    feeds = []
    for value in onnx.load(made.source).graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        drawn = rng.integers(0, 256, shape)
        feeds.append(drawn > 127 if value.name == "k" else drawn.astype(np.uint8))
    check_against_onnxruntime(made, feeds, steps=1)
