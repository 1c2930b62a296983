"""Running sums of halves in ONNX files, whose operator is older than their type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import DType
from nnconv.ops.reduce import CumSum
from support.onnx_spine import IrCase, check_ir

CASES = [
    IrCase(
        f"{source}",
        lambda b: b.add(CumSum(axis=1), [b.input("x", DType.FLOAT16, (2, 3))]),
        expected=lambda x: np.cumsum(x.astype(np.float32), axis=1),
        tolerance=2e-3,
        runs=None if source == "tflite" else (13,),
        evaluated=False,
        format=source,
        note="onnxruntime has no kernel for halves, so a file of ONNX runs where floats stand in",
    )
    for source in ("tflite", "onnx")
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_running_sums_of_halves(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)
