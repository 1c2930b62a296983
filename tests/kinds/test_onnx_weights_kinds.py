"""Kinds of fault in weights of ONNX models that are no plain floats, or that several nodes read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import nnconv
from support.onnx_qdq import Qdq, quantized_by_onnxruntime, run_all
from support.onnx_routes import node, run_onnxruntime
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite
from support.whole import floats, normal

FLOAT, HALF = "float32", "float16"


# ---------------------------------------------------------------- codes under floats

RANGES = {
    "int8": (-127, 128), "uint8": (0, 256), "int4": (-8, 8), "uint4": (0, 16), "int16": (-900, 900),
}  # fmt: skip
POINTS = {"uint8": 121, "uint4": 7, "int8": 3}
WAYS = ["MatMul", "Transpose", "Gemm", "Conv"]
SPREADS = ["tensor", "channel", "points", "block"]


def codes_of(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(dtype)).integers(*RANGES[dtype], shape)


def coded(q: Qdq, dtype: str, spread: str, axis: int) -> tuple[str, np.ndarray]:
    """Weights [9, 7], or [7, 9] along ``axis`` 1, with scales of their rows; and what they mean."""
    shape = (9, 7) if axis == 0 else (7, 9)
    codes, point = codes_of(dtype, *shape), POINTS.get(dtype, 0)
    scales: Any = np.float32(0.02)
    points: Any = np.array(point)
    if spread != "tensor":
        scales = (1 + floats(9)) / 64
        points = points + (np.arange(9) % 3 if spread == "points" else np.zeros(9, int))
    if spread == "block":  # three of 3 columns, of which the last has one
        scales = np.float32([1, -1, 0]) * (1 + floats(9, 3)) / 64
        scales = scales if axis == 0 else scales.T
        constants = (
            q.const(codes, dtype),
            q.const(scales),
            q.const(np.full(scales.shape, point), dtype),
        )
        made = q.op("DequantizeLinear", *constants, axis=1 - axis, block_size=3)
        wide = np.repeat(scales, 3, 1 - axis)[:, :7] if axis == 0 else np.repeat(scales, 3, 0)[:7]
        return made, (codes - point) * wide
    form = [-1 if i == axis else 1 for i in range(2)] if np.ndim(scales) else []
    real = (codes - points.reshape(form)) * scales.reshape(form)
    return q.weights(codes, scales, points, dtype, axis), real


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("dtype", RANGES)
def test_coded_weights_under_float_data_mean_their_reals(
    dtype: str, spread: str, way: str, tmp_path: Path
) -> None:
    """Data isn't rounded. They stay small in the file, and no transpose is left to do."""
    q = Qdq()
    x = normal(3, 7) if way != "Conv" else normal(3, 7, 1, 1)
    data = q.input("x", FLOAT, x.shape)
    w, real = coded(q, dtype, spread, 1 if way in ("MatMul", "Gemm") else 0)
    if way == "Transpose":
        q.op("MatMul", data, q.op("Transpose", w, perm=[1, 0]), name="y")
    elif way == "Conv":
        q.op("Conv", data, q.op("Reshape", w, q.const(np.int64([9, 7, 1, 1]))), name="y")
    else:
        q.op(way, data, w, name="y")
    made = to_tflite(q.model([("y", FLOAT, None)]), tmp_path)
    matrix = real if way in ("MatMul", "Gemm") else real.T
    wanted = (x.reshape(3, 7) @ matrix).reshape(3, 9)
    for got in run_all(made, x):
        np.testing.assert_allclose(got.reshape(3, 9), wanted, rtol=1e-4, atol=1e-4)
    assert not {"TRANSPOSE", "BATCH_MATMUL", "MUL", "CAST"} & made.ops.keys()
    if spread != "block" and not (dtype == "int16" and spread != "tensor"):
        assert made.ops["DEQUANTIZE"] == 1


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_blocks_of_onnx_filters(dtype: str, tmp_path: Path) -> None:
    """Three-by-three filters, whose channels share scales by fours."""
    codes, scales = codes_of(dtype, 5, 8, 3, 3), (1 + floats(5, 2, 3, 3)) / 64
    q = Qdq()
    x = q.input("x", FLOAT, [1, 8, 4, 4])
    w = q.dq(q.const(codes, dtype), scales, 0, dtype, axis=1, block_size=4)
    q.op("Conv", x, w, name="y")
    made = to_tflite(q.model([("y", FLOAT, [1, 5, 2, 2])]), tmp_path)
    check_against_onnxruntime(made, [normal(1, 8, 4, 4)], tolerance=1e-4)


@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("op", ["MatMul", "Conv", "LSTM", "Gather"])
def test_models_that_onnxruntime_quantizes_as_they_run(
    op: str, per_channel: bool, weights: str, tmp_path: Path
) -> None:
    """Data is quantized by its own range in each run: the model's nodes say how, and are kept."""
    constants = {"w": normal(4, 3, 3, 3), "b": normal(4)}
    nodes, x = [node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])], normal(1, 3, 6, 6)
    dims: list[int] = [1, 4, 6, 6]
    if op == "MatMul":
        constants = {"w": normal(8, 6), "v": normal(6, 4), "b": normal(4)}
        nodes = [
            node("MatMul", ["x", "w"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("Gemm", ["r", "v", "b"], ["y"]),
        ]
        x, dims = normal(3, 8), [3, 4]
    elif op == "LSTM":
        constants = {"w": normal(1, 20, 3), "r": normal(1, 20, 5), "b": normal(1, 40)}
        nodes = [node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=5)]
        x, dims = normal(4, 2, 3), [4, 1, 2, 5]
    elif op == "Gather":
        constants = {"w": normal(10, 8)}
        nodes = [node("Gather", ["w", "x"], ["y"])]
        x, dims = np.int64([1, -1, 9]), [3, 8]
    model = onnx_model(
        nodes, [info("x", x.dtype, x.shape)], [info("y", FLOAT, dims)], constants, opset=17
    )
    path = quantized_by_onnxruntime(model, tmp_path, [], weights=weights, per_channel=per_channel)
    made = to_tflite(path, tmp_path)
    # The cells of an LSTM aren't rounded here, which is nearer to the model before.
    tolerance = 0.02 if op == "LSTM" else 1e-4
    check_against_onnxruntime(made, [x], tolerance=tolerance)
    assert nnconv.convert(path, tmp_path / "again.onnx", verify=True).verified


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(("depth", "block"), [(32, 32), (40, 16), (48, 16), (20, 32)])
def test_onnxruntimes_products_of_packed_weights(
    depth: int, block: int, points: bool, bits: int, tmp_path: Path
) -> None:
    rng, blocks = np.random.default_rng(0), -(-depth // block)
    constants = {
        "w": rng.integers(0, 256, (6, blocks, block * bits // 8)).astype(np.uint8),
        "s": normal(6, blocks),
    }
    if points:
        constants["z"] = rng.integers(0, 256, (6, -(-blocks * bits // 8))).astype(np.uint8)
    attributes = {"K": depth, "N": 6, "bits": bits, "block_size": block}
    made = node("MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", **attributes)
    domains = {"com.microsoft": 1}
    inputs, outputs = [info("x", FLOAT, [1, 2, depth])], [info("y", FLOAT, [1, 2, 6])]
    model = onnx_model([made], inputs, outputs, constants, domains=domains)
    converted = to_tflite(model, tmp_path)
    check_against_onnxruntime(converted, [normal(1, 2, depth)], tolerance=1e-3)
    assert converted.ops == {"FULLY_CONNECTED": 1}
    for target in ("onnx", "nnapi", "nnrt"):
        assert nnconv.convert(converted.source, tmp_path / f"again.{target}", verify=True).verified


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int4", "uint4"])
def test_quantizers_of_onnxruntimes_own_operator_set(dtype: str, tmp_path: Path) -> None:
    """It writes those for types that the standard ones of old opsets lack."""
    q = Qdq(17, "com.microsoft")
    point = {"uint8": 131, "uint16": 32768, "uint4": 7}.get(dtype, 0)
    scale = 0.001 if "16" in dtype else 0.3
    q.op("Relu", q.qdq(q.input("x", FLOAT, [2, 4]), scale, point, dtype), name="y")
    made = to_tflite(q.model([("y", FLOAT, [2, 4])]), tmp_path)
    check_against_onnxruntime(made, [normal(2, 4)], tolerance=1e-5)


# ---------------------------------------------------------------- halves


def test_parameters_that_a_converter_to_halves_widens_are_known(tmp_path: Path) -> None:
    """What float16 can't be, such as the scales of a Resize, has a Cast before it."""
    constants = {"s": np.float16([1, 1, 2, 2]), "two": np.float16(2)}
    nodes = [
        node("Cast", ["s"], ["scales"], to=TensorProto.FLOAT),
        node("Cast", ["two"], ["exponent"], to=TensorProto.FLOAT),
        node("Resize", ["x", "", "scales"], ["r"], mode="nearest"),
        node("Pow", ["r", "exponent"], ["y"]),
    ]
    inputs, outputs = [info("x", FLOAT, [1, 2, 3, 4])], [info("y", FLOAT, [1, 2, 6, 8])]
    made = to_tflite(onnx_model(nodes, inputs, outputs, constants, opset=17), tmp_path)
    check_against_onnxruntime(made, [normal(1, 2, 3, 4)])
    assert made.ops["RESIZE_NEAREST_NEIGHBOR"] == 1
    assert not {"POW", "GATHER", "CAST", "DEQUANTIZE"} & made.ops.keys()
    for target in ("nnapi", "nnrt"):
        report = nnconv.convert(made.source, tmp_path / f"m.{target}", verify=True)
        assert report.verified
        assert not {"FLOOR", "MAXIMUM"} & report.counts.keys()  # no places are worked out


@pytest.mark.parametrize("target", ["tflite", "nnapi", "nnrt", "onnx"])
def test_weights_of_bfloat16_are_widened(target: str, tmp_path: Path) -> None:
    """No other format computes with them."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    w = normal(8, 4, 3, 3).astype(ml_dtypes.bfloat16)
    raw = helper.make_tensor("w", TensorProto.BFLOAT16, w.shape, w.tobytes(), raw=True)
    nodes = [
        node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        node("Conv", ["x", "wide"], ["y"]),
    ]
    model = onnx_model(nodes, [info("x", FLOAT, [1, 4, 5, 5])], [info("y", FLOAT, None)], opset=17)
    model.graph.initializer.append(raw)
    source = tmp_path / "m.onnx"
    source.write_bytes(model.SerializeToString())
    assert nnconv.convert(source, tmp_path / f"again.{target}", verify=True).verified


def test_onnx_halves_are_widened_exactly_and_stay_small(tmp_path: Path) -> None:
    """The smallest and the greatest numbers among them."""
    w = np.float16([[0.1, 1e-6, 65504], [-0.1, 6e-8, 3]]).T
    big = np.float16(normal(3, 500))
    nodes = [
        node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        node("MatMul", ["x", "wide"], ["y"]),
        node("Cast", ["big"], ["wider"], to=TensorProto.FLOAT),
        node("MatMul", ["x", "wider"], ["z"]),
    ]
    outputs = [info("y", FLOAT, [3, 2]), info("z", FLOAT, [3, 500])]
    model = onnx_model(nodes, [info("x", FLOAT, [3, 3])], outputs, {"w": w, "big": big})
    made = to_tflite(model, tmp_path)
    for got in run_all(made, np.eye(3, dtype=np.float32)):
        np.testing.assert_array_equal(got, w.astype(np.float32))
    assert len(made.content) < 2 * big.nbytes


@pytest.mark.parametrize("op", ["Conv", "MatMul", "Gemm", "Add", "BatchNormalization"])
def test_onnx_models_of_halves(op: str, tmp_path: Path) -> None:
    """Data, weights and the interface, which keeps its type; kernels compute with floats."""
    x = normal(2, 4, 3, 3) if op in ("Conv", "BatchNormalization", "Add") else normal(5, 4)
    constants: dict[str, np.ndarray] = {
        "Conv": {"w": normal(6, 4, 3, 3), "b": normal(6)},
        "MatMul": {"w": normal(4, 3)},
        "Gemm": {"w": normal(4, 3), "b": normal(3)},
        "Add": {"w": normal(4, 1, 1)},
        "BatchNormalization": {n: 1 + np.abs(normal(4, seed=ord(n))) for n in "sbmv"},
    }[op]
    halves = {name: array.astype(np.float16) for name, array in constants.items()}
    nodes = [node(op, ["x", *halves], ["h"]), node("Relu", ["h"], ["y"])]
    model = onnx_model(nodes, [info("x", HALF, x.shape)], [info("y", HALF, None)], halves)
    made = to_tflite(model, tmp_path)
    check_against_onnxruntime(made, [x.astype(np.float16)], tolerance=4e-3)


# ---------------------------------------------------------------- constants that are shared


def test_an_onnx_weight_of_a_convolution_and_a_product(tmp_path: Path) -> None:
    """Turning it for one leaves the other's as it was."""
    w = normal(6, 4)
    nodes = [
        node("Reshape", ["w", "s"], ["filters"]),
        node("Conv", ["x", "filters", "b"], ["y"]),
        node("Gemm", ["z", "w", "b"], ["p"], transB=1),
        node("MatMul", ["p", "w"], ["q"]),
        node("Add", ["q", "z"], ["r"]),
        node("Identity", ["w"], ["same"]),
    ]
    constants = {"w": w, "s": np.int64([6, 4, 1, 1]), "b": normal(6)}
    inputs = [info("x", FLOAT, [1, 4, 3, 5]), info("z", FLOAT, [2, 4])]
    outputs = [
        info("y", FLOAT, [1, 6, 3, 5]), info("r", FLOAT, [2, 4]), info("same", FLOAT, [6, 4]),
    ]  # fmt: skip
    made = to_tflite(onnx_model(nodes, inputs, outputs, constants), tmp_path)
    check_against_onnxruntime(made, [normal(1, 4, 3, 5), normal(2, 4)])


def test_onnx_factors_fold_into_one_readers_weights_only(tmp_path: Path) -> None:
    """A batch norm behind one of two convolutions that share their filters."""
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("BatchNormalization", ["a", "s", "o", "m", "v"], ["y"]),
        node("Conv", ["x", "w"], ["b"]),
        node("Mul", ["b", "k"], ["z"]),
    ]
    constants = {n: 1 + np.abs(normal(4, seed=ord(n))) for n in "somv"}
    constants |= {"w": normal(4, 3, 3, 3), "k": normal(4, 1, 1)}
    outputs = [info(name, FLOAT, [1, 4, 3, 3]) for name in ("a", "y", "z")]
    made = to_tflite(
        onnx_model(nodes, [info("x", FLOAT, [1, 3, 5, 5])], outputs, constants), tmp_path
    )
    check_against_onnxruntime(made, [normal(1, 3, 5, 5)], tolerance=1e-4)


def test_sparse_onnx_weights_become_dense(tmp_path: Path) -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], [5.0, -7.0, 2.0])
    places = helper.make_tensor("i", TensorProto.INT64, [3, 2], [0, 1, 2, 0, 3, 1])
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    model = onnx_model(nodes, [info("x", FLOAT, [2, 4])], [info("y", FLOAT, [2, 2])])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 2]))
    made = to_tflite(model, tmp_path)
    dense = np.zeros((4, 2), np.float32)
    dense[[0, 2, 3], [1, 0, 1]] = [5, -7, 2]
    for got in run_all(made, floats(2, 4)):
        np.testing.assert_array_equal(got, floats(2, 4) @ dense)
    np.testing.assert_array_equal(
        run_onnxruntime(str(made.source), {"x": floats(2, 4)})[0], floats(2, 4) @ dense
    )
