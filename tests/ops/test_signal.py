"""Fourier transforms: what a graph can hand out are the parts of the complex result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder


def _case(
    shape: tuple[int, ...], length: tuple[int, int], part: str, *, run_time: bool = False
) -> Case:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", shape)
        data = np.array(length, np.int32)
        given = b.input("length", "int32", (2,)) if run_time else b.const(data)
        result = (*shape[:-2], length[0], length[1] // 2 + 1)
        y = b.op("RFFT2D", [x, given], [("complex64", result)])
        b.output(b.op(part, [y], [("float32", result)]))

    inputs = (None, np.array(length, np.int32)) if run_time else None
    label = f"{shape}-{length}-{part}{'-run-time' if run_time else ''}"
    return Case(label, build, inputs=inputs)


CASES = [
    *(_case((2, 3, 8, 16), (8, 16), part) for part in ("REAL", "IMAG", "COMPLEX_ABS")),
    _case((3, 5, 7), (4, 8), "REAL"),
    _case((5, 16), (8, 4), "IMAG"),
    _case((1, 8), (1, 8), "IMAG"),
    _case((4, 3, 8), (4, 8), "IMAG", run_time=True),
    _case((2, 8, 8), (4, 16), "REAL", run_time=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_signal(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_complex_output_is_refused(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (4, 8))
        b.output(b.op("RFFT2D", [x, b.const(np.array([4, 8], np.int32))], [("complex64", (4, 5))]))

    check(Case("complex", build, onnx=False), tmp_path)
