"""Pooling: kind x dtype x padding, with every dimension different."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

QUANT = {"float32": None, "int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)}
SHAPES = {"VALID": (2, 2, 2, 7), "SAME": (2, 3, 3, 7)}


def _case(op: str, dtype: str, padding: str, activation: str = "NONE") -> Case:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, (2, 5, 6, 7), quant=QUANT[dtype])
        options = {
            "padding": padding,
            "stride_h": 2,
            "stride_w": 2,
            "filter_height": 3,
            "filter_width": 3,
            "fused_activation_function": activation,
        }
        result = (dtype, SHAPES[padding], QUANT[dtype])
        b.output(b.op(op, [x], [result], options=options))

    return Case(f"{op}-{dtype}-{padding}-{activation}", build)


CASES = [
    *(
        _case(op, dtype, padding)
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        for dtype in QUANT
        for padding in ("VALID", "SAME")
    ),
    *(_case("L2_POOL_2D", "float32", padding) for padding in ("VALID", "SAME")),
    _case("MAX_POOL_2D", "float32", "SAME", "RELU6"),
    _case("MAX_POOL_2D", "int8", "SAME", "RELU6"),
    _case("AVERAGE_POOL_2D", "int8", "VALID", "RELU"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pool(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
