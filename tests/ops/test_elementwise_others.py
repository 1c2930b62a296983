"""Elementwise ops with forms of their own: DIV on codes, PRELU, SELECT, ADD_N."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.elementwise import QUANTS, WIDER, one_op
from support.spine import Case, check, onnx_ops
from support.tflite_builder import TfliteBuilder

SHAPE = (2, 3, 4, 5)
SECOND = (0.04, -9)

QUOTIENTS = [
    one_op(
        f"DIV-{dtype}",
        "DIV",
        [(dtype, (64,), (0.05, zero)), (dtype, (64,), (0.02, zero))],
        (dtype, (64,), (0.1, zero)),
        inputs=[None, (np.random.default_rng(1).integers(20, 120, 64) + zero // 2).astype(dtype)],
        resolver=None,
        note="LiteRT is many steps off where quotients are small",
    )
    for dtype, zero in (("int8", 0), ("uint8", 128))
]

SLOPES = {
    "between": np.array([0.1, 0.25, 0.5, 0.01, 0.9], np.float32),
    "one": np.array([0.1, 1.0, 0.5, -0.3, 0.9], np.float32),
    "zero": np.array([0.1, 0.0, 0.5, 0.2, 0.9], np.float32),
    "large": np.array([0.1, 2.5, -1.5, 0.2, 0.9], np.float32),
    "single": np.full(5, 0.25, np.float32),
    "endless": np.array([0.1, np.inf, -np.inf, 0.2, 0.9], np.float32),
    "all endless": np.full(5, np.inf, np.float32),
}
PRELU_SPECIALS = np.repeat(
    np.array([[np.nan], [np.inf], [-np.inf], [0], [2], [-3]], np.float32), 5, axis=1
)


def _prelu(name: str, slope: np.ndarray, **more: object) -> Case:
    return one_op(
        f"PRELU-{name}",
        "PRELU",
        [("float32", (2, 3, 4, 5)), slope],
        ("float32", (2, 3, 4, 5)),
        **more,
    )


def _prelu_after_conv(slopes: str) -> Case:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 4, 6, 3))
        bias = b.const(np.zeros(5, np.float32))
        weights = np.random.default_rng(0).standard_normal((5, 3, 3, 3)).astype(np.float32)
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        y = b.op(
            "CONV_2D", [x, b.const(weights), bias], [("float32", (1, 4, 6, 5))], options=options
        )
        slope = b.const(SLOPES[slopes].reshape(1, 1, 5))
        b.output(b.op("PRELU", [y, slope], [("float32", (1, 4, 6, 5))]))

    return Case(f"PRELU-conv-{slopes}", build)


PRELUS = [
    *(_prelu(name, slope.reshape(1, 1, 5)) for name, slope in SLOPES.items()),
    *(_prelu_after_conv(name) for name in SLOPES),
    *(
        one_op(
            f"PRELU-{name}-special",
            "PRELU",
            [("float32", (6, 1, 1, 5)), slope.reshape(1, 1, 5)],
            ("float32", (6, 1, 1, 5)),
            inputs=[PRELU_SPECIALS.reshape(6, 1, 1, 5)],
        )
        for name, slope in SLOPES.items()
    ),
    one_op(
        "PRELU-float16",
        "PRELU",
        [("float16", (2, 3, 4, 5)), SLOPES["large"].reshape(1, 1, 5).astype(np.float16)],
        ("float16", (2, 3, 4, 5)),
        resolver="xnn",
        tolerance=2e-3,
    ),
    one_op(
        "PRELU-int16",
        "PRELU",
        [("int16", (2, 3, 4, 5), QUANTS["int16"]), (np.arange(5).astype(np.int16), (0.1, 0))],
        ("int16", (2, 3, 4, 5), WIDER["int16"]),
        resolver=None,
        note="LiteRT is wrong for every negative input",
    ),
    _prelu("full", np.random.default_rng(0).uniform(-1, 2, (3, 4, 5)).astype(np.float32)),
    one_op(
        "PRELU-run-time",
        "PRELU",
        [("float32", (2, 3, 4, 5)), ("float32", (1, 1, 5))],
        ("float32", (2, 3, 4, 5)),
    ),
    *(
        one_op(
            f"PRELU-{dtype}-{kind}",
            "PRELU",
            [(dtype, (2, 3, 4, 5), QUANTS[dtype]), (slope.astype(dtype), (0.01, zero))],
            (dtype, (2, 3, 4, 5), WIDER[dtype]),
        )
        for dtype, zero in (("int8", 0), ("uint8", 128))
        for kind, slope in (
            ("mixed", (np.array([10, 25, 100, 60, -40]) + zero).reshape(1, 1, 5)),
            ("large", (np.array([10, 25, 115, 0, -40]) + zero).reshape(1, 1, 5)),
            ("single", np.full((1, 1, 5), 30 + zero)),
        )
    ),
]

SELECTABLE = "float32 float16 int8 uint8 int16 int32 int64 uint32 uint16 bool float64"
SELECTS = [
    *(
        one_op(
            f"{op}-{dtype}",
            op,
            [
                ("bool", SHAPE),
                (dtype, SHAPE, QUANTS.get(dtype)),
                (dtype, SHAPE, QUANTS.get(dtype)),
            ],
            (dtype, SHAPE, QUANTS.get(dtype)),
            steps=0,
        )
        for op in ("SELECT", "SELECT_V2")
        for dtype in SELECTABLE.split()
        if dtype != "float64" or op == "SELECT_V2"
    ),
    *(
        one_op(
            f"SELECT_V2-{dtype}-broadcast",
            "SELECT_V2",
            [("bool", (3, 1, 1)), (dtype, (4, 5)), (dtype, (2, 1, 4, 1))],
            (dtype, (2, 3, 4, 5)),
        )
        for dtype in ("float32", "int32", "bool")
    ),
    *(
        one_op(
            f"SELECT-{'x'.join(map(str, shape))}-condition",
            "SELECT",
            [("bool", shape), ("float32", (4, 2, 3)), ("float32", (4, 2, 3))],
            ("float32", (4, 2, 3)),
        )
        for shape in ((4,), ())
    ),
    one_op(
        "SELECT_V2-int8-unequal",
        "SELECT_V2",
        [("bool", SHAPE), ("int8", SHAPE, QUANTS["int8"]), ("int8", SHAPE, SECOND)],
        ("int8", SHAPE, WIDER["int8"]),
        resolver=None,
        note="LiteRT copies codes whatever they stand for",
    ),
    one_op(
        "SELECT_V2-special",
        "SELECT_V2",
        [("bool", (3,)), ("float32", (3,)), ("float32", (3,))],
        ("float32", (3,)),
        inputs=[
            np.array([True, False, True]),
            np.array([np.nan, np.nan, np.inf], np.float32),
            np.array([1, -np.inf, np.nan], np.float32),
        ],
    ),
]

SUMS = [
    one_op(f"ADD_N-{dtype}-{count}", "ADD_N", [(dtype, (2, 3, 4))] * count, (dtype, (2, 3, 4)))
    for dtype in ("float32", "int32")
    for count in (2, 3, 5)
]


WORDS = [np.array(words, object) for words in (["ab", "", "dé"], ["ab", "x", "dé"])]
STRINGS = [
    one_op(
        f"{op}-string",
        op,
        [("string", (3,)), ("string", (3,))],
        ("bool", (3,)),
        inputs=WORDS,
    )
    for op in ("EQUAL", "NOT_EQUAL")
]


@pytest.mark.parametrize("case", [*QUOTIENTS, *PRELUS, *SELECTS, *SUMS, *STRINGS], ids=str)
def test_others(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    ("slopes", "wanted"),
    [
        ("between", "Max"),
        ("one", "Max"),
        ("zero", "Sub"),
        ("large", "Sub"),
        ("single", "LeakyRelu"),
    ],
)
def test_prelu_takes_the_fast_form_that_is_exact(slopes: str, wanted: str, tmp_path: Path) -> None:
    check(_prelu(slopes, SLOPES[slopes].reshape(1, 1, 5)), tmp_path)
    counts = onnx_ops(tmp_path / "model.onnx")
    assert wanted in counts
    assert "PRelu" not in counts
    assert "Where" not in counts


def test_prelu_after_a_convolution_stays_in_the_blocked_layout(tmp_path: Path) -> None:
    check(_prelu_after_conv("between"), tmp_path)
    counts = onnx_ops(tmp_path / "model.onnx")
    assert counts["Relu"] == counts["Add"] == 1
    assert counts["Mul"] == 2
