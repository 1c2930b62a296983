"""Ops that TFLite spells in several, in the forms that random graphs of the IR found wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Layout, Quant, Value
from nnconv.ir.op import Activation
from nnconv.ops import conv as c
from nnconv.ops import elementwise as e
from nnconv.ops import pool as p
from nnconv.ops.quantize import Dequantize
from nnconv.ops.spatial import Padding
from support.tflite_spine import TfliteCase, check_tflite


def _mean(b: Builder) -> Value:
    op = p.AveragePool3D(
        layout=Layout.NHWC,
        window=(2, 3, 2),
        stride=(2, 2, 2),
        padding=Padding((0, 0, 0), (0, 0, 1)),
        activation=Activation.RELU,
    )
    return b.add(op, [b.input("x", DType.FLOAT32, (2, 4, 5, 4, 3))])


def _planes(depth: int) -> TfliteCase:
    def build(b: Builder) -> Value:
        rng = np.random.default_rng(1)
        weights = rng.standard_normal((6, depth, 2, 2, 2)).astype(np.float32)
        op = c.Conv3D(
            layout=Layout.NHWC,
            stride=(1, 1, 1),
            dilation=(1, 1, 1),
            padding=Padding.none(3),
            groups=2,
            activation=Activation.RELU,
        )
        return b.add(op, [b.input("x", DType.FLOAT32, (1, 3, 4, 4, 4)), b.const(weights)])

    return TfliteCase(f"groups of planes of {depth}", build)


def _constant(dtype: DType) -> TfliteCase:
    codes = np.asarray([[-7, -1, 0], [2, 3, 7]], np.int8)

    def build(b: Builder) -> list[Value]:
        made = b.const(codes, quant=Quant.per_channel([0.5, 0.25], axis=0), dtype=dtype)
        real = b.add(Dequantize(dtype=DType.FLOAT32), [made])
        return [real, b.add(e.Add(), [b.input("x", DType.FLOAT32, (2, 3)), real])]

    reals = codes * np.float32([[0.5], [0.25]])
    return TfliteCase(
        f"a result that is a constant of {dtype}", build, expected=lambda x: [reals, x + reals]
    )


def _atan2(b: Builder) -> Value:
    return b.add(
        e.Atan2(), [b.input("y", DType.FLOAT32, (3, 1)), b.input("x", DType.FLOAT32, (2, 1, 4))]
    )


CASES = [
    TfliteCase("a clamp is one of the whole mean", _mean),
    *(_planes(depth) for depth in (1, 2)),
    *(_constant(dtype) for dtype in (DType.INT8, DType.INT4)),
    TfliteCase("arc tangents broadcast", _atan2, expected=np.arctan2),
    *(
        TfliteCase(
            f"squares of {dtype}",
            lambda b, dtype=dtype: b.add(e.Square(), [b.input("x", dtype, (3, 4))]),
            expected=np.square,
        )
        for dtype in (DType.INT32, DType.INT64)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_spellings(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
