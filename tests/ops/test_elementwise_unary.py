"""Elementwise ops of one operand: op x dtype x quantization x shape, and special values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.elementwise import QUANTS, WIDER, one_op
from support.spine import Case, check, optimized_ops
from support.tflite_builder import TfliteBuilder

SHAPE = (2, 3, 4, 5)
POSITIVE = frozenset({"SQRT", "RSQRT", "LOG"})

DTYPES = {
    "ABS": "float32 int8 int16 int16r int32",
    "NEG": "float32 int8 int8r int16 int16r int32 int64",
    "SIGN": "float32 int32 float64",
    "SQUARE": "float32",
    "SQRT": "float32 int8 int16",
    "RSQRT": "float32 int8",
    "EXP": "float32 int8",
    "LOG": "float32 int8",
    "SIN": "float32 float16",
    "COS": "float32 float16",
    "FLOOR": "float32 float16",
    "CEIL": "float32",
    "ROUND": "float32 float16",
    "TANH": "float32 float16 int8 uint8 int16",
    "LOGISTIC": "float32 float16 int8 uint8 int16",
    "HARD_SWISH": "float32 int8 uint8",
    "ELU": "float32 int8",
    "RELU": "float32 int8 uint8 int16",
    "RELU6": "float32 int8 uint8 int16",
    "RELU_N1_TO_1": "float32 int8 uint8",
    "RELU_0_TO_1": "float32 int8 uint8",
    "LEAKY_RELU": "float32 int8 uint8 int16",
    "GELU": "float32 float16 int8 uint8",
    "LOGICAL_NOT": "bool",
    "ZEROS_LIKE": "float32 int32 int64",
}
"""What LiteRT's CPU kernels take; ``r`` is the type without quantization parameters."""

FIXED = {
    ("LOGISTIC", "int8"): (1 / 256, -128),
    ("LOGISTIC", "uint8"): (1 / 256, 0),
    ("LOGISTIC", "int16"): (1 / 32768, 0),
    ("TANH", "int8"): (1 / 128, 0),
    ("TANH", "uint8"): (1 / 128, 128),
    ("TANH", "int16"): (1 / 32768, 0),
}
"""Parameters that LiteRT wants of a result."""

OPTIONS = {"LEAKY_RELU": {"alpha": 0.3}}


def _quants(op: str, dtype: str) -> tuple[tuple[float, int] | None, tuple[float, int] | None]:
    source = QUANTS.get(dtype)
    if source is None:
        return None, None
    if op in POSITIVE:  # LiteRT refuses negative values of some of them while it runs
        low = {"int8": -128, "int16": 0}[dtype]
        source = (source[0], low)
        return source, (0.02 if dtype == "int8" else 0.001, -120 if dtype == "int8" else 0)
    return source, FIXED.get((op, dtype), WIDER[dtype])


def _inputs(op: str, dtype: str, shape: tuple[int, ...]) -> list[np.ndarray] | None:
    rng = np.random.default_rng(7)
    if op not in POSITIVE:
        return None
    if dtype == "float32":
        return [rng.uniform(0.01, 9, shape).astype(np.float32)]
    low, high = {"int8": (-125, 127), "int16": (1, 32767)}[dtype]
    return [rng.integers(low, high, shape, endpoint=True).astype(dtype)]


def _case(op: str, kind: str, shape: tuple[int, ...] = SHAPE, **more: object) -> Case:
    raw = kind.endswith("r")
    dtype = kind.removesuffix("r")
    source, result = (None, None) if raw else _quants(op, dtype)
    if dtype == "float16":
        more.setdefault("tolerance", 2e-3)
    suffix = "x".join(map(str, shape))
    options = more.pop("op_options", OPTIONS.get(op))
    if dtype == "int16" and op == "TANH":
        more.setdefault("steps", 3)  # a table of LiteRT's, 2 steps off
    return one_op(
        f"{op}-{kind}-{suffix}",
        op,
        [(dtype, shape, source)],
        (dtype, shape, result),
        op_options=options,
        inputs=_inputs(op, dtype, shape),
        **more,
    )


MATRIX = [_case(op, kind) for op, kinds in DTYPES.items() for kind in kinds.split()]
HALVES = [
    _case(op, "float16", resolver="xnn")
    for op in (
        *("ABS", "CEIL", "ELU", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "NEG", "RELU", "RELU6"),
        *("RELU_N1_TO_1", "SQUARE"),
    )
]
"""Ops that take float16 with LiteRT's delegate only."""

INACCURATE = [
    _case(op, "int16", resolver=None, note="LiteRT's table is tens to hundreds of steps off")
    for op in ("GELU", "EXP")
]
SHAPES = [
    _case(op, kind, shape)
    for op in ("ABS", "RELU", "TANH", "ZEROS_LIKE", "RSQRT", "GELU")
    for kind in ("float32", "int8")
    if kind in DTYPES[op].split()
    for shape in ((), (7,), (2, 0, 3), (1, 2, 1, 3, 2, 2))
]
OPSET_13 = [
    _case(op, kind, options={"opset": 13})
    for op, kind in (
        ("HARD_SWISH", "float32"),
        ("HARD_SWISH", "int8"),
        ("GELU", "float32"),
        ("GELU", "float16"),
        ("RELU", "int8"),
        ("RELU", "int16"),
        ("LOGISTIC", "int16"),
        ("ABS", "int16r"),
        ("NEG", "int64"),
        ("SIGN", "float64"),
    )
]
KEPT_SIGNS = [
    _case(op, "int8", options={"int8": "keep"})
    for op in ("RELU6", "TANH", "LOGISTIC", "NEG", "ABS", "LEAKY_RELU")
]
OPTION_CASES = [
    *(
        _case("LEAKY_RELU", kind, op_options={"alpha": alpha})
        for kind in ("float32", "int8", "uint8", "int16")
        for alpha in (0.0, 1.0, 1.7, -0.6)
    ),
    *(
        _case("GELU", kind, op_options={"approximate": True}, options={"opset": opset})
        for kind in ("float32", "int8")
        for opset in (13, 21)
    ),
]

SPECIALS = np.array([np.nan, -0.0, 0, 2, -3, np.inf, -np.inf, 1e30, -1e30, 2.5, -0.5], np.float32)
SPECIAL_OPS = (
    "ABS NEG SIGN SQUARE SQRT RSQRT LOG EXP FLOOR CEIL ROUND TANH LOGISTIC ELU RELU RELU6 "
    "RELU_N1_TO_1 RELU_0_TO_1 HARD_SWISH GELU"
)
SPECIAL_CASES = [
    one_op(
        f"{op}-special",
        op,
        [("float32", SPECIALS.shape)],
        ("float32", SPECIALS.shape),
        inputs=[SPECIALS],
        again=op != "ELU",  # LiteRT's reference kernels lack it: what takes its place clamps
        note="NaN, infinities and signed zeros",
    )
    for op in SPECIAL_OPS.split()
]

DYNAMIC = [
    one_op(
        f"{op}-dynamic",
        op,
        [("float32", (-1, 3))],
        ("float32", (-1, 3)),
        inputs=[np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)],
    )
    for op in ("RELU", "ZEROS_LIKE", "SIGN")
]


@pytest.mark.parametrize(
    "case",
    [
        *MATRIX,
        *HALVES,
        *INACCURATE,
        *SHAPES,
        *OPSET_13,
        *KEPT_SIGNS,
        *OPTION_CASES,
        *SPECIAL_CASES,
        *DYNAMIC,
    ],
    ids=str,
)
def test_unary(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


ALL_CODES = np.arange(-128, 128, dtype=np.int8)


@pytest.mark.parametrize("form", ["resign", "keep"])
def test_tanh_on_all_codes_is_within_a_step(form: str, tmp_path: Path) -> None:
    check(
        one_op(
            "tanh",
            "TANH",
            [("int8", (256,), (0.03, 5))],
            ("int8", (256,), (1 / 128, 0)),
            inputs=[ALL_CODES],
            options={"int8": form},
        ),
        tmp_path,
    )


def test_lone_relu_works_on_codes(tmp_path: Path) -> None:
    quant = (0.05, 3)
    case = one_op("relu", "RELU6", [("int8", (64,), quant)], ("int8", (64,), quant), steps=0)
    check(case, tmp_path)
    counts = optimized_ops(tmp_path / "model.onnx", tmp_path)
    assert counts.get("Clip") == 1
    assert "DequantizeLinear" not in counts


def test_raw_integers_have_no_real_values(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x = builder.input("x", "int8", (3,))
    builder.output(builder.op("TANH", [x], [("int8", (3,))]))
    (tmp_path / "m.tflite").write_bytes(bytes(builder.build()))
    import nnconv

    with pytest.raises(nnconv.errors.UnsupportedError, match="no quantization parameters"):
        nnconv.load(tmp_path / "m.tflite")
