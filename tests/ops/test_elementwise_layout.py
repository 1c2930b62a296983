"""Elementwise ops between convolutions: with their constants they follow the layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check, onnx_ops
from support.tflite_builder import Quant, Tensor, TfliteBuilder

SHAPE = (1, 4, 6, 5)
QUANT = (0.05, 3)
CONV = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
Middle = Callable[[TfliteBuilder, Tensor], Tensor]


def _conv(b: TfliteBuilder, x: Tensor, filters: int, dtype: str) -> Tensor:
    rng = np.random.default_rng(filters)
    depth = x.shape[-1]
    result = (*x.shape[:3], filters)
    if dtype == "float32":
        weights = b.const(rng.standard_normal((filters, 3, 3, depth)).astype(np.float32))
        bias = b.const(np.zeros(filters, np.float32))
        return b.op("CONV_2D", [x, weights, bias], [("float32", result)], options=CONV)
    codes = rng.integers(-127, 127, (filters, 3, 3, depth)).astype(np.int8)
    weights = b.const(codes, quant=Quant([0.002] * filters, 0, axis=0))
    bias = b.const(np.zeros(filters, np.int32), quant=Quant([0.0001] * filters, 0, axis=0))
    return b.op("CONV_2D", [x, weights, bias], [(dtype, result, QUANT)], options=CONV)


def _between(name: str, middle: Middle, dtype: str = "float32") -> Case:
    """A convolution, the op, and another convolution."""

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, (1, 4, 6, 9), quant=None if dtype == "float32" else QUANT)
        y = middle(b, _conv(b, x, 5, dtype))
        b.output(_conv(b, y, 7, dtype))

    steps = 2  # a step of the middle one may turn into one more behind the last convolution
    return Case(f"{name}-{dtype}", build, steps=steps, tolerance=3e-5)


def _op(op: str, *constants: np.ndarray, dtype: str = "float32", **options: object) -> Middle:
    """An op on the convolution's result and constants."""

    def middle(b: TfliteBuilder, x: Tensor) -> Tensor:
        if dtype == "float32":
            others = [b.const(c.astype(np.float32)) for c in constants]
            return b.op(op, [x, *others], [(dtype, SHAPE)], options=options)
        others = [b.const(c.astype(np.int8), quant=QUANT) for c in constants]
        return b.op(op, [x, *others], [(dtype, SHAPE, QUANT)], options=options)

    return middle


CHANNELS = np.linspace(0.5, 2, 5)
COLUMNS = np.linspace(-1, 1, 6).reshape(6, 1)
ROWS = np.linspace(-1, 1, 4).reshape(4, 1, 1)
FULL = np.random.default_rng(0).uniform(0.5, 2, SHAPE)
CODES = np.array([-40, 3, 20, 90, -100])


def _select(b: TfliteBuilder, x: Tensor) -> Tensor:
    """Clamping by a comparison: the condition moves too."""
    limit = b.const(CHANNELS.astype(np.float32))
    above = b.op("GREATER", [x, limit], [("bool", SHAPE)])
    inverted = b.op("LOGICAL_NOT", [above], [("bool", SHAPE)])
    return b.op("SELECT_V2", [inverted, x, limit], [("float32", SHAPE)])


def _masked(b: TfliteBuilder, x: Tensor) -> Tensor:
    """A constant condition over columns."""
    mask = b.const((np.arange(6) % 2 == 0).reshape(6, 1))
    return b.op("SELECT_V2", [mask, x, b.const(np.float32(0.25))], [("float32", SHAPE)])


def _through_integers(b: TfliteBuilder, x: Tensor) -> Tensor:
    whole = b.op("CAST", [x], [("int32", SHAPE)])
    shifted = b.op(
        "RIGHT_SHIFT", [whole, b.const(np.arange(5).astype(np.int32))], [("int32", SHAPE)]
    )
    return b.op("CAST", [shifted], [("float32", SHAPE)])


def _half_slopes(b: TfliteBuilder, x: Tensor) -> Tensor:
    """PRELU with float16 slopes behind a DEQUANTIZE."""
    slopes = b.const(np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float16).reshape(1, 1, 5))
    wide = b.op("DEQUANTIZE", [slopes], [("float32", (1, 1, 5))])
    return b.op("PRELU", [x, wide], [("float32", SHAPE)])


CASES = [
    *(_between(op, _op(op)) for op in ("ABS", "NEG", "ELU", "GELU", "HARD_SWISH", "RELU6", "SIGN")),
    _between("LEAKY_RELU", _op("LEAKY_RELU", alpha=0.2)),
    *(
        _between(f"{op}-{kind}", _op(op, constant))
        for op in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "SQUARED_DIFFERENCE", "FLOOR_MOD")
        for kind, constant in (("channels", CHANNELS), ("full", FULL))
    ),
    *(
        _between(f"{op}-{kind}", _op(op, constant))
        for op in ("ADD", "MUL", "MINIMUM")
        for kind, constant in (("columns", COLUMNS), ("rows", ROWS), ("scalar", np.array(0.75)))
    ),
    *(
        _between(f"PRELU-{kind}", _op("PRELU", slopes.reshape(1, 1, 5)))
        for kind, slopes in (
            ("between", np.linspace(0.1, 0.9, 5)),
            ("mixed", np.array([0.1, 0, -1, 3, 1])),
            ("single", np.full(5, 0.25)),
        )
    ),
    _between("PRELU-half", _half_slopes),
    _between("SELECT", _select),
    _between("SELECT-mask", _masked),
    _between("integers", _through_integers),
    *(_between(op, _op(op, dtype="int8"), "int8") for op in ("RELU", "RELU6", "ABS", "HARD_SWISH")),
    _between("LEAKY_RELU", _op("LEAKY_RELU", dtype="int8", alpha=0.2), "int8"),
    *(
        _between(op, _op(op, CODES, dtype="int8"), "int8")
        for op in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")
    ),
    _between("PRELU", _op("PRELU", CODES.reshape(1, 1, 5), dtype="int8"), "int8"),
    _between("NEG", _op("NEG", dtype="int8"), "int8"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_transpose_but_at_the_edges(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
    assert onnx_ops(tmp_path / "model.onnx").get("Transpose", 0) == 2
