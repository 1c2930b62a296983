"""Kinds of fault in quantized models: scales, zero points, signs, roundings, narrow weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnconv
from support.litert import run_litert
from support.places import FIXTURES
from support.tflite_builder import Quant, Tensor, TfliteBuilder
from support.whole import conv, convert

DIGITS = ["digits_int8", "digits_uint8"]


def constants(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    return {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}


def parameters(graph: onnx.GraphProto) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Of each node that (de)quantizes: its type, scales and zero points."""
    known = constants(graph)
    return [
        (node.op_type, known[node.input[1]].reshape(-1), known[node.input[2]].reshape(-1))
        for node in graph.node
        if node.op_type in {"QuantizeLinear", "DequantizeLinear"}
    ]


# ---------------------------------------------------------------- parameters stay


@pytest.mark.parametrize("int8", ["resign", "keep"])
@pytest.mark.parametrize("name", DIGITS)
def test_every_scale_arrives_bit_by_bit(name: str, int8: str, tmp_path: Path) -> None:
    source, target = FIXTURES / "digits" / f"{name}.tflite", tmp_path / "m.onnx"
    nnconv.convert(source, target, int8=int8)
    graph = nnconv.load(source).graph
    values = {v for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None and v.quant}
    known = {s for v in values if v.quant for s in np.float32(v.quant.scale).tolist()}
    written = parameters(onnx.load(target).graph)
    assert written
    for op, scales, points in written:
        assert known.issuperset(scales.tolist()), f"a {op} has scales that the source hasn't"
        if points.dtype == np.uint8 and name == "digits_int8":
            assert int8 == "resign"
    activations = {v for v in values if not v.is_const}
    quantize = [op for op, _, _ in written].count("QuantizeLinear")
    assert quantize <= len(activations), "something is quantized twice"


@pytest.mark.parametrize("name", DIGITS)
def test_nothing_is_requantized_inside_a_quantized_region(name: str, tmp_path: Path) -> None:
    """A QuantizeLinear follows arithmetic; it never follows a DequantizeLinear at once."""
    target = tmp_path / "m.onnx"
    nnconv.convert(FIXTURES / "digits" / f"{name}.tflite", target)
    graph = onnx.load(target).graph
    makers = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] in makers:
            assert makers[node.input[0]].op_type != "DequantizeLinear"


@pytest.mark.parametrize("int8", ["resign", "keep"])
def test_a_clamp_stays_where_the_range_does_not_imply_it(int8: str, tmp_path: Path) -> None:
    """The result's codes reach below zero: without the ReLU the first would be -127."""
    scale = 1 / 127
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 1, 2, 1), quant=(scale, 0))
    w = b.const(np.full((1, 1, 1, 1), 127, np.int8), quant=(scale, 0))
    bias = b.const(np.zeros(1, np.int32), quant=(scale * scale, 0))
    options = {"fused_activation_function": "RELU"}
    y = conv(b, [x, w, bias], (1, 1, 2, 1), quant=(scale, 0), **options)
    whole = convert(b, tmp_path, y, int8=int8)
    assert whole.run(np.int8([-127, 127]).reshape(1, 1, 2, 1))[0].reshape(-1).tolist() == [0, 127]


def test_a_clamp_that_the_range_implies_costs_nothing(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 1, 2, 1), quant=(0.1, 0))
    w = b.const(np.full((1, 1, 1, 1), 127, np.int8), quant=(0.01, 0))
    bias = b.const(np.zeros(1, np.int32), quant=(0.001, 0))
    options = {"fused_activation_function": "RELU"}
    y = conv(b, [x, w, bias], (1, 1, 2, 1), quant=(0.05, -128), **options)
    whole = convert(b, tmp_path, y)
    assert not {"Relu", "Clip"} & {node.op_type for node in whole.graph.node}
    got = whole.run(np.int8([-100, 90]).reshape(1, 1, 2, 1))[0]
    assert got.reshape(-1).tolist() == [-128, 101]


# ---------------------------------------------------------------- axes of channels


@pytest.mark.parametrize("int8", ["resign", "keep"])
def test_scales_of_depthwise_channels_follow_their_axis(int8: str, tmp_path: Path) -> None:
    n, h, w, c = np.indices((1, 4, 5, 3))
    x = ((17 * h + 29 * w + 41 * c + 0 * n) % 256 - 128).astype(np.int8)
    _, kh, kw, kc = np.indices((1, 2, 3, 6))
    codes = ((37 * kh + 53 * kw + 71 * kc) % 255 - 127).astype(np.int8)
    scales = np.float32([0.01, 0.02, 0.04, 0.005, 0.03, 0.015])
    b = TfliteBuilder()
    data = b.input("x", "int8", x.shape, quant=(0.05, 11))
    filters = b.const(codes, quant=Quant(scales, 0, axis=3))
    numbers = np.int32([100, -200, 300, -400, 500, -600])
    operands = [data, filters, b.const(numbers, quant=Quant(scales * np.float32(0.05), 0))]
    options = {"stride": (1, 2), "quant": (0.4, -4), "depth_multiplier": 2}
    y = conv(b, operands, (1, 4, 3, 6), op="DEPTHWISE_CONV_2D", **options)
    whole = convert(b, tmp_path, y, int8=int8)
    got = whole.run(x)[0].astype(int)
    assert got.sum() == -322
    assert got[0, 0, 0].tolist() == [16, -48, -95, 10, 6, -19]
    assert got[0, 3, 2].tolist() == [-6, -5, 24, -7, -50, -4]
    known = constants(whole.graph)
    (node,) = [
        node
        for node in whole.graph.node
        if node.op_type == "DequantizeLinear"
        and known[node.input[1]].size == 6
        and known[node.input[0]].dtype == np.int8
    ]
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    assert known[node.input[0]].shape[axis] == 6
    np.testing.assert_array_equal(known[node.input[1]], scales)


def test_scales_of_transposed_filters_follow_their_axis(tmp_path: Path) -> None:
    """Filters are [O, h, w, I] in TFLite and [I, O, h, w] in ONNX."""
    rng = np.random.default_rng(0)
    scales = np.float32([0.01, 0.02, 0.04, 0.005, 0.03])
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 3, 4, 2), quant=(0.05, 11))
    w = rng.integers(-127, 128, (5, 3, 2, 2)).astype(np.int8)
    shape = (1, 6, 8, 5)
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
    operands = [b.const(np.int32(shape)), b.const(w, quant=Quant(scales, 0, axis=0)), x]
    y = b.op("TRANSPOSE_CONV", operands, [("int8", shape, (0.5, 3))], options=options)
    whole = convert(b, tmp_path, y)
    data = rng.integers(-128, 128, (1, 3, 4, 2)).astype(np.int8)
    gap = whole.run(data)[0].astype(int) - run_litert(whole.source, [data])[0]
    assert np.abs(gap).max() <= 1
    # Or are repeated, where the convolution is spelled as one that makes all phases at once.
    assert any(set(s.tolist()) == set(scales.tolist()) for _, s, _ in parameters(whole.graph))


# ---------------------------------------------------------------- biases


def test_a_bias_is_added_at_the_product_of_the_other_scales(tmp_path: Path) -> None:
    """Whatever the file says of its own: runtimes for TFLite add its codes as they are."""
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 1, 1, 2), quant=(0.1, 0))
    w = b.const(np.int8([50, -25]).reshape(1, 1, 1, 2), quant=(0.02, 0))
    bias = b.const(np.int32([100]), quant=(0.01, 0))
    whole = convert(b, tmp_path, conv(b, [x, w, bias], (1, 1, 1, 1), quant=(0.05, 0)))
    data = np.int8([10, 4]).reshape(1, 1, 1, 2)
    (got,) = whole.run(data)
    assert got.item() == round((1.0 * 1 - 0.4 * 0.5 + 100 * 0.002) / 0.05)
    assert all(got == run_litert(whole.source, [data], kernels)[0] for kernels in ("ref", "xnn"))


def test_one_bias_for_layers_of_other_scales(tmp_path: Path) -> None:
    """Each reader adds its codes at a scale of its own: neither copy may change the other."""
    b = TfliteBuilder()
    near = b.input("near", "int8", (1, 2), quant=(0.1, 0))
    far = b.input("far", "int8", (1, 2), quant=(0.2, 0))
    bias = b.const(np.int32([500]), quant=(0.002, 0))
    weights = b.const(np.int8([[50, -25]]), quant=(0.02, 0))
    outputs = [
        b.op("FULLY_CONNECTED", [x, weights, bias], [("int8", (1, 1), (0.05, 0))])
        for x in (near, far)
    ]
    whole = convert(b, tmp_path, *outputs)
    got = whole.run(np.int8([[10, 4]]), np.int8([[10, 4]]))
    assert [array.tolist() for array in got] == [[[36]], [[72]]]


# ---------------------------------------------------------------- signs


@pytest.mark.parametrize(("kind", "point"), [("uint8", 131), ("int8", 3)])
def test_both_signs_mean_the_same_numbers(kind: str, point: int, tmp_path: Path) -> None:
    """An input feeds a layer and goes out; the extreme codes are among those tried."""
    low = np.iinfo(kind).min
    b = TfliteBuilder()
    x = b.input("x", kind, (1, 4), quant=(0.1, point))
    w = np.int8([[1, 2, 3, 4], [-4, 3, -2, 1]])
    codes = w if kind == "int8" else (w.astype(int) + 128).astype(np.uint8)
    weights = b.const(codes, quant=(0.02, 0 if kind == "int8" else 128))
    bias = b.const(np.int32([10, -10]), quant=(np.float32(0.1) * np.float32(0.02), 0))
    result = (kind, (1, 2), (0.25, point))
    y = b.op("FULLY_CONNECTED", [x, weights, bias], [result])
    real = b.op("DEQUANTIZE", [x], [("float32", (1, 4))])
    whole = convert(b, tmp_path, y, x, real)
    data = (np.int32([[0, 255, 131, 7]]) + low).astype(kind)
    layer_out, same, reals = whole.run(data)
    wanted = run_litert(whole.source, [data])
    np.testing.assert_array_equal(layer_out, wanted[0])
    np.testing.assert_array_equal(same, data)
    np.testing.assert_array_equal(reals.view(np.uint32), wanted[2].view(np.uint32))
    assert {info.type for info in whole.session.get_inputs()} == {f"tensor({kind})"}


def test_weights_of_unsigned_bytes_become_signed_where_that_is_exact(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "uint8", (1, 3), quant=(0.1, 131))
    weights = b.const(np.uint8([[1, 128, 255]]), quant=(0.02, 128))
    y = b.op("FULLY_CONNECTED", [x, weights, None], [("uint8", (1, 1), (0.25, 120))])
    whole = convert(b, tmp_path, y)
    assert any(np.array_equal(c.reshape(-1), [-127, 0, 127]) for c in whole.constants)
    data = np.uint8([[0, 255, 200]])
    np.testing.assert_array_equal(whole.run(data)[0], run_litert(whole.source, [data])[0])


# ---------------------------------------------------------------- zero points of weights


def test_a_zero_point_of_weights_is_never_dropped(tmp_path: Path) -> None:
    """LiteRT refuses int8 weights that have one; their meaning is clear all the same."""
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 2, 2, 1), quant=(0.5, 0))
    w = b.const(np.int8([[[[5]]], [[[15]]]]), quant=Quant([0.1, 0.2], [5, 5], axis=0))
    bias = b.const(np.int32([0, 0]), quant=Quant([0.05, 0.1], 0))
    y = conv(b, [x, w, bias], (1, 2, 2, 2), quant=(1.0, 0))
    got = convert(b, tmp_path, y).run(np.int8([2, 4, 6, -8]).reshape(1, 2, 2, 1))[0]
    assert got[..., 0].reshape(-1).tolist() == [0, 0, 0, 0]
    assert got[..., 1].reshape(-1).tolist() == [2, 4, 6, -8]


def test_unsigned_weights_around_another_zero_point(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "uint8", (1, 3), quant=(0.1, 131))
    weights = b.const(np.uint8([[0, 121, 255]]), quant=(0.02, 121))
    y = b.op("FULLY_CONNECTED", [x, weights, None], [("uint8", (1, 1), (0.5, 120))])
    whole = convert(b, tmp_path, y)
    data = np.uint8([[0, 255, 200]])
    np.testing.assert_array_equal(whole.run(data)[0], run_litert(whole.source, [data])[0])


# ---------------------------------------------------------------- parameters that must agree


def moved(op: str, b: TfliteBuilder, x: Tensor, quant: tuple[float, int]) -> Tensor:
    """An op whose result has its operand's codes: [1, 2, 3, 4] to whatever."""
    pads = b.const(np.int32([[0, 0], [1, 0], [0, 2], [0, 0]]))
    forms: dict[str, tuple[list[Tensor], tuple[int, ...], dict[str, Any]]] = {
        "PAD": ([pads], (1, 3, 5, 4), {}),
        "RESHAPE": ([b.const(np.int32([6, 4]))], (6, 4), {}),
        "TRANSPOSE": ([b.const(np.int32([3, 0, 2, 1]))], (4, 1, 3, 2), {}),
        "SLICE": (
            [b.const(np.int32([0, 1, 0, 1])), b.const(np.int32([1, 1, 2, 3]))],
            (1, 1, 2, 3),
            {},
        ),
        "MAX_POOL_2D": (
            [],
            (1, 2, 3, 4),
            {
                "padding": "SAME",
                "stride_h": 1,
                "stride_w": 1,
                "filter_height": 2,
                "filter_width": 2,
            },
        ),
        "RESIZE_NEAREST_NEIGHBOR": ([b.const(np.int32([4, 6]))], (1, 4, 6, 4), {}),
        "RESIZE_BILINEAR": ([b.const(np.int32([4, 6]))], (1, 4, 6, 4), {}),
    }
    operands, shape, options = forms[op]
    made = b.op(op, [x, *operands], [("int8", shape, quant)], options=options)
    assert isinstance(made, Tensor)
    return made


@pytest.mark.parametrize(
    "op",
    [
        *("PAD", "RESHAPE", "TRANSPOSE", "SLICE", "MAX_POOL_2D"),
        *("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"),
    ],
)
def test_ops_that_move_codes_keep_them(op: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 2, 3, 4), quant=(0.1, -7))
    whole = convert(b, tmp_path, moved(op, b, x, (0.1, -7)))
    data = np.random.default_rng(0).integers(-128, 128, (1, 2, 3, 4)).astype(np.int8)
    gap = whole.run(data)[0].astype(int) - run_litert(whole.source, [data])[0]
    assert np.abs(gap).max() <= (1 if op == "RESIZE_BILINEAR" else 0)


def test_joined_parts_of_other_scales_are_brought_to_one(tmp_path: Path) -> None:
    """LiteRT refuses to join int8 parts whose parameters differ."""
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 3), quant=(0.1, 0))
    y = b.input("y", "int8", (1, 3), quant=(0.2, 5))
    result = ("int8", (1, 6), (0.1, 0))
    whole = convert(b, tmp_path, b.op("CONCATENATION", [x, y], [result], options={"axis": 1}))
    (got,) = whole.run(np.int8([[1, -2, 3]]), np.int8([[5, 6, -5]]))
    assert got.tolist() == [[1, -2, 3, 0, 2, -20]]


@pytest.mark.parametrize(
    ("scale", "point"), [(1 / 256, -128), (1 / 128, 0)], ids=["canonical", "other"]
)
def test_a_softmax_with_other_parameters_is_requantized(
    scale: float, point: int, tmp_path: Path
) -> None:
    """LiteRT takes 1/256 and -128 alone."""
    b = TfliteBuilder()
    x = b.input("x", "int8", (2, 5), quant=(0.1, 3))
    result = ("int8", (2, 5), (scale, point))
    whole = convert(b, tmp_path, b.op("SOFTMAX", [x], [result], options={"beta": 1.0}))
    data = np.random.default_rng(0).integers(-60, 60, (2, 5)).astype(np.int8)
    real = np.exp(0.1 * (data - 3.0))
    codes = real / real.sum(-1, keepdims=True) / scale + point
    assert np.abs(whole.run(data)[0] - np.clip(codes, -128, 127)).max() <= 1


# ---------------------------------------------------------------- paddings


@pytest.mark.parametrize("int8", ["resign", "keep"])
def test_padding_of_codes_is_the_zero_point(int8: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int8", (3,), quant=(0.1, -7))
    y = b.op("PAD", [x, b.const(np.int32([[1, 2]]))], [("int8", (6,), (0.1, -7))])
    (got,) = convert(b, tmp_path, y, int8=int8).run(np.int8([1, 2, 3]))
    assert got.tolist() == [-7, 1, 2, 3, -7, -7]


@pytest.mark.parametrize("int8", ["resign", "keep"])
def test_a_maximum_over_padding_is_that_of_the_codes(int8: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 3, 3, 1), quant=(0.1, 100))
    sizes = {"filter_height": 2, "filter_width": 2}
    y = conv(b, [x], (1, 3, 3, 1), op="MAX_POOL_2D", quant=(0.1, 100), **sizes)
    (got,) = convert(b, tmp_path, y, int8=int8).run(np.full((1, 3, 3, 1), -128, np.int8))
    assert (got == -128).all()


def test_zeros_around_a_quantized_convolution_are_the_zero_point(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    b = TfliteBuilder()
    x = b.input("x", "int8", (1, 4, 5, 2), quant=(0.1, -7))
    around = b.const(np.int32([[0, 0], [1, 1], [2, 0], [0, 0]]))
    wide = b.op("PAD", [x, around], [("int8", (1, 6, 7, 2), (0.1, -7))])
    w = b.const(rng.integers(-127, 128, (3, 3, 3, 2)).astype(np.int8), quant=(0.01, 0))
    bias = b.const(np.zeros(3, np.int32), quant=(0.001, 0))
    y = conv(b, [wide, w, bias], (1, 4, 5, 3), padding="VALID", quant=(0.2, 3))
    whole = convert(b, tmp_path, y)
    data = rng.integers(-128, 128, (1, 4, 5, 2)).astype(np.int8)
    gap = whole.run(data)[0].astype(int) - run_litert(whole.source, [data])[0]
    assert np.abs(gap).max() <= 1


# ---------------------------------------------------------------- roundings


def test_halves_are_rounded_within_a_step_of_either_rule(tmp_path: Path) -> None:
    """LiteRT's plain kernels round them away from zero; XNNPACK and onnxruntime to even."""
    b = TfliteBuilder()
    x = b.input("x", "float32", (4,))
    whole = convert(b, tmp_path, b.op("QUANTIZE", [x], [("int8", (4,), (1.0, 0))]), verify=True)
    data = np.float32([0.5, 1.5, 2.5, -0.5])
    assert whole.run(data)[0].tolist() == [0, 2, 2, 0]
    assert run_litert(whole.source, [data], "xnn")[0].tolist() == [0, 2, 2, 0]
    assert run_litert(whole.source, [data], "ref")[0].tolist() == [1, 2, 3, -1]
    assert whole.report.verified
    (check,) = whole.report.verification.outputs
    assert (check.tolerance_kind, check.tolerance) == ("steps", 1)


# ---------------------------------------------------------------- types at the edge


@pytest.mark.parametrize("name", ["digits_int8", "digits_uint8", "digits_float", "digits_int16x8"])
def test_the_interface_keeps_its_types(name: str, tmp_path: Path) -> None:
    source = FIXTURES / "digits" / f"{name}.tflite"
    report = nnconv.convert(source, tmp_path / "m.onnx")
    kinds = [row[1] for row in (*report.inputs, *report.outputs)]
    model = nnconv.load(source)
    assert kinds == [value.dtype.value for value in (*model.inputs, *model.outputs)]


def test_an_unsigned_input_over_a_signed_core(tmp_path: Path) -> None:
    """A QUANTIZE whose zero points are 128 apart changes the sign and no number."""
    b = TfliteBuilder()
    x = b.input("x", "uint8", (4,), quant=(0.1, 131))
    inner = b.op("QUANTIZE", [x], [("int8", (4,), (0.1, 3))])
    y = b.op("QUANTIZE", [inner], [("uint8", (4,), (0.1, 131))])
    got = convert(b, tmp_path, inner, y).run(np.uint8([0, 128, 131, 255]))
    assert got[0].tolist() == [-128, 0, 3, 127]
    assert got[1].tolist() == [0, 128, 131, 255]


def test_a_float_model_stays_float(tmp_path: Path) -> None:
    """Ranges are never guessed, nor zeros fed to find them."""
    target = tmp_path / "m.onnx"
    report = nnconv.convert(FIXTURES / "digits" / "digits_float.tflite", target)
    assert not any("Quantize" in op or "Integer" in op for op in report.counts)
    constants = onnx.load(target).graph.initializer
    assert {c.data_type for c in constants} <= {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64}
