"""Elementwise ops of several operands: op x dtype x quantization x broadcasting, special values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.elementwise import QUANTS, WIDER, one_op
from support.spine import Case, check, onnx_ops, optimized_ops

SHAPE = (2, 3, 4, 5)
SECOND = {"int8": (0.04, -9), "uint8": (0.04, 119), "int16": (0.0007, 0)}
"""Parameters of the second operand, where it may have its own."""

COMPARED = "float32 float16 int8 uint8 int16 int16r int32 int64"
DTYPES = {
    "ADD": "float32 float16 int8 uint8 int16 int16r int32 int64",
    "SUB": "float32 int8 uint8 int16 int32 int64",
    "MUL": "float32 float16 int8 uint8 int16 int16r int32 int64 uint32",
    "DIV": "float32 int32",
    "MAXIMUM": "float32 float16 int8 int8r uint8 uint8r int16 int16r int32 int64",
    "MINIMUM": "float32 float16 int8 int8r uint8 uint8r int16 int16r int32 int64",
    "POW": "float32 int32",
    "FLOOR_DIV": "float32 int8 int8r int16 int16r int32",
    "FLOOR_MOD": "float32 int8 int8r int16 int16r int32 int64",
    "SQUARED_DIFFERENCE": "float32 int8 int32",
    "BITWISE_XOR": "int8 int8r uint8 uint8r int16 int16r uint16 int32 uint32",
    "RIGHT_SHIFT": "int8 int8r uint8 uint8r int16 int16r uint16 int32 uint32",
    "EQUAL": f"{COMPARED} bool",
    "NOT_EQUAL": "float32 float16 int8 uint8 int16 int32 int64 bool",
    "LESS": COMPARED,
    "LESS_EQUAL": COMPARED,
    "GREATER": COMPARED,
    "GREATER_EQUAL": COMPARED,
    "LOGICAL_AND": "bool",
    "LOGICAL_OR": "bool",
    "ATAN2": "float32 float16 float64",
}
"""What LiteRT's CPU kernels take; ``r`` is the type without quantization parameters."""

COMPARISONS = frozenset({"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})
ONE_SET = frozenset({"MAXIMUM", "MINIMUM"})
"""Ops whose operands and result must have the same parameters."""

NO_BROADCAST = frozenset({"ATAN2"})


def _values(op: str, dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray | None:
    """What a second operand must be for the op to be defined, else None."""
    rng = np.random.default_rng(seed)
    if op in {"DIV", "FLOOR_DIV", "FLOOR_MOD"}:
        if dtype == "float32":
            return (rng.uniform(0.5, 3, shape) * rng.choice([-1, 1], shape)).astype(np.float32)
        return (rng.integers(1, 12, shape) * rng.choice([-1, 1], shape)).astype(dtype)
    if op == "POW":
        low = 0 if dtype == "int32" else -2
        return rng.integers(low, 5, shape).astype(dtype)
    if op == "RIGHT_SHIFT":
        return rng.integers(0, 2 * np.iinfo(dtype).bits, shape).astype(dtype)
    return None


def _first(op: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray | None:
    rng = np.random.default_rng(5)
    if op == "POW" and dtype == "float32":
        return rng.uniform(0.1, 3, shape).astype(np.float32)
    if op in {"FLOOR_DIV", "FLOOR_MOD"} and dtype == "float32":
        return (7 * rng.standard_normal(shape)).astype(np.float32)
    return None


def _quants(op: str, kind: str, dtype: str) -> list[tuple[float, int] | None]:
    if kind.endswith("r") or dtype not in QUANTS:
        return [None, None, None]
    first = QUANTS[dtype]
    if op in ONE_SET:
        return [first, first, first]
    if op in COMPARISONS:
        return [first, first, None]
    if op == "MUL":
        return [first, SECOND[dtype], (0.02 if dtype != "int16" else 0.0015, WIDER[dtype][1])]
    if op == "SQUARED_DIFFERENCE":
        return [first, SECOND[dtype], (0.3, -128)]
    return [first, SECOND[dtype], WIDER[dtype]]


def _case(
    op: str,
    kind: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = (SHAPE, SHAPE),
    **more: object,
) -> Case:
    dtype = kind.removesuffix("r")
    a, b = shapes
    first, second, result = _quants(op, kind, dtype)
    if dtype == "float16":
        more.setdefault("tolerance", 2e-3)
    label = "-".join("x".join(map(str, s)) or "scalar" for s in shapes)
    label = "" if shapes == (SHAPE, SHAPE) else f"-{label}"
    suffix = f"-{more.pop('label')}" if "label" in more else ""
    return one_op(
        f"{op}-{kind}{label}{suffix}",
        op,
        [(dtype, a, first), (dtype, b, second)],
        ("bool" if op in COMPARISONS else dtype, np.broadcast_shapes(a, b), result),
        inputs=[_first(op, dtype, a), _values(op, dtype, b, 3)],
        **more,
    )


MATRIX = [_case(op, kind) for op, kinds in DTYPES.items() for kind in kinds.split()]
HALVES = [
    _case(op, "float16", resolver="xnn")
    for op in ("SUB", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM")
]
"""Ops that take float16 with LiteRT's delegate only."""

BROADCASTS = [
    _case(op, kinds.split()[0], shapes)
    for op, kinds in DTYPES.items()
    if op not in NO_BROADCAST
    for shapes in (((2, 3, 4, 5), (5,)), ((3, 1, 5), (2, 3, 4, 1)), ((), (3, 2)), ((2, 0, 3), (3,)))
]
POWERS = [
    one_op(
        f"POW-{dtype}-{exponent}-{'x'.join(map(str, shape)) or 'scalar'}",
        "POW",
        [(dtype, (2, 3, 4)), np.full(shape, exponent, dtype)],
        (dtype, np.broadcast_shapes((2, 3, 4), shape)),
        inputs=[np.random.default_rng(0).uniform(1, 4, (2, 3, 4)).astype(dtype)],
    )
    for dtype, exponents in (("float32", (2, 3, 0.5, -0.5, -1, 1.7, 0)), ("int32", (2, 3)))
    for exponent in exponents
    for shape in ((), (4,), (1, 1), (1, 1, 1, 1))
    if shape in {(), (1, 1)} or exponent == 2
]
HIGH_RANKS = [
    _case(op, kind, ((1, 2, 1, 3, 1, 2, 1), (2, 1, 2, 1, 3, 1, 2)))
    for op, kind in (("ADD", "float32"), ("MAXIMUM", "int32"), ("LESS", "int8"), ("MUL", "int16"))
]
QUANTIZED_BROADCASTS = [
    _case(op, kind, ((2, 3, 4, 5), (4, 1)))
    for op in ("ADD", "MUL", "SUB", "MAXIMUM", "LESS")
    for kind in ("int8", "int16")
]
ACTIVATIONS = [
    _case(op, kind, op_options={"fused_activation_function": activation}, label=activation)
    for op in ("ADD", "SUB", "MUL", "DIV")
    for kind in ("float32", "int8", "int16", "int32", "int64")
    if kind in DTYPES[op].split()
    for activation in ("RELU", "RELU6", "RELU_N1_TO_1")
    if not (kind == "int16" and activation == "RELU_N1_TO_1")
]
OPSET_13 = [
    _case(op, kind, options={"opset": 13}, label="opset13")
    for op, kind in (
        *(("BITWISE_XOR", kind) for kind in DTYPES["BITWISE_XOR"].split()),
        *(("RIGHT_SHIFT", kind) for kind in ("int8r", "uint16", "uint32")),
        *((op, kind) for op in sorted(COMPARISONS) for kind in ("int8", "int16", "float16")),
        ("MAXIMUM", "int16"),
        ("MAXIMUM", "int8"),
        ("ADD", "int8"),
        ("ADD", "int16"),
        ("ADD", "int16r"),
        ("MUL", "uint32"),
        ("FLOOR_DIV", "int32"),
        ("FLOOR_MOD", "float32"),
        ("ATAN2", "float32"),
    )
]
UNEQUAL = [
    one_op(
        f"{op}-{dtype}-unequal",
        op,
        [(dtype, (64,), QUANTS[dtype]), (dtype, (64,), SECOND[dtype])],
        ("bool", (64,)),
        note="operands of different parameters are compared by what they stand for",
    )
    for op in sorted(COMPARISONS)
    for dtype in ("int8", "uint8")
]

SPECIALS = np.array([np.nan, -0.0, 0, 1, -3.5, np.inf, -np.inf, 1e30], np.float32)
PAIRS = [grid.reshape(-1).copy() for grid in np.meshgrid(SPECIALS, SPECIALS)]
SPECIAL_CASES = [
    one_op(
        f"{op}-special",
        op,
        [("float32", PAIRS[0].shape)] * 2,
        ("bool" if op in COMPARISONS else "float32", PAIRS[0].shape),
        inputs=PAIRS,
        resolver="xnn"
        if op in {"ADD", "SUB", "MUL"}
        else "opt",  # "opt" clamps to the largest float
        note="all pairs of NaN, infinities, signed zeros and plain numbers",
    )
    for op in (*sorted(COMPARISONS), "ADD", "SUB", "MUL", "POW", "FLOOR_MOD", "ATAN2")
]
FINE_ANGLES = [
    one_op(
        "ATAN2-float64-fine",
        "ATAN2",
        [("float64", (200,)), ("float64", (200,))],
        ("float64", (200,)),
        inputs=[
            np.append(np.random.default_rng(0).standard_normal(196), [1, -1, 0, np.inf]),
            np.append(np.random.default_rng(1).standard_normal(196), [0, -0.0, -1, -np.inf]),
        ],
        tolerance=1e-14,
    )
]
EXTREMES = [
    one_op(
        f"{op}-int32-extremes",
        op,
        [("int32", (6,))] * 2,
        ("int32", (6,)),
        inputs=[
            np.array([-(2**31), -(2**31), 2**31 - 1, 7, -7, -(2**31)], np.int32),
            np.array([3, 7, -3, -(2**31), 2**31 - 1, 2], np.int32),
        ],
    )
    for op in ("DIV", "FLOOR_DIV", "FLOOR_MOD", "ADD", "MUL", "SUB", "RIGHT_SHIFT")
]
CONSTANTS = [
    one_op(
        f"{op}-{'int8' if quant else 'float32'}-const",
        op,
        [
            ("int8" if quant else "float32", (2, 3, 4, 5), quant),
            (np.arange(1, 6).astype(np.int8), (0.1, 2))
            if quant
            else np.arange(1, 6).astype(np.float32),
        ],
        ("int8" if quant else "float32", (2, 3, 4, 5), (0.1, -3) if quant else None),
    )
    for op in ("ADD", "SUB", "MUL")
    for quant in (None, (0.05, 3))
]
DIFFERENCES = [
    one_op(
        f"SUB-{dtype}-{form}-{side}",
        "SUB",
        [(codes, quant), (dtype, (256,), quant)]
        if side == "left"
        else [(dtype, (256,), quant), (codes, quant)],
        (dtype, (256,), (0.3, zero)),
        options={"int8": form},
        note="subtraction is an addition of inverted codes",
    )
    for dtype, zero in (("int8", 5), ("uint8", 120))
    for quant in ((0.17, zero),)
    for codes in (np.arange(256).astype("uint8").view(dtype),)
    for form in ("resign", "keep")
    for side in ("left", "right")
]
DYNAMIC = [
    one_op(
        f"{op}-dynamic",
        op,
        [("float32", (-1, 3)), ("float32", (1, 3))],
        (result, (-1, 3)),
        inputs=[np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32), None],
    )
    for op, result in (("ADD", "float32"), ("MAXIMUM", "float32"), ("LESS", "bool"))
]


@pytest.mark.parametrize(
    "case",
    [
        *(
            *MATRIX,
            *HALVES,
            *BROADCASTS,
            *HIGH_RANKS,
            *POWERS,
            *QUANTIZED_BROADCASTS,
            *ACTIVATIONS,
            *OPSET_13,
            *UNEQUAL,
        ),
        *(*SPECIAL_CASES, *FINE_ANGLES, *EXTREMES, *CONSTANTS, *DIFFERENCES, *DYNAMIC),
    ],
    ids=str,
)
def test_binary(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_division_of_the_least_integer_by_minus_one_wraps(tmp_path: Path) -> None:
    """LiteRT and onnxruntime's own kernel end the process here."""
    for op, wanted in (("DIV", -(2**31)), ("FLOOR_DIV", -(2**31)), ("FLOOR_MOD", 0)):
        case = one_op(
            op,
            op,
            [("int32", (1,)), ("int32", (1,))],
            ("int32", (1,)),
            inputs=[np.array([-(2**31)], np.int32), np.array([-1], np.int32)],
            expected=[np.array([wanted], np.int32)],
            again=False,
        )
        check(case, tmp_path)


def test_differences_are_integer_additions(tmp_path: Path) -> None:
    check(_case("SUB", "int8"), tmp_path)
    assert optimized_ops(tmp_path / "model.onnx", tmp_path).get("QLinearAdd") == 1


@pytest.mark.parametrize(
    ("shapes", "expands"),
    [
        (((1, 50, 16, 2), (1, 50, 1, 2)), 1),
        (((1, 50, 1, 2), (1, 50, 16, 2)), 1),
        (((50, 16, 2), (50, 16, 1)), 1),
        (((1, 50, 16, 2), (1, 1, 2)), 1),
        (((1, 50, 16, 8), (1, 50, 1, 8)), 0),
        (((1, 50, 2, 16), (1, 50, 2, 1)), 0),
        (((1, 5, 16, 2), (1, 5, 1, 2)), 0),
        (((1, 50, 16, 2), (1, 1)), 0),
        (((1, 50, 1, 2), (1, 1, 16, 2)), 0),
    ],
    ids=str,
)
def test_short_runs_are_repeated_beforehand(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], expands: int, tmp_path: Path
) -> None:
    result = np.broadcast_shapes(*shapes)
    operands = [("float32", shape) for shape in shapes]
    check(one_op("MUL-runs", "MUL", operands, ("float32", result)), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx").get("Expand", 0) == expands
