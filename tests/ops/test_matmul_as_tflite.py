"""Layers and products of matrices in .tflite files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Activation, Builder, DType, Quant, Value
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.quantize import Cast
from support.tflite_spine import TfliteCase, check_tflite

Build = Callable[[Builder], Value]

RNG = np.random.default_rng(0)
OUT, DEPTH = 5, 7

X = {
    DType.INT8: Quant.per_tensor(0.05, -3),
    DType.UINT8: Quant.per_tensor(0.05, 120),
    DType.INT16: Quant.per_tensor(0.001),
}
"""Parameters of the data."""

Y = {
    DType.INT8: Quant.per_tensor(0.2, 5),
    DType.UINT8: Quant.per_tensor(0.2, 130),
    DType.INT16: Quant.per_tensor(0.01),
}
"""Parameters of the results."""

CODES = {
    "channels": Quant.per_channel([0.01, 0.02, 0.03, 0.04, 0.05], axis=0),
    "tensor": Quant.per_tensor(0.02),
    "unsigned": Quant.per_tensor(0.02, 128),
}


def layer(
    shape: tuple[int | None, ...],
    *,
    bias: bool = True,
    activation: Activation = Activation.NONE,
) -> Build:
    """A layer of floats."""

    def build(b: Builder) -> Value:
        x = b.input("x", DType.FLOAT32, shape)
        weights = b.const(RNG.standard_normal((OUT, DEPTH)).astype(np.float32), "weights")
        offset = b.const(RNG.standard_normal(OUT).astype(np.float32), "bias") if bias else None
        return b.add(FullyConnected(activation=activation), [x, weights, offset])

    return build


def coded_layer(
    dtype: DType, weights: str, shape: tuple[int, ...], *, bias: bool, activation: Activation
) -> Build:
    """A layer of codes."""

    def build(b: Builder) -> Value:
        x = b.input("x", dtype, shape, quant=X[dtype])
        quant = CODES[weights]
        kind = np.uint8 if weights == "unsigned" else np.int8
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        codes = RNG.integers(low, high, (OUT, DEPTH), kind, endpoint=True)
        offset = None
        if bias:
            scale = np.asarray(quant.scale) * X[dtype].scale[0]
            own = Quant.per_channel(scale.tolist(), axis=0)
            if quant.is_per_tensor:
                own = Quant.per_tensor(float(scale[0]))
            wide = np.int64 if dtype is DType.INT16 else np.int32
            offset = b.const(RNG.integers(-500, 500, OUT).astype(wide), "bias", quant=own)
        inputs = [x, b.const(codes, "weights", quant=quant), offset]
        return b.add(FullyConnected(activation=activation), inputs, quant=Y[dtype])

    return build


CASES = [
    TfliteCase(f"layer {shape} {bias}", layer(shape, bias=bias), ops={"FULLY_CONNECTED": 1})
    for shape in ((3, DEPTH), (2, 3, DEPTH), (DEPTH,))
    for bias in (True, False)
]

CASES += [
    TfliteCase(
        f"layer {activation.value}",
        layer((3, DEPTH), activation=activation),
        ops={"FULLY_CONNECTED": 1} if activation in FUSED else None,
    )
    for FUSED in ((Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1),)
    for activation in Activation
]

CASES += [
    TfliteCase(
        "layer of an open extent",
        layer((None, DEPTH)),
        [np.ones((3, DEPTH), np.float32)],
        more=[[np.ones((4, DEPTH), np.float32)]],
    ),
]

CASES += [
    TfliteCase(
        f"layer of {dtype}, {weights} {bias} {activation.value} {len(shape)}",
        coded_layer(dtype, weights, shape, bias=bias, activation=activation),
        ops={"FULLY_CONNECTED": 1} if dtype is not DType.UINT8 else None,
        note="uint8 is int8 inside",
    )
    for dtype, weights in (
        (DType.INT8, "channels"),
        (DType.INT8, "tensor"),
        (DType.INT16, "channels"),
        (DType.INT16, "tensor"),
        (DType.UINT8, "unsigned"),
    )
    for bias in (True, False)
    for activation in (Activation.NONE, Activation.RELU)
    for shape in ((3, DEPTH), (2, 3, DEPTH))
    if activation is Activation.NONE or len(shape) == 2
]

CASES += [
    TfliteCase(
        "layer of uint8 and int8: in floats where codes aren't re-signed",
        coded_layer(DType.UINT8, "channels", (3, DEPTH), bias=True, activation=Activation.NONE),
        options={"int8": "keep"},
    ),
]


def _half(b: Builder) -> Value:
    x = b.input("x", DType.FLOAT32, (3, DEPTH))
    weights = b.const(RNG.standard_normal((OUT, DEPTH)).astype(np.float16), "weights")
    return b.add(FullyConnected(), [x, b.add(Cast(dtype=DType.FLOAT32), [weights])])


CASES += [TfliteCase("layer of float16 weights", _half)]

# -------------------------------------------------------------------- two operands


def product(
    a: tuple[int | None, ...],
    b: tuple[int | None, ...],
    op: MatMul | None = None,
    dtype: DType = DType.FLOAT32,
    *,
    coded: bool = False,
) -> Build:
    """A product of two inputs."""

    def build(builder: Builder) -> Value:
        quant = X[dtype] if coded else None
        inputs = [
            builder.input("a", dtype, a, quant=quant),
            builder.input("b", dtype, b, quant=quant),
        ]
        return builder.add(op or MatMul(), inputs, quant=Y[dtype] if coded else None)

    return build


CASES += [
    TfliteCase(f"product {a} {b}", product(a, b), ops=ops)
    for a, b, ops in (
        ((3, 4), (4, 5), {"BATCH_MATMUL": 1}),
        ((2, 3, 4), (2, 4, 5), {"BATCH_MATMUL": 1}),
        ((2, 3, 4), (4, 5), {"BATCH_MATMUL": 1}),
        ((2, 1, 3, 4), (6, 4, 5), {"BATCH_MATMUL": 1}),
        ((2, 2, 2, 2, 3, 4), (2, 2, 2, 2, 4, 5), None),
        ((3, 0), (0, 5), None),
        ((0, 4), (4, 5), None),
        ((4,), (4, 5), None),
        ((2, 3, 4), (4,), None),
        ((4,), (4,), None),
    )
]

CASES += [
    TfliteCase(
        f"product turned {left:d}{right:d} {dtype}",
        product(
            (2, 4, 3) if left else (2, 3, 4),
            (2, 5, 4) if right else (2, 4, 5),
            MatMul(transpose_a=left, transpose_b=right),
            dtype,
        ),
        tolerance=1e-5 if dtype.is_float else 0,
    )
    for left in (False, True)
    for right in (False, True)
    for dtype in (DType.FLOAT32, DType.INT32, DType.INT64, DType.UINT32)
]

CASES += [
    TfliteCase(
        f"product of {dtype} codes",
        product((2, 3, 4), (2, 4, 5), dtype=dtype, coded=True),
    )
    for dtype in X
]

CASES += [
    TfliteCase(
        "product of an open extent",
        product((None, 3, 4), (None, 4, 5)),
        [np.ones((2, 3, 4), np.float32), np.ones((2, 4, 5), np.float32)],
        more=[[np.ones((3, 3, 4), np.float32), np.ones((3, 4, 5), np.float32)]],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matmul_as_tflite(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
