"""Terms that keep a quotient finite stay above 0 where data are half floats, which end at 6e-8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, Value
from nnconv.ops import norm as n
from nnconv.ops import standardize as s
from support.nnapi_spine import NnapiCase, check_nnapi
from support.onnx_spine import IrCase, check_ir

X = np.array([[3, 3, 3, 3], [1, 2, 3, 4], [0, 0, 0, 0], [0.25, 0, 0, 0]], np.float16)

OPS: dict[str, tuple[Op, int]] = {
    "layer": (s.LayerNormalization(axis=1, epsilon=1e-12), 2),
    "rms": (s.RmsNormalization(axis=1, epsilon=1e-12), 1),
    "batch": (s.BatchNormalization(axis=1, epsilon=1e-8), 4),
    "l2": (n.L2Normalization(axis=1), 0),
    "l2 across": (n.L2Normalization(axis=0, epsilon=1e-5), 0),
    "lp": (n.LpNormalization(axis=1, p=2), 0),
}
"""Each with how many parameters it has: a scale of 1, and zeros."""


def built(op: Op, parameters: int) -> tuple[IrCase, NnapiCase]:
    """The op on half floats, some of which have no norm or deviation."""

    def build(b: Builder) -> Value:
        given = [b.const(np.full(4, number, np.float16)) for number in (2.0**-14, 0, 0, 0)]
        return b.add(op, [b.input("x", DType.FLOAT16, X.shape), *given[:parameters]])

    onnx = IrCase(
        "least", build, [X], opsets=(13, 23), evaluated=False, tolerance=2e-3, format="nnapi"
    )
    return onnx, NnapiCase("least", build, [X], tolerance=2e-3)


@pytest.mark.parametrize(("op", "parameters"), OPS.values(), ids=OPS)
def test_nothing_is_divided_by_0_in_onnx_and_tflite(
    op: Op, parameters: int, tmp_path: Path
) -> None:
    check_ir(built(op, parameters)[0], tmp_path)


@pytest.mark.parametrize(("op", "parameters"), OPS.values(), ids=OPS)
def test_nothing_is_divided_by_0_in_nnapi(op: Op, parameters: int) -> None:
    check_nnapi(built(op, parameters)[1])
