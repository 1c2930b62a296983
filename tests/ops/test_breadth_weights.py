"""What data, weights and biases each weighted op takes: by type, constant or from outside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.breadth import with_litert
from support.spine import Case, check
from support.tflite_builder import Quant, Tensor, TfliteBuilder
from support.weighted import HYBRID, KINDS, X_QUANT, Y_QUANT, Kind, bias, weights


@dataclass(frozen=True)
class Shapes:
    """Shapes of an op's data, weights and result, and the dimension of its filters."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    axis: int = 0


SHAPES = {
    "CONV_2D": Shapes((2, 5, 6, 8), (5, 3, 2, 8), (2, 5, 6, 5)),
    "DEPTHWISE_CONV_2D": Shapes((2, 5, 6, 4), (1, 3, 2, 8), (2, 5, 6, 8), 3),
    "FULLY_CONNECTED": Shapes((3, 8), (5, 8), (3, 5)),
    "TRANSPOSE_CONV": Shapes((2, 4, 3, 8), (5, 3, 3, 8), (2, 8, 6, 5)),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "CONV_2D": {"padding": "SAME", "stride_h": 1, "stride_w": 1},
    "DEPTHWISE_CONV_2D": {
        "padding": "SAME",
        "stride_h": 1,
        "stride_w": 1,
        "depth_multiplier": 2,
    },
    "FULLY_CONNECTED": {},
    "TRANSPOSE_CONV": {"padding": "SAME", "stride_h": 2, "stride_w": 2},
}

_HALF = Kind("float16", "float16", bias="float16", tolerance=2e-3)
_ASYMMETRIC = Kind("int8", "int8", bias="int32", zero_point=5)
_HYBRIDS = [
    Kind("float32", "int8", channels=channels, tolerance=HYBRID) for channels in (False, True)
]


def _narrow(x: str, w: str, offset: str) -> list[Kind]:
    return [Kind(x, w, channels=channels, bias=offset) for channels in (False, True)]


_FOUR_BITS = [
    Kind("float32", "int4", channels=channels, tolerance=HYBRID) for channels in (False, True)
]
TAKEN = {
    "CONV_2D": [
        *(*KINDS, _HALF, *_HYBRIDS, *_FOUR_BITS),
        *_narrow("int8", "int4", "int32"),
        *_narrow("int16", "int4", "int64"),
    ],
    "DEPTHWISE_CONV_2D": [*KINDS, _HALF, _HYBRIDS[1], *_narrow("int8", "int4", "int32")],
    "FULLY_CONNECTED": [
        *(*KINDS, _HALF, *_HYBRIDS, _ASYMMETRIC, *_FOUR_BITS),
        Kind("float32", "int2", channels=True, tolerance=HYBRID),
        *_narrow("int8", "int4", "int32"),
        *_narrow("int8", "int2", "int32"),
        *_narrow("int16", "int4", "int64"),
        *_narrow("int16", "int2", "int64"),
    ],
    "TRANSPOSE_CONV": [*KINDS, Kind("float32", "float16"), *_HYBRIDS],
}
"""Kinds that LiteRT's CPU kernels take right."""

PLACES = ("constant", "fed-weights", "fed-bias", "no-bias")


def _fed_parts(b: TfliteBuilder, op: str, kind: Kind, place: str) -> tuple[Tensor, Tensor | None]:
    shapes = SHAPES[op]
    count = shapes.w[shapes.axis]
    w, scales = weights(b, kind, shapes.w, axis=shapes.axis)
    if place == "fed-weights":
        quant = None if kind.w.startswith("float") else Quant(scales, kind.zero_point)
        w = b.input("w", kind.w, shapes.w, quant=quant)
    if place == "no-bias":
        return w, None
    if place != "fed-bias":
        return w, bias(b, kind, count, scales)
    data = X_QUANT[kind.x]
    quant = None if data is None else Quant(scales * data[0], 0)
    return w, b.input("b", kind.bias, (count,), quant=quant)


def _case(op: str, kind: Kind, place: str) -> Case:
    shapes = SHAPES[op]

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", kind.x, shapes.x, quant=X_QUANT[kind.x])
        w, offset = _fed_parts(b, op, kind, place)
        operands = [x, w, offset]
        if op == "TRANSPOSE_CONV":
            operands = [b.const(list(shapes.y), dtype="int32"), w, x, offset]
        result = (kind.x, shapes.y, Y_QUANT[kind.x])
        b.output(b.op(op, operands, [result], options=OPTIONS[op]))

    name = f"{op}-{kind}-{kind.zero_point}-{place}"
    return Case(name, build, resolver=None, tolerance=kind.tolerance)


def _is_taken(op: str, kind: Kind, place: str) -> bool:
    """Whether LiteRT takes a kind with its parts from there."""
    if place == "no-bias":
        return op in ("FULLY_CONNECTED", "TRANSPOSE_CONV")
    if place == "constant":
        return True
    # Parts from outside have one scale, tests can't feed packed ones, and float16 is a delegate's.
    whole = kind in KINDS or (kind.w == "int8" and op != "DEPTHWISE_CONV_2D")
    return whole and not kind.channels


CASES = [
    _case(op, kind, place)
    for op, kinds in TAKEN.items()
    for kind in kinds
    for place in PLACES
    if _is_taken(op, kind, place)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights(case: Case, tmp_path: Path) -> None:
    check(with_litert(case), tmp_path)
