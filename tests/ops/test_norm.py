"""Normalizations along the last dimension: op x dtype x rank x options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check, onnx_ops
from support.tflite_builder import TfliteBuilder

SHAPES = {1: (7,), 2: (3, 7), 3: (2, 3, 7), 4: (2, 3, 4, 7), 5: (2, 2, 3, 4, 7)}
IN = {
    "float32": None,
    "float16": None,
    "int8": (0.05, 3),
    "uint8": (0.05, 131),
    "int16": (0.0002, 0),
}
SOFTMAX_OUT = {
    "float32": None,
    "float16": None,
    "int8": (1 / 256, -128),
    "uint8": (1 / 256, 0),
    "int16": (1 / 32768, 0),
}
LOG_OUT = {"float32": None, "int8": (16 / 256, 127), "uint8": (16 / 256, 255)}
L2_OUT = {"float32": None, "int8": (1 / 128, 0), "uint8": (1 / 128, 128)}


def _case(
    op: str,
    dtype: str,
    result: tuple[object, ...],
    *,
    label: str = "",
    shape: tuple[int, ...] = SHAPES[4],
    quant: tuple[float, int] | None = None,
    options: dict[str, object] | None = None,
    **more: object,
) -> Case:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, shape, quant=quant or IN[dtype])
        kind, *rest = result
        b.output(b.op(op, [x], [(kind, shape, *rest)], options=options or {}))  # type: ignore[list-item]

    return Case(f"{op}-{dtype}-{len(shape)}{label}", build, **more)  # type: ignore[arg-type]


SOFTMAX = [
    *(
        _case(
            "SOFTMAX",
            dtype,
            (dtype, SOFTMAX_OUT[dtype]),
            shape=shape,
            options={"beta": 1.0},
            steps=4 if dtype == "int16" else 1,
            tolerance=2e-3 if dtype == "float16" else 1e-5,
            note="LiteRT's int16 table is up to 3 steps off",
        )
        for dtype in IN
        for shape in SHAPES.values()
        if len(shape) < 5 or dtype != "int16"
    ),
    *(
        _case(
            "SOFTMAX",
            dtype,
            (dtype, SOFTMAX_OUT[dtype]),
            label="-beta",
            options={"beta": 0.3},
            steps=4 if dtype == "int16" else 1,
            tolerance=2e-3 if dtype == "float16" else 1e-5,
        )
        for dtype in IN
    ),
    _case(
        "SOFTMAX",
        "int8",
        ("int16", SOFTMAX_OUT["int16"]),
        label="-to-int16",
        options={"beta": 1.0},
        steps=4,
    ),
    _case("SOFTMAX", "float32", ("float32",), label="-empty", shape=(0, 5), options={"beta": 1.0}),
    _case(
        "SOFTMAX",
        "float32",
        ("float32",),
        label="-masked",
        shape=(2, 4),
        options={"beta": 1.0},
        inputs=[np.array([[0, -np.inf, 1, -3.4e38], [-3.4e38] * 4], np.float32)],
    ),
    _case(
        "SOFTMAX",
        "int8",
        ("int8", SOFTMAX_OUT["int8"]),
        label="-sharp",
        options={"beta": 2.0},
    ),
]

OTHERS = [
    *(
        _case(op, dtype, (dtype, out[dtype]), shape=shape)
        for op, out in (("LOG_SOFTMAX", LOG_OUT), ("L2_NORMALIZATION", L2_OUT))
        for dtype in out
        for shape in SHAPES.values()
        if len(shape) < 5
    ),
    _case(
        "L2_NORMALIZATION",
        "float32",
        ("float32",),
        label="-zeros",
        shape=(2, 3),
        inputs=[np.array([[0, 0, 0], [1e-8, 0, 0]], np.float32)],
    ),
]

LRN = [
    _case(
        "LOCAL_RESPONSE_NORMALIZATION",
        "float32",
        ("float32",),
        label=f"-{radius}-{bias}-{alpha}-{beta}",
        options={"radius": radius, "bias": bias, "alpha": alpha, "beta": beta},
        resolver="opt",
        note="the reference kernel drops one neighbour",
    )
    for radius, bias, alpha, beta in ((2, 1.0, 0.1, 0.5), (5, 0.5, 2.0, 0.75), (0, 1.0, 1.0, 1.0))
]

CASES = [*SOFTMAX, *OTHERS, *LRN]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_norm(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    ("shape", "dtype", "wanted"),
    [
        ((1, 10), "int8", {"Cast": 1, "Add": 1, "DequantizeLinear": 1, "QuantizeLinear": 1}),
        ((1, 10), "uint8", {"DequantizeLinear": 1, "QuantizeLinear": 1}),
        ((30, 10), "int8", {"Cast": 2, "Add": 1, "Mul": 1, "QuantizeLinear": 1}),
        ((30, 10), "uint8", {"Cast": 1, "Mul": 1, "QuantizeLinear": 1}),
    ],
)
def test_softmax_at_the_end_takes_few_nodes(
    shape: tuple[int, ...], dtype: str, wanted: dict[str, int], tmp_path: Path
) -> None:
    result = (dtype, SOFTMAX_OUT[dtype])
    check(_case("SOFTMAX", dtype, result, shape=shape, options={"beta": 1.0}), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx") == {"Softmax": 1, **wanted}
