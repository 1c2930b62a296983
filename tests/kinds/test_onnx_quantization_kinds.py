"""Kinds of fault in quantized ONNX models on the way to TFLite: scales, signs, biases, clamps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import nnconv
from nnconv.ir import DType
from nnconv.passes.weight_codes import WEIGHTED
from support.litert import RESOLVERS
from support.onnx_qdq import Qdq, quantized_by_onnxruntime, run_all
from support.onnx_routes import node, run_onnxruntime
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite
from support.whole import normal

FLOAT = "float32"


# ---------------------------------------------------------------- whole models


def network() -> onnx.ModelProto:
    """What onnxruntime's quantizer quantizes throughout."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"], group=8, pads=[0, 0, 1, 1], strides=[2, 2]),
        node("Clip", ["c2", "zero", "six"], ["r2"]),
        node("Conv", ["r2", "w3"], ["c3"]),
        node("Add", ["c3", "r2"], ["a"]),
        node("MaxPool", ["a"], ["m"], kernel_shape=[2, 2]),
        node("Sigmoid", ["m"], ["g"]),
        node("Mul", ["m", "g"], ["h"]),
        node("Concat", ["h", "m"], ["k"], axis=1),
        node("GlobalAveragePool", ["k"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "w4", "b4"], ["y"], transB=1),
    ]
    constants = {
        "w1": normal(8, 3, 3, 3) / 2, "b1": normal(8), "w2": normal(8, 1, 3, 3) / 2,
        "b2": normal(8, seed=1), "w3": normal(8, 8, 1, 1) / 2, "w4": normal(5, 16) / 2,
        "b4": normal(5), "zero": np.float32(0), "six": np.float32(6),
    }  # fmt: skip
    inputs, outputs = [info("x", FLOAT, [1, 3, 8, 8])], [info("y", FLOAT, [1, 5])]
    return onnx_model(nodes, inputs, outputs, constants, opset=17)


def parameters(model: onnx.ModelProto) -> tuple[set[float], set[float]]:
    """The scales and zero points that a model's quantizers have."""
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    scales = {name for name in known if name.endswith("scale")}
    points = {name for name in known if name.endswith("zero_point")}
    return (
        {number for name in scales for number in np.float32(known[name]).reshape(-1).tolist()},
        {number for name in points for number in known[name].reshape(-1).tolist()},
    )


FORMS = [
    (form, data, weights, per_channel)
    for form, (data, weights), per_channel in product(
        ("QDQ", "QOperator"),
        (("QUInt8", "QInt8"), ("QUInt8", "QUInt8"), ("QInt8", "QInt8")),
        (False, True),
    )
]


@pytest.mark.parametrize("int8", ["resign", "keep"])
@pytest.mark.parametrize(("form", "data", "weights", "per_channel"), FORMS)
def test_models_quantized_by_onnxruntime_stay_as_they_are(
    form: str, data: str, weights: str, per_channel: bool, int8: str, tmp_path: Path
) -> None:
    """Every scale is the source's, and nothing is quantized inside but what it quantizes."""
    batches = [{"x": 3 * normal(1, 3, 8, 8, seed=seed)} for seed in range(4)]
    path = quantized_by_onnxruntime(
        network(), tmp_path, batches, form=form, data=data, weights=weights, per_channel=per_channel
    )
    made = to_tflite(path, tmp_path, int8=int8)
    scales, points = parameters(onnx.load(path))
    graph = nnconv.load(made.target).graph
    values = {v for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None and v.quant}
    for value in values:
        assert value.quant is not None
        if value.dtype in (DType.INT8, DType.UINT8):
            if value.quant.scale == (1 / 256,):  # what LOGISTIC gives, before another step
                continue
            assert scales.issuperset(value.quant.scale), value
            moved = {p + s for p in value.quant.zero_point for s in (-128, 0, 128)}
            assert moved & points, value
    x = 3 * normal(1, 3, 8, 8, seed=9)
    wanted = run_onnxruntime(str(path), {"x": x})[0]
    step = max(v.quant.scale[0] for v in values if v.quant and v.type.rank == 2 and not v.is_const)
    for got in run_all(made, x):
        assert np.abs(got - wanted).max() <= 3 * step
    kept = all("weights have zero points" not in text for text in made.report.notes)
    if kept and (weights == "QInt8" or int8 == "resign"):
        assert made.ops["DEQUANTIZE"] == 1
        assert not made.report.notes


@pytest.mark.parametrize("target", ["nnapi", "nnrt"])
@pytest.mark.parametrize(("form", "data", "weights", "per_channel"), FORMS)
def test_layers_quantized_by_onnxruntime_stay_so_where_models_are_built_by_calls(
    form: str, data: str, weights: str, per_channel: bool, target: str, tmp_path: Path
) -> None:
    """NNRt knows signed codes alone, and NNAPI's FULLY_CONNECTED no scales of filters."""
    batches = [{"x": 3 * normal(1, 3, 8, 8, seed=seed)} for seed in range(4)]
    path = quantized_by_onnxruntime(
        network(), tmp_path, batches, form=form, data=data, weights=weights, per_channel=per_channel
    )
    report = nnconv.convert(path, tmp_path / f"m.{target}", verify=True)
    assert report.verified
    layers = [n for n in nnconv.load(report.target).graph.nodes if isinstance(n.op, WEIGHTED)]
    assert len(layers) >= 4
    on_codes = [n for n in layers if all(n.operand(i).type.has_codes for i in (0, 1))]
    told = sum("weights have zero points" in text for text in report.notes)
    assert len(layers) - len(on_codes) == told


# ---------------------------------------------------------------- axes of channels


def channelwise(form: str) -> onnx.ModelProto:
    """Filters [6, 1, 2, 3] in 3 groups, scales along the first dimension."""
    kh, kw, kc = np.indices((2, 3, 6))
    codes = ((37 * kh + 53 * kw + 71 * kc) % 255 - 127).transpose(2, 0, 1).reshape(6, 1, 2, 3)
    scales = np.float32([0.01, 0.02, 0.04, 0.005, 0.03, 0.015])
    bias = np.int32([100, -200, 300, -400, 500, -600])
    q = Qdq(13)
    attributes: dict[str, Any] = {"group": 3, "strides": [1, 2], "auto_pad": "SAME_UPPER"}
    if form == "QLinearConv":
        x = q.input("x", "int8", [1, 3, 4, 5])
        w, b = q.const(codes, "int8"), q.const(bias)
        points = [q.const(n, "int8") for n in (11, [0] * 6, -4)]
        steps = [q.const(np.float32(n)) for n in (0.05, scales, 0.4)]
        pairs = list(zip(steps, points, strict=True))
        q.op("QLinearConv", x, *pairs[0], w, *pairs[1], *pairs[2], b, name="y", **attributes)
        return q.model([("y", "int8", [1, 6, 4, 3])])
    x = q.dq(q.input("x", "int8", [1, 3, 4, 5]), 0.05, 11, "int8")
    w = q.weights(codes, scales)
    b = q.weights(bias, scales * np.float32(0.05), dtype="int32")
    q.q(q.op("Conv", x, w, b, **attributes), 0.4, -4, "int8", name="y")
    return q.model([("y", "int8", [1, 6, 4, 3])])


@pytest.mark.parametrize("form", ["QDQ", "QLinearConv"])
def test_scales_of_onnx_channels_follow_their_axis(form: str, tmp_path: Path) -> None:
    made = to_tflite(channelwise(form), tmp_path)
    h, w, c = np.indices((4, 5, 3))
    x = ((17 * h + 29 * w + 41 * c) % 256 - 128).astype(np.int8).transpose(2, 0, 1)[None]
    for got in run_all(made, x):
        assert got.astype(int).sum() == -322
        assert got[0, :, 0, 0].tolist() == [16, -48, -95, 10, 6, -19]
        assert got[0, :, 3, 2].tolist() == [-6, -5, 24, -7, -50, -4]
    assert made.ops == {"TRANSPOSE": 2, "DEPTHWISE_CONV_2D": 1}


def test_scales_of_onnx_transposed_filters_follow_their_axis(tmp_path: Path) -> None:
    """Filters are [I, O, h, w], scales along the second dimension."""
    rng = np.random.default_rng(0)
    q = Qdq()
    x = q.dq(q.input("x", "int8", [1, 2, 3, 4]), 0.05, 11, "int8")
    codes = rng.integers(-127, 128, (2, 5, 3, 2))
    w = q.weights(codes, [0.01, 0.02, 0.04, 0.005, 0.03], axis=1)
    y = q.op("ConvTranspose", x, w, strides=[2, 2])
    q.q(y, 0.5, 3, "int8", name="y")
    made = to_tflite(q.model([("y", "int8", None)]), tmp_path)
    data = rng.integers(-128, 128, (1, 2, 3, 4)).astype(np.int8)
    check_against_onnxruntime(made, [data], steps=1)
    assert not {"QUANTIZE", "DEQUANTIZE"} & made.ops.keys()


# ---------------------------------------------------------------- biases


def layer(q: Qdq, x: str, bias: str, *, scale: float = 0.05, name: str = "y") -> str:
    w = q.weights(np.int8([[50], [-25]]), 0.02)
    return q.q(q.op("Gemm", x, w, bias), scale, 0, "int8", name=name)


@pytest.mark.parametrize("kind", ["floats", "own scale", "product"])
def test_an_onnx_bias_is_written_at_the_product_of_scales(kind: str, tmp_path: Path) -> None:
    """1.0 are 500 steps of 0.1 times 0.02."""
    q = Qdq()
    x = q.dq(q.input("x", "int8", [1, 2]), 0.1, 0, "int8")
    bias = {
        "floats": lambda: q.const(np.float32([1])),
        "own scale": lambda: q.dq(q.const([100], "int32"), 0.01, 0, "int32"),
        "product": lambda: q.dq(
            q.const([500], "int32"), np.float32(0.1) * np.float32(0.02), 0, "int32"
        ),
    }[kind]()
    layer(q, x, bias)
    made = to_tflite(q.model([("y", "int8", [1, 1])]), tmp_path)
    for got in run_all(made, np.int8([[10, 4]])):
        assert got.item() == round((1.0 * 1 - 0.4 * 0.5 + 1.0) / 0.05)
    graph = nnconv.load(made.target).graph
    stored = {v for n in graph.nodes for v in n.inputs if v is not None and v.dtype is DType.INT32}
    assert [v.data.tolist() for v in stored if v.data is not None and v.shape == (1,)] == [[500]]


def test_one_onnx_bias_for_layers_of_other_scales(tmp_path: Path) -> None:
    """Each gets codes of its own."""
    q = Qdq()
    bias = q.const(np.float32([1]))
    for name, scale in (("a", 0.1), ("b", 0.2)):
        x = q.dq(q.input(f"x{name}", "int8", [1, 2]), scale, 0, "int8")
        layer(q, x, bias, name=f"y{name}")
    made = to_tflite(q.model([("ya", "int8", [1, 1]), ("yb", "int8", [1, 1])]), tmp_path)
    x = np.int8([[10, 4]])
    for resolver in RESOLVERS:
        a, b = made.run(x, x, resolver=resolver)
        assert a.item() == round((1.0 - 0.2 + 1.0) / 0.05)
        assert b.item() == round((2.0 - 0.4 + 1.0) / 0.05)


@pytest.mark.parametrize("per_channel", [False, True])
def test_an_onnx_bias_beyond_32_bits_keeps_its_value(per_channel: bool, tmp_path: Path) -> None:
    """The product of the scales is 1e-10, the bias 1: 10**10 of its steps.

    onnxruntime's own fusion lets it wrap, and gives 107 and 149.
    """
    q = Qdq()
    x = q.dq(q.input("x", "uint8", [1, 2]), 1e-4, 0, "uint8")
    scale: Any = [1e-6, 1e-2] if per_channel else 1e-6
    w = q.weights([[50, -25], [3, 7]], scale, axis=1)
    q.q(q.op("Gemm", x, w, q.const(np.float32([1, -1]))), 0.01, 128, name="y")
    made = to_tflite(q.model([("y", "uint8", [1, 2])]), tmp_path)
    for got in run_all(made, np.uint8([[255, 3]])):
        assert got.tolist() == [[228, 27 if per_channel else 28]]


# ---------------------------------------------------------------- clamps


@pytest.mark.parametrize("clamp", ["Relu", "Clip"])
def test_an_onnx_clamp_stays_where_the_range_does_not_imply_it(clamp: str, tmp_path: Path) -> None:
    """Symmetric codes reach below zero: without the clamp the first would be -127."""
    scale = 1 / 127
    q = Qdq()
    x = q.dq(q.input("x", "int8", [1, 1, 1, 2]), scale, 0, "int8")
    y = q.op("Conv", x, q.weights(np.full((1, 1, 1, 1), 127), scale))
    bounds = [q.const(np.float32(n)) for n in (0, 6)] if clamp == "Clip" else []
    q.q(q.op(clamp, y, *bounds), scale, 0, "int8", name="y")
    made = to_tflite(q.model([("y", "int8", [1, 1, 1, 2])]), tmp_path)
    for got in run_all(made, np.int8([-127, 127]).reshape(1, 1, 1, 2)):
        assert got.reshape(-1).tolist() == [0, 127]
    assert made.ops == {"RESHAPE": 2, "CONV_2D": 1}


def test_an_onnx_clamp_that_the_range_implies_costs_nothing(tmp_path: Path) -> None:
    q = Qdq()
    x = q.dq(q.input("x", "uint8", [1, 1, 1, 2]), 0.1, 128)
    y = q.op("Conv", x, q.weights(np.full((1, 1, 1, 1), 127), 0.01))
    z = q.dq(q.q(q.op("Relu", y), 0.05, 0), 0.05, 0)
    q.q(q.op("Relu", z), 0.05, 0, name="y")
    made = to_tflite(q.model([("y", "uint8", [1, 1, 1, 2])]), tmp_path)
    for got in run_all(made, np.uint8([28, 218]).reshape(1, 1, 1, 2)):
        assert got.reshape(-1).tolist() == [0, 229]
    assert not {"RELU", "MAXIMUM", "DEQUANTIZE"} & made.ops.keys()


# ---------------------------------------------------------------- signs


def resigned() -> onnx.ModelProto:
    """An input of bytes, to the ends of their range, that a convolution and the interface read."""
    q = Qdq()
    codes = q.input("x", "uint8", [1, 2, 3, 4])
    y = q.op("Conv", q.dq(codes, 0.1, 131), q.weights(np.arange(12).reshape(6, 2, 1, 1) - 5, 0.01))
    q.q(y, 0.05, 100, name="y")
    q.op("Identity", codes, name="same")
    q.op("Transpose", codes, name="turned", perm=[0, 2, 3, 1])
    outputs = [("y", [1, 6, 3, 4]), ("same", [1, 2, 3, 4]), ("turned", [1, 3, 4, 2])]
    return q.model([(name, "uint8", dims) for name, dims in outputs])


@pytest.mark.parametrize("int8", ["resign", "keep"])
def test_unsigned_bytes_at_an_onnx_edge_over_a_core_of_either_sign(
    int8: str, tmp_path: Path
) -> None:
    made = to_tflite(resigned(), tmp_path, int8=int8)
    x = np.linspace(0, 255, 24).astype(np.uint8).reshape(1, 2, 3, 4)
    check_against_onnxruntime(made, [x], steps=1)
    for resolver in RESOLVERS:
        _, same, turned = made.run(x, resolver=resolver)
        np.testing.assert_array_equal(same, x)
        np.testing.assert_array_equal(turned, x.transpose(0, 2, 3, 1))


EDGES = {"int8": 3, "uint8": 131, "int16": 0, "uint16": 32768}


@pytest.mark.parametrize("int8", ["resign", "keep"])
@pytest.mark.parametrize("dtype", EDGES)
def test_codes_at_an_onnx_edge_keep_their_type_and_parameters(
    dtype: str, int8: str, tmp_path: Path
) -> None:
    point = EDGES[dtype]
    q = Qdq()
    x = q.dq(q.input("x", dtype, [2, 4]), 0.05, point, dtype)
    q.q(q.op("Mul", x, x), 0.1, point, dtype, name="y")
    made = to_tflite(q.model([("y", dtype, [2, 4])]), tmp_path, int8=int8)
    model = nnconv.load(made.target)
    quants = [v.quant for v in (*model.inputs, *model.outputs)]
    assert [(u.scale[0], u.zero_point[0]) for u in quants if u] == [
        (float(np.float32(0.05)), point),
        (float(np.float32(0.1)), point),
    ]
    data = (np.arange(8).reshape(2, 4) * 9 + point).clip(0, np.iinfo(dtype).max).astype(dtype)
    check_against_onnxruntime(made, [data], steps=1)


# ---------------------------------------------------------------- zero points of weights


def pointed() -> Iterator[tuple[str, Any, Any]]:
    yield "int8", 5, np.arange(-20, 40)
    yield "int8", [5, -3, 0, 9, 2], np.arange(-20, 40)
    yield "int8", [5, -100, 0, 9, 100], np.linspace(-128, 127, 60)
    yield "uint8", 121, np.linspace(0, 255, 60)
    yield "uint8", 128, np.linspace(0, 255, 60)
    yield "uint8", [121, 128, 130, 3, 250], np.linspace(0, 255, 60)


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
@pytest.mark.parametrize(("dtype", "point", "numbers"), list(pointed()), ids=lambda v: str(v)[:12])
def test_a_zero_point_of_onnx_weights_is_never_dropped(
    op: str, dtype: str, point: Any, numbers: Any, tmp_path: Path
) -> None:
    """LiteRT refuses it in places: it goes into the codes, or the op computes with floats."""
    scale: Any = 0.02 if np.ndim(point) == 0 else [0.02, 0.01, 0.03, 0.02, 0.015]
    codes = np.asarray(numbers).astype(int).reshape(5, 12)
    q = Qdq()
    shape = [1, 12, 1, 1] if op == "Conv" else [1, 12]
    x = q.dq(q.input("x", "uint8", shape), 0.05, 120)
    if op == "Conv":
        y = q.op("Conv", x, q.weights(codes.reshape(5, 12, 1, 1), scale, point, dtype))
    else:
        y = q.op("Gemm", x, q.weights(codes, scale, point, dtype), transB=1)
    q.q(y, 0.4, 128, name="y")
    made = to_tflite(q.model([("y", "uint8", [1, 5, 1, 1] if op == "Conv" else [1, 5])]), tmp_path)
    x = np.linspace(0, 255, 12).astype(np.uint8)
    real = (codes - np.asarray(point).reshape(-1, 1)) * np.asarray(scale).reshape(-1, 1)
    wanted = np.round(real @ ((x - 120.0) * 0.05) / 0.4 + 128).clip(0, 255)
    for got in run_all(made, x.reshape(shape)):
        assert np.abs(got.reshape(-1) - wanted).max() <= 1
    if "DEQUANTIZE" in made.ops:
        assert any("zero points" in text for text in made.report.notes)


# ---------------------------------------------------------------- roundings


def test_onnx_halves_are_rounded_within_a_step(tmp_path: Path) -> None:
    """Some kernels round them to even, some away from zero."""
    q = Qdq()
    q.q(q.input("x", FLOAT, [7]), 1.0, 0, "int8", name="y")
    made = to_tflite(q.model([("y", "int8", [7])]), tmp_path)
    x = np.float32([0.5, 1.5, 2.5, -0.5, 2.4, -300, 300])
    for got in run_all(made, x):
        assert np.abs(got[:4].astype(float) - x[:4]).max() == 0.5
        assert got[4:].tolist() == [2, -128, 127]


# ---------------------------------------------------------------- 16 bits


def test_data_of_16_bits_has_wide_sums_in_onnx_too(tmp_path: Path) -> None:
    q = Qdq()
    x = q.dq(q.input("x", "int16", [1, 2]), 0.001, 0, "int16")
    w = q.weights([[40], [30]], 0.02)
    q.q(q.op("Gemm", x, w, q.const(np.float32([250 * 2e-5]))), 0.005, 0, "int16", name="y")
    made = to_tflite(q.model([("y", "int16", [1, 1])]), tmp_path)
    for got in run_all(made, np.int16([[2000, -500]])):
        assert got.item() == 261
    assert made.ops == {"FULLY_CONNECTED": 1}


@pytest.mark.parametrize("largest", [3, 127])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm"])
def test_sums_of_16_bit_data_are_as_wide_as_they_must_be(
    op: str, largest: int, tmp_path: Path
) -> None:
    """LiteRT is ten times as quick where they have 32 bits, and they wrap where that is too few."""
    q = Qdq()
    dims = [1, 600] if op == "Gemm" else [1, 600, 1, 1]
    x = q.dq(q.input("x", "int16", dims), 0.001, 0, "int16")
    codes = np.full([600, 2] if op != "Conv" else [2, 600], largest)
    w = q.weights(codes.reshape(codes.shape + (1, 1) * (op != "Gemm")), 0.02)
    data = np.full(dims, 32767, np.int16)
    q.q(q.op(op, x, w, q.const(np.float32([0.1, -0.2]))), 80.0, 0, "int16", name="y")
    made = to_tflite(q.model([("y", "int16", [1, 2, *dims[2:]])]), tmp_path)
    wanted = np.rint(600 * 32767 * 0.001 * largest * 0.02 / 80)
    for got in run_all(made, data):
        assert np.abs(got - wanted).max() <= 1
    biases = [
        v.dtype.value
        for n in nnconv.load(made.target).graph.nodes
        for v in n.inputs
        if v is not None and v.shape == (2,)
    ]
    assert biases == ["int64" if largest == 127 else "int32"]


def slow_at_16_bits() -> onnx.ModelProto:
    """A sum, a product and a depthwise convolution."""
    q, dims = Qdq(), [1, 6, 4, 4]
    x = q.dq(q.input("x", "int16", dims), 0.001, 0, "int16")
    product = q.qdq(q.op("Mul", q.qdq(q.op("Add", x, x), 0.002, 0, "int16"), x), 0.01, 0, "int16")
    w = q.weights(np.arange(54).reshape(6, 1, 3, 3) - 20, 0.01)
    q.q(q.op("Conv", product, w, group=6, pads=[1] * 4), 0.1, 0, "int16", name="y")
    return q.model([("y", "int16", dims)])


def test_16_bit_ops_that_litert_is_slow_at_are_done_in_floats(tmp_path: Path) -> None:
    """Between the same codes, and within a step of what integers give."""
    data = np.random.default_rng(0).integers(-32768, 32768, (1, 6, 4, 4)).astype(np.int16)
    results = {}
    for quant in ("keep", "integer"):
        made = to_tflite(slow_at_16_bits(), tmp_path, quant=quant)
        floats = {name: made.ops.get(name, 0) for name in ("QUANTIZE", "DEQUANTIZE")}
        assert bool(any(floats.values())) is (quant == "keep")
        assert any("slow" in note for note in made.report.notes) is (quant == "keep")
        results[quant] = run_all(made, data)
    for got, wanted in zip(*results.values(), strict=True):
        assert np.abs(got.astype(int) - wanted).max() <= 1


def test_float_onnx_models_stay_float(tmp_path: Path) -> None:
    """Nothing is quantized without being asked for, nor are ranges guessed."""
    made = to_tflite(network(), tmp_path)
    graph = nnconv.load(made.target).graph
    assert all(v.quant is None for n in graph.nodes for v in (*n.inputs, *n.outputs) if v)
    check_against_onnxruntime(made, [normal(1, 3, 8, 8)])
