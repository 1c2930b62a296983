"""The context that ONNX exporters work in: names, constants, and the views of a value."""

from __future__ import annotations

import numpy as np
import pytest

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.graph_parts import Names
from nnconv.formats.onnx.protobuf import write
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.formats.refusals import NotExportable
from nnconv.ir import Activation, DType, Quant, TensorType, Value, dequantize, quantize
from support.spine import onnx_session

CODES = np.arange(-128, 128, dtype=np.int8).reshape(16, 16)
QUANT = Quant.per_tensor(0.1, -3)


def target_of(opset=21, *, resign=True):
    return Target(opset=opset, resign=resign, names=Names())


def constant(data, quant=None, dtype=None):
    return Value("c", TensorType(dtype or DType.of(data), data.shape, quant), data=data)


def variable(dtype, quant=None, shape=(16, 16)):
    return Value("v", TensorType(dtype, shape, quant))


def evaluate(target, results, folder, feeds=(), *, rank=2):
    """Run the nodes that a target holds; ``feeds`` are (name, array), ``results`` (name, dtype)."""
    dims = (None,) * rank
    graph = wire.Graph(
        "g",
        target.nodes,
        [wire.ValueInfo(n, DATA_TYPES[DType.of(a)], a.shape) for n, a in feeds],
        [wire.ValueInfo(f"out_{i}", DATA_TYPES[kind], dims) for i, (_, kind) in enumerate(results)],
        target.initializers,
    )
    graph.nodes = [
        *graph.nodes,
        *(wire.Node("Identity", [name], [f"out_{i}"]) for i, (name, _) in enumerate(results)),
    ]
    path = folder / "m.onnx"
    write(wire.Model(graph, target.opset), path)
    return onnx_session(path).run(None, dict(feeds))


def test_names_are_given_out_once():
    names = Names()
    assert names.reserve("a")
    assert not names.reserve("a")
    assert not names.reserve("")
    assert [names.unique(n) for n in ("a", "a", "a_1", "", "")] == [
        "a_1",
        "a_2",
        "a_1_1",
        "tensor",
        "tensor_1",
    ]


def test_equal_small_constants_are_shared_by_type_shape_and_content():
    t = target_of()
    first = t.const(np.array([1, 2], np.float32))
    assert t.const(np.array([1, 2], np.float32)) == first
    others = [
        np.array([1, 2], np.int32),
        np.array([[1, 2]], np.float32),
        np.array([1, 3], np.float32),
        np.array([0.0, 0.0], np.float32),
        np.array([-0.0, 0.0], np.float32),
    ]
    assert len({first, *(t.const(o) for o in others)}) == 6


def test_float_constants_are_shared_by_bits_and_type():
    t = target_of()
    single, half = variable(DType.FLOAT32), variable(DType.FLOAT16)
    names = [t.floats(number, like) for number in (0.0, -0.0, 6.0) for like in (single, half)]
    assert len(set(names)) == 6
    assert names == [t.floats(n, like) for n in (0.0, -0.0, 6.0) for like in (single, half)]
    assert t.floats(6.0, variable(DType.INT8, QUANT)) == t.floats(6, single) == names[4]


def test_large_constants_are_shared_by_identity():
    t = target_of()
    data = np.zeros((10, 20), np.float32)
    assert t.const(data) == t.const(data)
    assert t.const(data.copy()) != t.const(data)
    assert t.const(data[:8]) != t.const(data)
    assert t.const(data.T) != t.const(data)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, 2], DType.INT64),
        ((3,), DType.INT64),
        (1.5, DType.FLOAT32),
        (np.float64(1.5), DType.FLOAT64),
        (np.uint8(3), DType.UINT8),
        (np.array(True), DType.BOOL),
    ],
)
def test_type_of_a_constant(data, dtype):
    t = target_of()
    t.const(data)
    assert t.initializers[0].dtype == DATA_TYPES[dtype]


@pytest.mark.parametrize("resign", [True, False])
@pytest.mark.parametrize("opset", [13, 21])
def test_views_of_an_int8_constant(resign, opset, tmp_path):
    t = target_of(opset, resign=resign)
    value = constant(CODES, QUANT)
    inner = DType.UINT8 if resign else DType.INT8
    assert t.inner_type(value) is inner
    views = [
        (t.codes(value), inner),
        (t.stored(value), DType.INT8),
        (t.real(value), DType.FLOAT32),
    ]
    codes, stored, real = evaluate(t, views, tmp_path)
    assert np.array_equal(codes.astype(int), CODES.astype(int) + (128 if resign else 0))
    assert np.array_equal(stored, CODES)
    assert np.allclose(real, dequantize(CODES, QUANT))
    assert (views[0][0] == views[1][0]) is not resign


@pytest.mark.parametrize("resign", [True, False])
@pytest.mark.parametrize("opset", [13, 21])
def test_views_of_an_int8_activation_are_exact_for_every_code(resign, opset, tmp_path):
    t = target_of(opset, resign=resign)
    value = variable(DType.INT8, QUANT)
    t.names.reserve("v")
    t.set_stored(value, "v")
    again = variable(DType.INT8, QUANT)
    t.set_codes(again, t.codes(value))
    views = [(t.stored(again), DType.INT8), (t.real(value), DType.FLOAT32)]
    stored, real = evaluate(t, views, tmp_path, [("v", CODES)])
    assert np.array_equal(stored, CODES)
    assert np.allclose(real, dequantize(CODES, QUANT))


def test_a_view_is_made_once():
    t = target_of()
    value = constant(CODES, QUANT)
    for view in (t.codes, t.stored, t.real):
        assert view(value) == view(value)
    assert len([n for n in t.nodes if n.op_type == "DequantizeLinear"]) == 1


def test_absent_operands_are_empty_names():
    t = target_of()
    assert [t.real(None), t.codes(None), t.stored(None), t.int64(None)] == [""] * 4


def test_per_channel_and_unquantized_int8_keep_their_sign():
    t = target_of()
    scales = Quant.per_channel([0.1] * 16, 0, axis=0)
    assert not t.is_resigned(constant(CODES, scales))
    assert not t.is_resigned(constant(CODES))
    assert t.is_resigned(constant(CODES, QUANT))


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.INT16])
def test_index_operands_become_int64(dtype, tmp_path):
    t = target_of()
    data = np.array([3, -1], dtype.numpy)
    moving = variable(dtype, shape=(2,))
    t.names.reserve("v")
    t.set_stored(moving, "v")
    views = [(t.int64(constant(data)), DType.INT64), (t.int64(moving), DType.INT64)]
    for result in evaluate(t, views, tmp_path, [("v", data)], rank=1):
        assert np.array_equal(result, [3, -1])


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.INT32])
@pytest.mark.parametrize("activation", list(Activation))
def test_a_real_result_is_activated_and_quantized(dtype, activation, opset, tmp_path):
    t = target_of(opset)
    quant = Quant.per_tensor(0.07, 5)
    real = np.linspace(-12, 12, 256).astype(np.float32)
    expected = {
        Activation.NONE: real,
        Activation.RELU: np.maximum(real, 0),
        Activation.RELU6: np.clip(real, 0, 6),
        Activation.RELU_N1_TO_1: np.clip(real, -1, 1),
        Activation.RELU_0_TO_1: np.clip(real, 0, 1),
        Activation.TANH: np.tanh(real),
        Activation.SIGMOID: 1 / (1 + np.exp(-real)),
    }[activation]
    value = variable(dtype, quant, (256,))
    t.names.reserve("x")
    t.set_real(value, "x", activation)
    (codes,) = evaluate(t, [(t.stored(value), dtype)], tmp_path, [("x", real)], rank=1)
    wanted = quantize(expected.astype(np.float64), quant, dtype)
    assert np.abs(codes.astype(np.int64) - wanted).max() <= 1


def test_a_clip_that_no_code_needs_is_left_out():
    t = target_of()
    value = variable(DType.INT8, Quant.per_tensor(6 / 255, -128), (4,))
    t.set_real(value, "x", Activation.RELU6)
    assert [node.op_type for node in t.nodes] == ["QuantizeLinear"]


def test_bodies_share_the_names_of_the_outer_graph():
    outer = target_of()
    body = outer.inner()
    made = [outer.node("Neg", ["x"]), body.node("Neg", ["x"]), outer.node("Neg", ["x"])]
    assert len(set(made)) == 3


def test_a_refusal_says_which_opset_would_do():
    t = target_of(13)
    with pytest.raises(NotExportable, match="opset 21") as caught:
        t.require_opset(21, "this")
    assert "--opset 21" in caught.value.items[0].hint
