"""Models from the builder give numpy's answers in LiteRT, with each of its kernel sets."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from support.compare import assert_match
from support.litert import RESOLVERS, run_litert
from support.tflite_builder import Quant, TfliteBuilder, flexbuffer

F = np.float32


class Case(NamedTuple):
    """A model with its inputs and the outputs that numpy expects of it."""

    model: TfliteBuilder
    inputs: list[np.ndarray]
    expected: list[np.ndarray]
    quantized: bool = False


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(F)


def codes(*shape: int, seed: int = 0, low: int = -128, high: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int8)


def quantize(real: np.ndarray, scale: float, zero_point: int, low: int = -128) -> np.ndarray:
    scaled = np.asarray(real, np.float64) / F(scale)
    rounded = np.trunc(scaled + np.copysign(0.5, scaled)) + zero_point
    return np.clip(rounded, low, 127).astype(np.int8)


def convolve(x: np.ndarray, filters: np.ndarray, pads: tuple, stride: tuple) -> np.ndarray:
    """NHWC convolution with OHWI filters, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), *pads, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, filters.shape[1:3], axis=(1, 2))
    return np.einsum("nhwckl,oklc->nhwo", windows[:, :: stride[0], :: stride[1]], filters)


def conv_2d() -> Case:
    x, w, bias = random(2, 7, 5, 3), random(8, 3, 2, 3, seed=1), random(8, seed=2)
    b = TfliteBuilder()
    y = b.op(
        "CONV_2D",
        [b.input("x", "float32", x.shape), b.const(w), b.const(bias)],
        [("float32", (2, 4, 5, 8))],
        options={
            "padding": "SAME",
            "stride_h": 2,
            "stride_w": 1,
            "fused_activation_function": "RELU_N1_TO_1",
        },
        version=3,
    )
    b.output(y)
    # SAME puts the odd column of padding at the end.
    return Case(b, [x], [(convolve(x, w, ((1, 1), (0, 1)), (2, 1)) + bias).clip(-1, 1).astype(F)])


def conv_2d_int8_per_channel() -> Case:
    x, w = codes(1, 4, 5, 3), codes(6, 1, 1, 3, seed=1, low=-127)
    scales = np.linspace(0.01, 0.06, 6).astype(F)
    bias = np.arange(-300, 300, 100).astype(np.int32)
    b = TfliteBuilder()
    y = b.op(
        "CONV_2D",
        [
            b.input("x", "int8", x.shape, quant=(0.5, -3)),
            b.const(w, quant=Quant(scales)),
            b.const(bias, quant=Quant(scales * F(0.5))),
        ],
        [("int8", (1, 4, 5, 6), (0.75, 4))],
        options={"padding": "VALID", "stride_h": 1, "stride_w": 1},
        version=3,
    )
    b.output(y)
    sums = convolve(x.astype(int) + 3, w.astype(int), ((0, 0), (0, 0)), (1, 1)) + bias
    return Case(b, [x], [quantize(sums * (scales * F(0.5)), 0.75, 4)], quantized=True)


def depthwise_conv_2d() -> Case:
    x, w, bias = random(1, 5, 4, 3), random(1, 2, 3, 6, seed=1), random(6, seed=2)
    b = TfliteBuilder()
    y = b.op(
        "DEPTHWISE_CONV_2D",
        [b.input("x", "float32", x.shape), b.const(w), b.const(bias)],
        [("float32", (1, 4, 2, 6))],
        options={"padding": "VALID", "stride_h": 1, "stride_w": 1, "depth_multiplier": 2},
    )
    b.output(y)
    none = ((0, 0), (0, 0))
    channels = [
        convolve(x[..., c // 2 : c // 2 + 1], w[..., c : c + 1], none, (1, 1))[..., 0]
        for c in range(6)
    ]
    return Case(b, [x], [(np.stack(channels, axis=-1) + bias).astype(F)])


def fully_connected_without_bias() -> Case:
    x, w = random(3, 5), random(4, 5, seed=1)
    b = TfliteBuilder()
    y = b.op(
        "FULLY_CONNECTED",
        [b.input("x", "float32", x.shape), b.const(w), None],
        [("float32", (3, 4))],
        options={"fused_activation_function": "RELU"},
    )
    b.output(y)
    return Case(b, [x], [np.maximum(x @ w.T, 0)])


def add_int8() -> Case:
    x, y = codes(2, 3, 4), codes(2, 3, 4, seed=1)
    b = TfliteBuilder()
    z = b.op(
        "ADD",
        [
            b.input("x", "int8", x.shape, quant=(0.5, 1)),
            b.input("y", "int8", y.shape, quant=(1, -2)),
        ],
        [("int8", x.shape, (1.25, 7))],
        version=2,
    )
    b.output(z)
    total = (x.astype(int) - 1) * 0.5 + (y.astype(int) + 2) * 1.0
    return Case(b, [x, y], [quantize(total, 1.25, 7)], quantized=True)


def max_pool_2d() -> Case:
    x = random(1, 6, 4, 3)
    b = TfliteBuilder()
    y = b.op(
        "MAX_POOL_2D",
        [b.input("x", "float32", x.shape)],
        [("float32", (1, 2, 2, 3))],
        options={
            "padding": "VALID",
            "filter_height": 3,
            "filter_width": 2,
            "stride_h": 3,
            "stride_w": 2,
        },
    )
    b.output(y)
    return Case(b, [x], [x.reshape(1, 2, 3, 2, 2, 3).max(axis=(2, 4))])


def softmax() -> Case:
    x = random(2, 5)
    b = TfliteBuilder()
    y = b.op(
        "SOFTMAX", [b.input("x", "float32", x.shape)], [("float32", x.shape)], options={"beta": 0.5}
    )
    b.output(y)
    exponentials = np.exp(x * 0.5)
    return Case(b, [x], [(exponentials / exponentials.sum(axis=1, keepdims=True)).astype(F)])


def mean() -> Case:
    x = random(2, 3, 4, 5)
    b = TfliteBuilder()
    y = b.op(
        "MEAN",
        [b.input("x", "float32", x.shape), b.const(np.array([1, 2], np.int32))],
        [("float32", (2, 1, 1, 5))],
        options={"keep_dims": True},
    )
    b.output(y)
    return Case(b, [x], [x.mean(axis=(1, 2), keepdims=True)])


def transpose_then_reshape() -> Case:
    x = random(2, 3, 4)
    b = TfliteBuilder()
    turned = b.op(
        "TRANSPOSE",
        [b.input("x", "float32", x.shape), b.const(np.array([2, 0, 1], np.int32))],
        [("float32", (4, 2, 3))],
    )
    b.output(b.op("RESHAPE", [turned], [("float32", (8, 3))], options={"new_shape": (8, 3)}))
    return Case(b, [x], [x.transpose(2, 0, 1).reshape(8, 3)])


def strided_slice() -> Case:
    x = random(4, 5, 6)
    b = TfliteBuilder()
    bounds = [b.const(np.array(value, np.int32)) for value in ([3, 1, 0], [0, 3, 5], [-2, 1, 2])]
    y = b.op(
        "STRIDED_SLICE",
        [b.input("x", "float32", x.shape), *bounds],
        [("float32", (2, 3))],
        options={"shrink_axis_mask": 0b010, "end_mask": 0b101},
    )
    b.output(y)
    return Case(b, [x], [x[3::-2, 1, 0::2]])


def cast() -> Case:
    x = np.array([-1.75, 0.0, 2.5], F)
    b = TfliteBuilder()
    y = b.op(
        "CAST",
        [b.input("x", "float32", x.shape)],
        [("int16", x.shape)],
        options={"in_data_type": "float32", "out_data_type": "int16"},
    )
    b.output(y)
    return Case(b, [x], [np.array([-1, 0, 2], np.int16)])


def arg_max_int64() -> Case:
    x = random(3, 5)
    b = TfliteBuilder()
    y = b.op(
        "ARG_MAX",
        [b.input("x", "float32", x.shape), b.const(np.array(1, np.int32))],
        [("int64", (3,))],
        options={"output_type": "int64"},
    )
    b.output(y)
    return Case(b, [x], [x.argmax(axis=1)])


def split() -> Case:
    x = random(2, 6)
    b = TfliteBuilder()
    axis = b.const(np.array(1, np.int32))
    parts = b.op(
        "SPLIT",
        [axis, b.input("x", "float32", x.shape)],
        [("float32", (2, 2))] * 3,
        options={"num_splits": 3},
    )
    b.output(*parts)
    return Case(b, [x], list(np.split(x, 3, axis=1)))


def mirror_pad() -> Case:
    x = random(3, 4)
    pads = np.array([[1, 0], [2, 3]], np.int32)
    b = TfliteBuilder()
    y = b.op(
        "MIRROR_PAD",
        [b.input("x", "float32", x.shape), b.const(pads)],
        [("float32", (4, 9))],
        options={"mode": "SYMMETRIC"},
    )
    b.output(y)
    return Case(b, [x], [np.pad(x, pads, mode="symmetric")])


def float16_weights() -> Case:
    x, w = random(2, 3), random(4, 3, seed=1)
    b = TfliteBuilder()
    wide = b.op("DEQUANTIZE", [b.const(w, dtype="float16")], [("float32", w.shape)])
    y = b.op(
        "FULLY_CONNECTED", [b.input("x", "float32", x.shape), wide, None], [("float32", (2, 4))]
    )
    b.output(y)
    return Case(b, [x], [x @ w.astype(np.float16).astype(F).T])


def int4_constant() -> Case:
    w, x = np.array([[-8, 7, 1], [0, -1, 3]], np.int8), random(2, 3)
    b = TfliteBuilder()
    wide = b.op("DEQUANTIZE", [b.const(w, dtype="int4", quant=(0.25, 0))], [("float32", w.shape)])
    b.output(b.op("ADD", [b.input("x", "float32", x.shape), wide], [("float32", w.shape)]))
    return Case(b, [x], [x + w * F(0.25)])


def _densify(dense: np.ndarray, x: np.ndarray, **how) -> Case:
    b = TfliteBuilder()
    wide = b.op("DENSIFY", [b.sparse_const(dense, **how)], [("float32", dense.shape)])
    b.output(b.op("ADD", [b.input("x", "float32", x.shape), wide], [("float32", dense.shape)]))
    return Case(b, [x], [x + dense])


def sparse_rows() -> Case:
    dense = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 5]], F)
    return _densify(dense, random(3, 4), formats=["dense", "csr"])


def sparse_blocks() -> Case:
    dense = np.zeros((4, 6), F)
    dense[0:2, 3:6] = random(2, 3, seed=3)
    dense[2:4, 0:3] = random(2, 3, seed=4)
    return _densify(
        dense,
        random(4, 6),
        formats=["dense", "csr", "dense", "dense"],
        block={0: 2, 1: 3},
        index_type="uint8",
    )


def sparse_columns_first() -> Case:
    dense = np.array([[0, 1, 0], [2, 0, 0]], F)
    return _densify(dense, random(2, 3), formats=["dense", "csr"], traversal=[1, 0])


def condition() -> Case:
    x = random(2, 3)
    b = TfliteBuilder()
    bodies = []
    for name, op in (("positive", "EXP"), ("negative", "NEG")):
        body = b.subgraph(name)
        body.output(body.op(op, [body.input("v", "float32", x.shape)], [("float32", x.shape)]))
        bodies.append(body)
    y = b.op(
        "IF",
        [b.input("c", "bool", (1,)), b.input("x", "float32", x.shape)],
        [("float32", x.shape)],
        options={"then_subgraph_index": bodies[0], "else_subgraph_index": bodies[1]},
    )
    b.output(y)
    return Case(b, [np.array([False]), x], [-x])


def composite() -> Case:
    x = random(2, 3)
    b = TfliteBuilder()
    body = b.subgraph("decomposition")
    value = body.input("v", "float32", x.shape)
    body.output(body.op("MUL", [value, value], [("float32", x.shape)]))
    y = b.op(
        "STABLEHLO_COMPOSITE",
        [b.input("x", "float32", x.shape)],
        [("float32", x.shape)],
        options={
            "name": "my.square",
            "decomposition_subgraph_index": body,
            "composite_attributes": flexbuffer({}),
        },
    )
    b.output(y)
    return Case(b, [x], [x * x])


def stablehlo_pad() -> Case:
    x = random(2, 3)
    b = TfliteBuilder()
    y = b.op(
        "STABLEHLO_PAD",
        [b.input("x", "float32", x.shape), b.const(np.array(5, F))],
        [("float32", (3, 7))],
        options={
            "edge_padding_low": [1, 0],
            "edge_padding_high": [0, 2],
            "interior_padding": [0, 1],
        },
    )
    b.output(y)
    padded = np.full((3, 7), 5, F)
    padded[1:, 0:5:2] = x
    return Case(b, [x], [padded])


def constants_behind_the_flatbuffer() -> Case:
    x, w, bias = random(3, 5), random(4, 5, seed=1), random(4, seed=2)
    b = TfliteBuilder()
    constants = [b.const(w, apart=True), b.const(bias, apart=True)]
    y = b.op(
        "FULLY_CONNECTED", [b.input("x", "float32", x.shape), *constants], [("float32", (3, 4))]
    )
    b.output(y)
    return Case(b, [x], [x @ w.T + bias])


CASES: list[Callable[[], Case]] = [
    *(conv_2d, conv_2d_int8_per_channel, depthwise_conv_2d, fully_connected_without_bias),
    *(add_int8, max_pool_2d, softmax, mean, transpose_then_reshape, strided_slice, cast),
    *(arg_max_int64, split, mirror_pad, float16_weights, int4_constant, sparse_rows),
    *(sparse_blocks, sparse_columns_first, condition, composite, stablehlo_pad),
    constants_behind_the_flatbuffer,
]


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_litert_gives_numpys_answer(make, resolver):
    case = make()
    outputs = run_litert(case.model.build(), case.inputs, resolver)
    assert len(outputs) == len(case.expected)
    for index, (output, expected) in enumerate(zip(outputs, case.expected, strict=True)):
        # The kernels sum in float32, in an order of their own.
        assert_match(output, expected, quantized=case.quantized, tol=2e-6, label=f"output {index}")


def test_the_same_calls_give_the_same_bytes():
    assert conv_2d().model.build() == conv_2d().model.build()
