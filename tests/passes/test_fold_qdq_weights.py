"""Weights and biases between Dequantize and Quantize: the product is one of codes, or stays."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Layout
from nnconv.ir.quant import Quant
from nnconv.ops import shape as s
from nnconv.ops.conv import ConvTranspose2D
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.spatial import Padding
from nnconv.ops.standardize import BatchNormalization
from nnconv.passes.base import run_passes
from nnconv.passes.fold_qdq import FoldQdqPass
from nnconv.passes.prune import PrunePass
from support.folded import CONV, IN, OUT, TYPES, Made
from support.qdq import coded, dq, q

RNG = np.random.default_rng(5)


def _weights(dtype: DType, kind: str, shape: tuple[int, ...]) -> tuple[np.ndarray, Quant]:
    rng = np.random.default_rng(2)
    low, high = dtype.int_range
    low += dtype in (DType.INT8, DType.INT4)
    data = rng.integers(low, high + 1, shape).astype(dtype.numpy)
    middle = 0 if low < 0 else (high + 1) // 2
    if kind == "tensor":
        return data, Quant.per_tensor(0.01, middle)
    if kind == "tensor point":
        return data, Quant.per_tensor(0.01, middle + 5)
    scale = rng.uniform(0.005, 0.02, shape[0])
    if kind == "channel":
        return data, Quant.per_channel(scale, middle, axis=0)
    points = [middle + i % 2 for i in range(shape[0])]
    return data // 2 + middle // 2, Quant.per_channel(scale, points, axis=0)


WEIGHT_TYPES = [DType.INT8, DType.UINT8, DType.INT4, DType.UINT4]


@pytest.mark.parametrize("bias", ["none", "floats", "codes", "other scale"])
@pytest.mark.parametrize("kind", ["tensor", "channel", "tensor point", "channel points"])
@pytest.mark.parametrize("dtype", WEIGHT_TYPES, ids=str)
@pytest.mark.parametrize("data", TYPES, ids=str)
@pytest.mark.parametrize("op", ["conv", "depthwise", "transposed", "dense"])
def test_products(op: str, data: DType, dtype: DType, kind: str, bias: str) -> None:
    shapes = {
        "conv": (CONV, (5, 2, 3, 8)),
        "depthwise": (CONV.replace(groups=8), (8, 3, 2, 1)),
        "transposed": (
            ConvTranspose2D(
                layout=Layout.NHWC,
                stride=(2, 2),
                dilation=(1, 1),
                padding=Padding.none(2),
                output_padding=(0, 0),
                groups=2,
            ),
            (3, 2, 2, 8),
        ),
        "dense": (FullyConnected(), (5, 8)),
    }
    node, shape = shapes[op]
    codes, quant = _weights(dtype, kind, shape)
    filters = shape[0] * (2 if op == "transposed" else 1)
    y = {8: Quant.per_tensor(1.0, 12 if data.is_signed else 140), 16: Quant.per_tensor(0.005, 0)}
    if data is DType.UINT16:
        y[16] = Quant.per_tensor(0.005, 32768)

    def build(b: Builder, x: Value) -> Value:
        weights = coded(b, codes, quant, dtype)
        scale = np.resize(np.asarray(quant.scale) * IN[data].scale[0], filters)
        numbers = np.arange(-200, -200 + 90 * filters, 90)[:filters]
        terms: list[Value] = []
        if bias == "floats":
            terms = [b.const((numbers * scale + 1e-5).astype(np.float32))]
        elif bias == "codes":
            own = Quant.per_channel(scale.tolist(), axis=0)
            terms = [coded(b, numbers.astype(np.int32), own)]
        elif bias == "other scale":
            terms = [coded(b, numbers.astype(np.int32), Quant.per_tensor(0.01))]
        result = b.add(node, [dq(b, x), weights, *terms])
        return q(b, result, y[data.bits], data)

    made = Made(build, dtype=data).agree()
    (only,) = list(made.graph.nodes)
    assert only.op == node
    weights = only.inputs[1]
    assert weights is not None
    assert weights.quant is not None
    if kind != "tensor point":
        assert weights.quant.is_symmetric
        assert weights.dtype.is_signed
    np.testing.assert_allclose(weights.quant.scale, quant.scale, rtol=1e-7)
    if bias != "none":
        term = only.inputs[2]
        assert term is not None
        assert term.dtype is (DType.INT32 if data.bits == 8 else DType.INT64)
        assert term.quant is not None
        product = np.resize(np.asarray(quant.scale) * IN[data].scale[0], len(term.quant.scale))
        np.testing.assert_allclose(term.quant.scale, product, rtol=1e-6)


def test_a_bias_with_a_scale_of_its_own_is_written_at_the_product() -> None:
    def build(b: Builder, x: Value) -> Value:
        weights = coded(b, np.asarray([[50, -20]], np.int8), Quant.per_tensor(0.02))
        bias = coded(b, np.asarray([100], np.int32), Quant.per_tensor(0.01))
        return q(
            b,
            b.add(FullyConnected(), [dq(b, x), weights, bias]),
            Quant.per_tensor(0.2),
            DType.INT8,
        )

    made = Made(build, shape=(3, 2), quant=Quant.per_tensor(0.1)).agree()
    bias = next(made.graph.nodes).inputs[2]
    assert bias is not None
    assert bias.data is not None
    assert bias.data.tolist() == [500]
    assert bias.quant == Quant.per_tensor(0.1 * 0.02)


@pytest.mark.parametrize("kind", ["tensor", "channel"])
def test_a_bias_too_large_for_32_bits_raises_its_filters_scale(kind: str) -> None:
    quant = Quant.per_tensor(1e-9) if kind == "tensor" else Quant.per_channel([1e-9, 0.01], axis=0)
    codes = np.asarray([[100, -7], [3, 90]], np.int8)

    def build(b: Builder, x: Value) -> Value:
        bias = b.const(np.asarray([5.0, -1.0], np.float32))
        y = b.add(FullyConnected(), [dq(b, x), coded(b, codes, quant), bias])
        return q(b, y, Quant.per_tensor(0.1), DType.INT8)

    made = Made(build, shape=(3, 2), quant=Quant.per_tensor(0.1)).agree()
    (node,) = list(made.graph.nodes)
    weights, bias = node.inputs[1], node.inputs[2]
    assert weights is not None
    assert weights.quant is not None
    assert weights.quant.axis == 0
    assert weights.quant.scale[0] > 1e-8
    if kind == "channel":
        assert weights.quant.scale[1] == quant.scale[1]
    assert bias is not None
    assert np.abs(bias.data).max() <= 1 << 30


REFUSED = {
    "its weights aren't codes": lambda b: b.const(np.ones((3, 8), np.float32)),
    "its weights have zero points": lambda b: coded(
        b,
        np.asarray(np.arange(24).reshape(3, 8) * 10, np.uint8),
        Quant.per_channel([0.1, 0.2, 0.3], [0, 1, 255], axis=0),
    ),
    "its weights have scales along axis 1": lambda b: coded(
        b, np.ones((3, 8), np.int8), Quant.per_channel([0.1] * 8, axis=1)
    ),
    "its weights are quantized in blocks": lambda b: coded(
        b, np.ones((3, 8), np.int8), Quant(scale=(0.1,) * 6, zero_point=(0,) * 6, axis=1, block=4)
    ),
    "its weights are int16": lambda b: coded(b, np.ones((3, 8), np.int16), Quant.per_tensor(0.1)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_weights_that_have_no_codes_keep_their_op_in_floats(reason: str) -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(FullyConnected(), [dq(b, x), REFUSED[reason](b)])
        return q(b, y, OUT[DType.INT8], DType.INT8)

    made = Made(build).agree()
    assert made.ops[-2:] == ["FullyConnected", "Quantize"]
    assert "FullyConnected" in made.reasons[0]
    wanted = "not small codes" if "aren't" in reason else reason
    assert wanted in made.reasons[0] or "not small codes" in made.reasons[0]


def test_weights_beside_floats_stay_as_they_are() -> None:
    def build(b: Builder, x: Value) -> Value:
        weights = coded(b, np.ones((3, 8), np.int8), Quant.per_tensor(0.1))
        return b.add(FullyConnected(), [x, weights])

    made = Made(build, real=True).agree()
    assert made.ops == ["Dequantize", "FullyConnected"]
    assert made.reasons == []


def test_quantized_weights_are_worked_out_whatever_their_size() -> None:
    weights = RNG.normal(0, 0.3, (700, 8)).astype(np.float32)

    def build(b: Builder, x: Value) -> Value:
        codes = q(b, b.const(weights), Quant.per_tensor(0.01), DType.INT8)
        y = b.add(FullyConnected(), [dq(b, x), dq(b, codes)])
        return q(b, y, OUT[DType.INT8], DType.INT8)

    assert Made(build).agree().ops == ["FullyConnected"]


def test_weights_behind_a_transpose_are_turned() -> None:
    def build(b: Builder, x: Value) -> Value:
        weights = coded(
            b,
            RNG.integers(-127, 128, (8, 5)).astype(np.int8),
            Quant.per_channel([0.1] * 5, axis=1),
        )
        turned = b.add(s.Transpose(perm=(1, 0)), [weights])
        y = b.add(FullyConnected(), [dq(b, x), turned])
        return q(b, y, Quant.per_tensor(2.0), DType.INT8)

    assert Made(build).agree().ops == ["FullyConnected"]


def test_products_of_two_values() -> None:
    def build(b: Builder, x: Value) -> Value:
        real = dq(b, x)
        y = b.add(MatMul(transpose_b=True), [real, real])
        return q(b, y, Quant.per_tensor(1.0), DType.INT8)

    assert Made(build).agree().ops == ["MatMul"]


def test_parameters_of_norms_stay_numbers() -> None:
    def build(b: Builder, x: Value) -> Value:
        scale = coded(b, np.arange(1, 9, dtype=np.int8), Quant.per_tensor(0.3))
        offset = coded(b, np.arange(8, dtype=np.int32) * 90, Quant.per_tensor(0.01))
        rest = [b.const(np.full(8, 0.5, np.float32)) for _ in range(2)]
        y = b.add(BatchNormalization(axis=3, epsilon=1e-3), [dq(b, x), scale, offset, *rest])
        return q(b, y, Quant.per_tensor(0.3), DType.INT8)

    made = Made(build).agree()
    assert made.ops == ["Dequantize", "Dequantize", "BatchNormalization"]


@pytest.mark.parametrize("other", [False, True])
def test_filters_of_runs_are_turned_as_codes(other: bool) -> None:
    """Scales for channels move along; where the scales become others, the numbers are turned."""
    quant = Quant.per_channel([0.5, 0.25, 0.125], axis=2)
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x", DType.INT8, (4, 2, 3), quant=quant)
    turned = b.add(s.Transpose(perm=(2, 0, 1)), [b.add(Dequantize(dtype=DType.FLOAT32), [x])])
    scales = [0.5, 0.25, 1.0 if other else 0.125]
    wanted = Quant.per_channel(scales, axis=0)
    graph.outputs = [b.add(Quantize(dtype=DType.INT8), [turned], quant=wanted, name="y")]
    graph.outputs = [b.add(s.Identity(), graph.outputs, quant=wanted)]
    codes = RNG.integers(-60, 60, (4, 2, 3)).astype(np.int8)
    before = run_graph(graph, [codes])
    run_passes(Model([Signature("", graph)]), [FoldQdqPass(), PrunePass()], verify=True)
    ops = [node.op.name for node in graph.nodes]
    assert ("Dequantize" in ops) is other
    np.testing.assert_array_equal(run_graph(graph, [codes])[0], before[0])
    if not other:
        np.testing.assert_array_equal(before[0], codes.transpose(2, 0, 1))
