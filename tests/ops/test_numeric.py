"""Angles, bits, tests and extremes that only some formats have as one op."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.errors import BackendError
from nnconv.ir import Builder, DType, Op, TensorType, Value
from nnconv.ir.dtype import INTEGERS
from nnconv.ops import numeric as n
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

FLOATS = {
    DType.FLOAT32: 1e-6,
    DType.FLOAT16: 2e-3,
    DType.BFLOAT16: 1e-2,
    DType.FLOAT64: 1e-12,
}
"""Float types with the tolerance that their precision allows."""

WHOLE = sorted((d for d in INTEGERS if d.bits >= 8), key=lambda d: d.value)
"""Integer types of whole bytes."""

PLACES = np.linspace(-0.95, 0.95, 60).reshape(3, 4, 5)

FUNCTIONS: dict[str, tuple[Op, Callable[[np.ndarray], np.ndarray], np.ndarray]] = {
    "Tan": (n.Tan(), np.tan, PLACES),
    "Asin": (n.Asin(), np.arcsin, PLACES),
    "Acos": (n.Acos(), np.arccos, PLACES),
    "Atan": (n.Atan(), np.arctan, 5 * PLACES),
    "Sinh": (n.Sinh(), np.sinh, 5 * PLACES),
    "Cosh": (n.Cosh(), np.cosh, 5 * PLACES),
    "Asinh": (n.Asinh(), np.arcsinh, 5 * PLACES),
    "Acosh": (n.Acosh(), np.arccosh, 1 + 5 * (1 + PLACES)),
    "Atanh": (n.Atanh(), np.arctanh, PLACES),
    "Erf": (n.Erf(), np.vectorize(math.erf), 3 * PLACES),
    "Reciprocal": (n.Reciprocal(), lambda x: 1 / x, 3 * PLACES + 0.01),
    "Sign": (n.PlainSign(), np.sign, PLACES),
}


def unary(op: Op, dtype: DType, shape: tuple[int, ...] = (3, 4, 5)) -> Callable[[Builder], Value]:
    return lambda b: b.add(op, [b.input("x", dtype, shape)])


def binary(
    op: Op, dtype: DType, a: tuple[int, ...] = (3, 1, 5), b: tuple[int, ...] = (4, 5)
) -> Callable[[Builder], Value]:
    return lambda builder: builder.add(
        op, [builder.input("a", dtype, a), builder.input("b", dtype, b)]
    )


def _function(name: str, dtype: DType) -> IrCase:
    op, formula, places = FUNCTIONS[name]
    has_wide = name in ("Reciprocal", "Sign")
    narrow = dtype is DType.BFLOAT16
    return IrCase(
        f"{name} {dtype}",
        unary(op, dtype),
        [places.astype(dtype.numpy)],
        expected=lambda x: formula(x.astype(np.float64)),
        nodes={name: 1},
        runs=() if narrow or (dtype is DType.FLOAT64 and not has_wide) else None,
        evaluated=not narrow and (name, dtype) != ("Erf", DType.FLOAT64),  # it takes float32
        tolerance=FLOATS[dtype],
        runtime_tolerance=3e-6 if dtype is DType.FLOAT32 else None,
        note="onnxruntime has no kernels for bfloat16, nor of most functions for float64",
    )


CASES = [_function(name, dtype) for name in FUNCTIONS for dtype in FLOATS]

SPECIALS = [-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan]

CASES += [
    IrCase(
        f"{op!r} {dtype}",
        unary(op, dtype, (7,)),
        [np.asarray(SPECIALS).astype(dtype.numpy)],
        expected=expected,
        nodes={name: 1},
        runs=() if dtype is DType.BFLOAT16 else None,
        evaluated=dtype is not DType.BFLOAT16,
        note="onnxruntime takes no bfloat16 from numpy",
    )
    for dtype in FLOATS
    for op, name, expected in (
        (n.IsNan(), "IsNaN", np.isnan),
        (n.IsInf(), "IsInf", np.isinf),
        (n.IsInf(negative=False), "IsInf", np.isposinf),
        (n.IsInf(positive=False), "IsInf", np.isneginf),
        (n.IsInf(positive=False, negative=False), "IsInf", lambda x: np.zeros(x.shape, bool)),
    )
]

# -------------------------------------------------------------------- bits


def everything(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Numbers of an integer type's whole range, its ends among them."""
    low, high = dtype.int_range
    drawn = np.random.default_rng(seed).integers(low, high, count, dtype.numpy, endpoint=True)
    drawn[:4] = [low, high, 0, 1]
    return drawn


PLAIN_BITS = {
    "BitwiseAnd": (n.BitwiseAnd(), np.bitwise_and),
    "BitwiseOr": (n.BitwiseOr(), np.bitwise_or),
}

CASES += [
    IrCase(
        f"{name} {dtype}",
        binary(op, dtype),
        [everything(dtype, 15, 1).reshape(3, 1, 5), everything(dtype, 20, 2).reshape(4, 5)],
        expected=formula,
        nodes={name: 1},
    )
    for dtype in WHOLE
    for name, (op, formula) in PLAIN_BITS.items()
]

CASES += [
    IrCase(
        f"BitwiseNot {dtype}",
        unary(n.BitwiseNot(), dtype, (60,)),
        [everything(dtype, 60, 3)],
        expected=np.invert,
        nodes={"BitwiseNot": 1},
    )
    for dtype in WHOLE
]


def amounts(dtype: DType) -> np.ndarray:
    """Amounts to shift by: none, all but one, too much, and (if there are) negative ones."""
    low, high = dtype.int_range
    listed = [
        0,
        1,
        2,
        dtype.bits - 1,
        dtype.bits,
        dtype.bits + 1,
        high,
        *([-1, low] if low else []),
    ]
    return np.asarray(listed, dtype.numpy)


def shifted(a: np.ndarray, b: np.ndarray, *, left: bool) -> np.ndarray:
    """In Python's own numbers, which have no width."""
    bits = a.dtype.itemsize * 8
    rows = []
    for x, y in np.broadcast(a, b):
        number, step = int(x), int(y)
        step = step if 0 <= step < bits else bits
        whole = number << step if left else number >> step
        rows.append(whole & ((1 << bits) - 1))
    raw = np.asarray(rows, f"uint{bits}")
    return raw.view(a.dtype).reshape(np.broadcast_shapes(a.shape, b.shape))


CASES += [
    IrCase(
        f"{op.name} {dtype} {source or 'spelled'}",
        binary(op, dtype, (12, 1), (amounts(dtype).size,)),
        [everything(dtype, 12, 4).reshape(12, 1), amounts(dtype)],
        expected=lambda a, b, op=op: shifted(a, b, left=isinstance(op, n.ShiftLeft)),
        format=source,
        evaluated=False,
        note="onnx's evaluator leaves amounts outside of the width to numpy",
    )
    for dtype in WHOLE
    for op in (n.ShiftLeft(), n.ShiftRight())
    for source in ("", "onnx")
    if dtype.is_signed or not source  # such a BitShift isn't defined before opset 28
]

CASES += [
    IrCase(
        f"{op.name} {dtype}",
        binary(op, dtype, (12, 1), (4,)),
        [everything(dtype, 12, 4).reshape(12, 1), np.asarray([0, 1, 3, 7], dtype.numpy)],
        expected=lambda a, b, op=op: shifted(a, b, left=isinstance(op, n.ShiftLeft)),
        nodes={"BitShift": 1},
    )
    for dtype in WHOLE
    if not dtype.is_signed
    for op in (n.ShiftLeft(), n.ShiftRight())
]

# -------------------------------------------------------------------- several operands

CASES += [
    IrCase(
        f"mod {dtype}",
        binary(n.TruncatedMod(), dtype, (1, 6), (4, 1)),
        [
            np.asarray([[-7, -6, -1, 0, 6, 7]]).astype(dtype.numpy)
            if dtype.is_signed or dtype.is_float
            else np.asarray([[0, 1, 5, 6, 7, 250]]).astype(dtype.numpy),
            np.asarray([[3], [-3 if dtype.is_signed or dtype.is_float else 4], [2], [7]]).astype(
                dtype.numpy
            ),
        ],
        expected=np.fmod,
        nodes={"Mod": 1},
        tolerance=0,
        runs=() if dtype is DType.BFLOAT16 else None,
        evaluated=dtype is not DType.BFLOAT16,
    )
    for dtype in (*WHOLE, *FLOATS)
]


def variadic(op: Op, dtype: DType, *shapes: tuple[int, ...]) -> Callable[[Builder], Value]:
    return lambda b: b.add(op, [b.input(f"x{i}", dtype, shape) for i, shape in enumerate(shapes)])


def _mean(*terms: np.ndarray) -> np.ndarray:
    return sum(term.astype(np.float64) for term in terms) / len(terms)


VARIADIC: dict[str, tuple[Op, Callable[..., np.ndarray]]] = {
    "Max": (n.MaxOf(), lambda *terms: np.maximum.reduce(np.broadcast_arrays(*terms))),
    "Min": (n.MinOf(), lambda *terms: np.minimum.reduce(np.broadcast_arrays(*terms))),
    "Mean": (n.MeanOf(), _mean),
}

CASES += [
    IrCase(
        f"{name} of {len(shapes)} {dtype}",
        variadic(op, dtype, *shapes),
        expected=formula,
        nodes={name: 1} if dtype not in (DType.INT16, DType.UINT16) else None,
        runs=() if dtype is DType.BFLOAT16 or (name, dtype) == ("Mean", DType.FLOAT64) else None,
        evaluated=dtype is not DType.BFLOAT16 and (name != "Mean" or len(shapes) == 1),
        tolerance=FLOATS.get(dtype, 0),
        note="onnx's evaluator doesn't broadcast means",
    )
    for shapes in (((3, 4),), ((3, 1), (1, 4)), ((3, 4), (4,), (2, 1, 1)))
    for name, (op, formula) in VARIADIC.items()
    for dtype in (*FLOATS, *(WHOLE if name != "Mean" else ()))
]


def clip(dtype: DType, *, low: bool, high: bool) -> Callable[[Builder], Value]:
    def build(b: Builder) -> Value:
        x = b.input("x", dtype, (3, 4))
        bounds = [
            b.input("low", dtype, ()) if low else None,
            b.input("high", dtype, ()) if high else None,
        ]
        return b.add(n.ClipBetween(), [x, *bounds])

    return build


CASES += [
    IrCase(
        f"clip {dtype} {bounds}",
        clip(dtype, low=0 in bounds, high=1 in bounds),
        [None, *(np.asarray(limits[i], dtype.numpy) for i in bounds)],
        expected=lambda x, *given, bounds=bounds: np.minimum(
            np.maximum(x, given[0]) if 0 in bounds else x, given[-1] if 1 in bounds else x.max()
        ),
        nodes={"Clip": 1},
        format=source,
        runs=() if dtype is DType.BFLOAT16 or (source and narrow) else None,
        evaluated=dtype is not DType.BFLOAT16,
        tolerance=0,
        note="onnxruntime has no kernels for bfloat16, int16 and uint16",
    )
    for dtype in (*FLOATS, *WHOLE)
    for narrow in (dtype in (DType.INT16, DType.UINT16),)
    for source in (("onnx", "") if not narrow else ("onnx",))
    for limits in ((1, 3),)
    for bounds in ((0, 1), (0,), (1,))
]

CASES += [
    IrCase(
        f"clip {dtype} spelled",
        clip(dtype, low=True, high=True),
        [None, np.asarray(2, dtype.numpy), np.asarray(7, dtype.numpy)],
        expected=np.clip,
        format="",
    )
    for dtype in (DType.INT16, DType.UINT16)
]

CASES += [
    IrCase(
        "clip between bounds that cross",
        clip(DType.FLOAT32, low=True, high=True),
        [None, np.float32(1), np.float32(-1)],
        expected=lambda *given: np.full_like(given[0], -1),
        evaluated=False,
        note="the greatest bound wins; onnx's evaluator is numpy's clip",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numeric(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_numeric_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


def test_integers_are_not_divided_by_zero() -> None:
    model = IrCase("mod", binary(n.TruncatedMod(), DType.INT32)).model()
    zeros = [np.zeros((3, 1, 5), np.int32), np.zeros((4, 5), np.int32)]
    with pytest.raises(BackendError, match="division by zero"):
        run_graph(model.graph, zeros)


def test_bounds_are_scalars() -> None:
    x, bound = TensorType(DType.FLOAT32, (2, 3)), TensorType(DType.FLOAT32, (3,))
    with pytest.raises(ValueError, match="must be a scalar"):
        n.ClipBetween().infer([x, bound])
