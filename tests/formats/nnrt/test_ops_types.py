"""Types of inputs that say how an operation works, and other rarer types, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import nnconv
from nnconv.errors import BackendError
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType
from nnconv.formats.nnrt.wire import QuantParams
from support.nnrt_ops import Given, check_op, codes, const, graph_of

F32, I64 = np.float32, np.int64
X = np.arange(12, dtype=F32).reshape(3, 4)


def kinds(op, name):
    spec = next(i for i in spec_of(OperationType[op]).inputs if i.name == name)
    return [np.dtype(bool) if t is DataType.BOOL else NUMPY[t] for t in spec.types]


def scattered(shape, places, values):
    result = np.zeros(shape, np.asarray(values).dtype)
    for place, value in zip(places, values, strict=True):
        result[tuple(place)] = value
    return result


WIDE = [
    ("FILL", {"value": F32([3]), "shape": const([2, 3], I64)}, {}, np.full((2, 3), 3, F32)),
    (
        "STRIDED_SLICE",
        {
            "input": X, "begin": const([0, 3], I64), "end": const([3, 0], I64),
            "strides": const([2, -1], I64),
        },
        {}, X[0:3:2, 3:0:-1],
    ),
    ("TRANSPOSE", {"input": X, "permutation": const([1, 0], I64)}, {}, X.T),
    ("REDUCE_ALL", {"input": X > 0, "axis": const([1], I64)}, {}, (X > 0).all(axis=1)),
    (
        "ALL", {"input": X > 0, "axis": const([1], I64)}, {"keepDims": 1},
        (X > 0).all(1, keepdims=True),
    ),
    (
        "CONSTANT_OF_SHAPE", {"input": const([2, 3], I64)}, {"dataType": 4, "value": [7]},
        np.full((2, 3), 7, np.int32),
    ),
    (
        "SPARSE_TO_DENSE",
        {
            "indices": const([[0, 1], [2, 0]], I64), "values": F32([5, 6]),
            "sparseShape": const([3, 2], I64),
        },
        {}, scattered((3, 2), [(0, 1), (2, 0)], F32([5, 6])),
    ),
    (
        "SCATTER_ND",
        {"indices": const([[2], [0]], I64), "updates": X[:2], "shape": const([3, 4], I64)},
        {}, scattered((3, 4), [(2,), (0,)], X[:2]),
    ),
    ("GATHER_ND", {"input": X, "indices": const([[2, 1], [0, 3]], I64)}, {}, F32([9, 3])),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "params", "wanted"), WIDE, ids=[case[0] for case in WIDE])
def test_indices_may_be_int64(op, inputs, params, wanted):
    check_op(op, inputs, params, np.ascontiguousarray(wanted))


@pytest.mark.parametrize("dtype", kinds("POW", "input"), ids=str)
def test_pow(dtype):
    x, y = np.array([[0, 1], [2, 3]]).astype(dtype), np.array([1, 2]).astype(dtype)
    wanted = (x.astype(float) ** y.astype(float)).astype(dtype)
    check_op("POW", {"input": x, "y": y}, {}, wanted)


@pytest.mark.parametrize("dtype", kinds("ASSERT", "data"), ids=str)
def test_assert(dtype):
    x = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    check_op("ASSERT", {"condition": const([True, True]), "data": x}, {}, x)


@pytest.mark.parametrize("device", ["reference", "onnxruntime:cpu", "litert:cpu"])
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("given", [X, codes(np.int8([[1, -2, 3]]), 0.5, 4)], ids=str)
def test_a_run_fails_where_an_assertion_does_not_hold(given, shape, device):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    given = given if isinstance(given, Given) else Given(given)
    holds = Given(np.ones(shape, bool))
    graph = graph_of("ASSERT", {"condition": holds, "data": given}, {}, [given])
    executable = nnconv.compile(import_model(graph), device)
    result = executable.run({"condition": holds.array, "data": given.array})["output0"]
    np.testing.assert_array_equal(result, given.array)
    broken = holds.array.copy()
    broken[...] = np.arange(broken.size).reshape(shape) != broken.size - 1
    with pytest.raises(BackendError):
        executable.run({"condition": broken, "data": given.array})


def test_an_assertion_that_holds_gives_its_data_on():
    check_op("ASSERT", {"condition": const([True]), "data": X}, {"summarize": 3}, X)


@pytest.mark.parametrize("dtype", kinds("RANGE", "input"), ids=str)
@pytest.mark.parametrize("target", [np.int32, np.int64, np.float32])
def test_range_looks_at_no_input(target, dtype):
    given = {"input": np.array([9, 9]).astype(dtype)}
    check_op("RANGE", given, {"start": 7, "limit": -2, "delta": -4}, np.array([7, 3, -1], target))


@pytest.mark.parametrize("dtype", kinds("CROP", "shape"), ids=str)
def test_crop_takes_the_shape_alone_of_its_second_input(dtype):
    given = {"input": X, "shape": np.zeros((2, 2), dtype)}
    check_op("CROP", given, {"axis": 0, "offset": [1, 2]}, np.ascontiguousarray(X[1:3, 2:4]))


def real(given):
    return (given.array.astype(float) - given.quant.zero_points[0]) * given.quant.scales[0]


UNSIGNED = Given(np.array([[0, 7, 200], [255, 128, 1]], np.uint8), QuantParams([0.05], [120]))
WHOLE = Given(np.array([-70000, 0, 90000], np.int32), QuantParams([0.001], [0]))


@pytest.mark.parametrize(("given", "code"), [(UNSIGNED, 6), (WHOLE, 4)], ids=["uint8", "int32"])
def test_dequantize_other_codes(given, code):
    wanted = real(given).astype(F32)
    check_op("QUANT_DTYPE_CAST", {"input": given}, {"srcT": code, "dstT": 11}, wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_quantize_to_unsigned_codes_and_back(dtype):
    x = np.array([[-5.5, 0, 1.25], [2, 6.5, 100]], dtype)
    found = np.clip(np.floor(x.astype(float) / 0.05 + 0.5) + 120, 0, 255).astype(np.uint8)
    wanted = Given(found, QuantParams([0.05], [120]))
    code = 10 if dtype is np.float16 else 11
    check_op("QUANT_DTYPE_CAST", {"input": x}, {"srcT": code, "dstT": 6}, wanted, steps=1)
    back = real(wanted).astype(dtype)
    check_op("QUANT_DTYPE_CAST", {"input": wanted}, {"srcT": 6, "dstT": code}, back)


def test_lstm_of_half_floats():
    rng, half = np.random.default_rng(3), np.float16

    def draw(*shape):
        return rng.normal(0, 0.5, shape).astype(half)

    given = {
        "input": draw(3, 2, 5), "wIh": draw(1, 16, 5), "wHh": draw(1, 16, 4),
        "bias": draw(1, 32), "hx": draw(1, 2, 4), "cx": draw(1, 2, 4),
    }  # fmt: skip
    x, w, r, b, h, c = (value.astype(float) for value in given.values())
    h, c, steps = h[0], c[0], []
    for step in x:
        gates = step @ w[0].T + h @ r[0].T + b[0, :16] + b[0, 16:]
        i, o, f, g = np.split(gates, 4, axis=-1)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        steps.append(h)
    params = {"hasBias": True, "inputSize": 5, "hiddenSize": 4, "numLayers": 1, "numDirections": 1}
    params |= {"dropout": 0, "zoneoutCell": 0, "zoneoutHidden": 0, "projSize": 0}
    wanted = [np.stack(steps).astype(half), h[None].astype(half), c[None].astype(half)]
    check_op("LSTM", given, params, wanted)


BOXES = np.array([[[0, 0, 0, 0], [0, 10, 0, 0], [1, 0, 0, 0]]], F32)
SCORES = np.array([[[0.125, 0.875, 0.25], [0.125, 0.25, 0.75], [0.125, 0.625, 0.125]]], F32)
ANCHORS = np.array([[0.5, 0.5, 1, 1], [0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 1, 1]], F32)


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_detections_of_other_types(kind):
    """The third box nearly is the first one, which has the better score."""
    params = {
        "scale": [10, 10, 5, 5], "nmsIoUThreshold": 0.5, "nmsScoreThreshold": 0.5,
        "maxDetections": 3, "detectionsPerClass": 3, "maxClassesPerDetection": 1, "numClasses": 2,
        "outQuantized": False,
    }  # fmt: skip
    out = np.float16 if kind == "float16" else F32

    def typed(array, scale):
        return array.astype(out) if kind == "float16" else codes(array / scale, scale)

    given = {
        "bbox": typed(BOXES, 0.25), "scores": typed(SCORES, 0.125), "anchors": typed(ANCHORS, 0.125)
    }  # fmt: skip
    wanted = [
        np.array([[[0, 0, 1, 1], [0.25, 0.75, 0.75, 1.25], [0, 0, 0, 0]]], out),
        np.array([[0, 1, 0]], out),
        np.array([[0.875, 0.75, 0]], out),
        np.array([2], out),
    ]
    devices = ["reference", "onnxruntime:cpu"]
    check_op("DETECTION_POST_PROCESS", given, params, wanted, devices=devices)


@pytest.mark.parametrize(("flag", "coeff"), [(True, 0.0), (True, 2.0), (False, 2.0)])
def test_a_logical_reduction_to_the_end_has_no_factor(flag, coeff):
    x = np.ones((2, 3, 2), bool)
    x[1, 2, 0] = False
    wanted = x.all(axis=(1, 2)) if flag else x.all(axis=1)
    given = {"input": x, "axis": const([1], np.int32)}
    check_op("REDUCE_ALL", given, {"reduceToEnd": flag, "coeff": coeff}, wanted)
