"""Kinds of fault in quantization parameters that stand where they mean nothing, or are missing."""

from pathlib import Path

import numpy as np
import pytest

from nnconv.errors import InvalidModelError
from support.litert import run_litert
from support.tflite_builder import TfliteBuilder
from support.whole import convert, convert_bytes

SHAPE = (2, 3)
X = np.int32([[-7, 0, 3], [2_000_000_000, 5, -1]])
Y = np.int32([[2, 4, 3], [1, -5, 9]])

PLAIN = {
    "ABS": 1,
    "NEG": 1,
    "ADD": 2,
    "SUB": 2,
    "MUL": 2,
    "MAXIMUM": 2,
    "MINIMUM": 2,
    "SQUARED_DIFFERENCE": 2,
}


@pytest.mark.parametrize("op", PLAIN)
@pytest.mark.parametrize("scales", [(0.5, 0.25, 2.0), (0.5, None, None), (None, None, 0.5)])
def test_parameters_of_wide_integers_change_nothing(op: str, scales, tmp_path: Path) -> None:
    """LiteRT computes with the integers as they are, whatever a file says of their meaning."""
    quants = [None if scale is None else (scale, 7) for scale in scales]
    b = TfliteBuilder()
    x, y = (b.input(n, "int32", SHAPE, quant=q) for n, q in zip("xy", quants, strict=False))
    result = b.op(op, [x, y][: PLAIN[op]], [("int32", SHAPE, quants[2])])
    b.output(result, y)
    whole = convert(b, tmp_path)
    (got, _), (wanted, _) = whole.run(X, Y), run_litert(whole.source, [X, Y])
    np.testing.assert_array_equal(got, wanted)


def test_wide_integers_are_compared_as_they_are(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int32", SHAPE, quant=(0.5, 7))
    y = b.input("y", "int32", SHAPE, quant=(0.125, 0))
    b.output(b.op("LESS", [x, y], [("bool", SHAPE)]))
    whole = convert(b, tmp_path)
    np.testing.assert_array_equal(whole.run(X, Y)[0], run_litert(whole.source, [X, Y])[0])


def weights(op: str, scale: float, data: str) -> bytes:
    """A model whose data has parameters, or is float, and whose constant has ``scale``."""
    quant = (0.5, 0) if data == "int8" else None
    b = TfliteBuilder()
    if op == "FULLY_CONNECTED":
        x = b.input("x", data, (1, 4), quant=quant)
        k = b.const(np.full((4, 4), 3, np.int8), quant=(scale, 0), name="k")
        b.output(b.op(op, [x, k, None], [(data, (1, 4), quant)]))
    else:
        x = b.input("x", data, (1, 4), quant=quant)
        k = b.const(np.full((1, 4), 3, np.int8), quant=(scale, 0), name="k")
        b.output(b.op(op, [x, k], [(data, (1, 4), quant)]))
    return b.build()


@pytest.mark.parametrize(
    ("op", "data"),
    [
        ("FULLY_CONNECTED", "int8"),
        ("FULLY_CONNECTED", "float32"),
        ("ADD", "int8"),
        ("CONCATENATION", "int8"),
    ],
)
def test_codes_without_parameters_beside_others_with_them(op, data, tmp_path: Path) -> None:
    """A scale of 0, as old converters write it, says nothing of what the codes stand for."""
    with pytest.raises(InvalidModelError, match="`k` has no quantization parameters"):
        convert_bytes(weights(op, 0.0, data), tmp_path)
