"""Graphs of float16 compute in float32 on LiteRT, and keep what they are at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Value
from nnconv.ops.elementwise import Add, Exp, Sqrt
from nnconv.ops.matmul import MatMul
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Reshape
from support.tflite_spine import TfliteCase, check_tflite

HALF = np.float16


def layers(b: Builder) -> Value:
    x = b.input("x", DType.FLOAT16, (2, 3))
    w = b.const((np.arange(12).reshape(3, 4) / 8 - 0.5).astype(HALF), "w")
    y = b.add(MatMul(), [x, w])
    y = b.add(Exp(), [b.add(Reshape(shape=(8,)), [y])])
    return b.add(Sqrt(), [b.add(Add(), [y, b.const(HALF(0.5), "c")])])


def edges_of_float32(b: Builder) -> Value:
    x = b.add(Cast(dtype=DType.FLOAT16), [b.input("x", DType.FLOAT32, (2, 3))])
    return b.add(Cast(dtype=DType.FLOAT32), [b.add(Exp(), [b.add(Exp(), [x])])])


def moved(b: Builder) -> Value:
    return b.add(Reshape(shape=(6,)), [b.input("x", DType.FLOAT16, (2, 3))])


def inner_output(b: Builder) -> list[Value]:
    first = b.add(Exp(), [b.input("x", DType.FLOAT16, (2, 3))])
    return [first, b.add(Sqrt(), [first])]


CASES = [
    TfliteCase(
        "one conversion at each edge, weights as they are",
        layers,
        ops={
            "CAST": 2,
            "DEQUANTIZE": 2,
            "FULLY_CONNECTED": 1,
            "RESHAPE": 1,
            "EXP": 1,
            "ADD": 1,
            "SQRT": 1,
        },
        tolerance=4e-3,
    ),
    TfliteCase(
        "a Cast of the source rounds",
        edges_of_float32,
        feeds=[np.full((2, 3), 1 + 2.0**-12, np.float32)],
        expected=lambda x: np.exp(np.exp(np.ones_like(x))),
        ops={"CAST": 2, "EXP": 2},
        tolerance=2e-3,
        runtime_tolerance=1e-6,
    ),
    TfliteCase("moves stay", moved, ops={"RESHAPE": 1}),
    TfliteCase(
        "what goes out keeps its type",
        inner_output,
        ops={"CAST": 3, "EXP": 1, "SQRT": 1},
        tolerance=2e-3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_halves_are_widened(case: TfliteCase, tmp_path) -> None:
    check_tflite(case, tmp_path)
