"""Fourier transforms: what a graph can hand out are the parts of the complex result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def _moved(op: str, shape: tuple[int, ...], *indices: Sequence[int], **options: Any) -> Case:
    """The lengths of a transform's frequencies, which an op moves first."""

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (4, 1, 16))
        length = b.const(np.array([1, 16], np.int32))
        y = b.op("RFFT2D", [x, length], [("complex64", (4, 1, 9))])
        operands = [y, *(b.const(np.array(index, np.int32)) for index in indices)]
        y = b.op(op, operands, [("complex64", shape)], options=options)
        b.output(b.op("COMPLEX_ABS", [y], [("float32", shape)]))

    return Case(op, build, options={"opset": 17})


MOVED = [
    _moved("SQUEEZE", (4, 9), squeeze_dims=[1]),
    _moved("RESHAPE", (36,), [36]),
    _moved("TRANSPOSE", (9, 4, 1), [2, 0, 1]),
    _moved("SLICE", (4, 1, 5), [0, 0, 2], [4, 1, 5]),
    _moved("MIRROR_PAD", (4, 1, 11), [[0, 0], [0, 0], [1, 1]], mode="REFLECT"),
]
"""How a transform of one dimension is spelled, and what else happens to frequencies."""


@pytest.mark.parametrize("case", [*CASES, *MOVED], ids=str)
def test_signal(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_complex_output_is_refused(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (4, 8))
        b.output(b.op("RFFT2D", [x, b.const(np.array([4, 8], np.int32))], [("complex64", (4, 5))]))

    check(Case("complex", build, onnx=False), tmp_path)
