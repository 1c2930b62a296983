"""Windows and grids over every dimension, with every extent different."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import DType, TensorType
from nnconv.ops.gather import Reduction
from nnconv.ops.window import Dilate, ReduceWindow
from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

ARITHMETIC = ("ADD", "MUL", "MINIMUM", "MAXIMUM")


def _window(
    function: str,
    dtype: str,
    init: float = 2,
    *,
    shape: Sequence[int] = (5, 7),
    window: Sequence[int] = (2, 3),
    stride: Sequence[int] = (2, 1),
    dilation: Sequence[int] = (1, 2),
    fed_init: bool = False,
    quant: Any = None,
    opset: int | None = None,
) -> Case:
    counts = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(shape, window, stride, dilation, strict=True)
    ]
    start = np.asarray(init, dtype)

    def build(b: TfliteBuilder) -> None:
        operands = [
            b.input("x", dtype, shape, quant=quant),
            b.input("init", dtype, (), quant=quant) if fed_init else b.const(start, quant=quant),
            *(b.const(np.asarray(v, np.int64)) for v in (window, stride, dilation)),
        ]
        options = {"reduce_function": function}
        b.output(b.op("REDUCE_WINDOW", operands, [(dtype, counts, quant)], options=options))

    label = f"{function}-{dtype}{'q' if quant else ''}-{'x'.join(map(str, window))}"
    return Case(
        f"{label}-{'x'.join(map(str, stride))}-{init}{'-fed' if fed_init else ''}-{opset}",
        build,
        (None, start) if fed_init else None,
        options={} if opset is None else {"opset": opset},
    )


WINDOWS = [
    *(
        _window(function, dtype)
        for function in ARITHMETIC
        for dtype in ("float32", "float64", "int8", "uint8", "int16", "int32", "int64")
    ),
    *(_window(function, "int8", quant=(0.5, 3)) for function in ARITHMETIC),
    *(_window(function, "bool", init) for function in ("ALL", "ANY") for init in (0, 1)),
    _window("MAXIMUM", "float32", -np.inf, fed_init=True, opset=13),
    _window("ADD", "float32", 0, window=(5, 1), stride=(1, 1)),
    _window("ADD", "int32", 0, window=(1, 1), stride=(3, 2)),
    _window(
        "MAXIMUM",
        "float32",
        -5,
        shape=(2, 5, 6, 3),
        window=(1, 2, 3, 1),
        stride=(1, 2, 1, 1),
        dilation=(1, 1, 2, 1),
    ),
    _window("MINIMUM", "float32", 9, shape=(9,), window=(4,), stride=(2,), dilation=(1,)),
]


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_reduce_window(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _dilate(
    dtype: str,
    factors: Sequence[int] = (2, 3),
    *,
    shape: Sequence[int] = (2, 4),
    quant: Any = None,
    fed_factors: bool = False,
    fed_value: bool = False,
    opset: int | None = None,
) -> Case:
    steps, value = np.asarray(factors, np.int32), np.asarray(1, dtype)
    result = [(n - 1) * f + 1 for n, f in zip(shape, factors, strict=True)]

    def build(b: TfliteBuilder) -> None:
        operands = [
            b.input("x", dtype, shape, quant=quant),
            b.input("f", "int32", steps.shape) if fed_factors else b.const(steps),
            b.input("v", dtype, (), quant=quant) if fed_value else b.const(value, quant=quant),
        ]
        b.output(b.op("DILATE", operands, [(dtype, result, quant)]))

    feeds = (None, *([steps] if fed_factors else []), *([value] if fed_value else []))
    label = f"{dtype}{'q' if quant else ''}-{'x'.join(map(str, factors))}"
    return Case(
        f"{label}{'-factors' if fed_factors else ''}{'-value' if fed_value else ''}-{opset}",
        build,
        feeds,
        options={} if opset is None else {"opset": opset},
    )


DILATED = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32")

DILATES = [
    *(_dilate(dtype) for dtype in (*DILATED, "uint32", "int64", "bool")),
    *(_dilate(dtype, quant=q) for dtype, q in (("int8", (0.5, 3)), ("uint8", (0.5, 131)))),
    _dilate("float32", opset=13),
    _dilate("float32", fed_factors=True),
    _dilate("float32", fed_factors=True, opset=13),
    _dilate("float32", fed_factors=True, fed_value=True),
    _dilate("int8", fed_value=True, quant=(0.5, 3)),
    _dilate("float32", (1, 1)),
    _dilate("float32", (3,), shape=(5,)),
    _dilate("float32", (1, 2, 1, 3), shape=(2, 3, 4, 5)),
]


@pytest.mark.parametrize("case", DILATES, ids=str)
def test_dilate(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_dilated_complex_numbers(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        length = b.const(np.array([2, 4], np.int32))
        signal = b.input("x", "float32", (2, 4))
        turned = b.op("RFFT2D", [signal, length], [("complex64", (2, 3))])
        operands = [turned, b.const(_factors(2, 3)), b.const(np.array(1 - 2j, np.complex64))]
        grown = b.op("DILATE", operands, [("complex64", (3, 7))])
        b.output(*(b.op(part, [grown], [("float32", (3, 7))]) for part in ("REAL", "IMAG")))

    check(Case("complex", build), tmp_path)


def _factors(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def test_windows_follow_a_transpose() -> None:
    types = [TensorType(DType.FLOAT32, (2, 3, 4)), TensorType(DType.FLOAT32, ())]
    window = ReduceWindow(
        reduction=Reduction.ADD, window=(1, 2, 3), stride=(1, 2, 1), dilation=(1, 1, 1)
    )
    permuted = window.permute((2, 0, 1), types)
    assert permuted is not None
    assert permuted.op == window.replace(window=(3, 1, 2), stride=(1, 1, 2))
    grown = Dilate(dilations=(1, 2, 3)).permute((2, 0, 1), types)
    assert grown is not None
    assert grown.op == Dilate(dilations=(3, 1, 2))


def test_windows_of_a_wrong_rank_are_refused() -> None:
    types = [TensorType(DType.FLOAT32, (2, 3, 4)), TensorType(DType.FLOAT32, ())]
    with pytest.raises(ValueError, match="a window of rank 1 for rank 3"):
        ReduceWindow(reduction=Reduction.ADD, window=(1,), stride=(1,), dilation=(1,)).infer(types)
    with pytest.raises(ValueError, match="for rank 3"):
        Dilate(dilations=(1, 2)).infer(types)
