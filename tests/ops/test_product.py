"""Products of matrices and tensors as ONNX has them, and determinants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, TensorType, Value
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.product import Det, Einsum, Gemm, MatMulInteger, explicit
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

FLOATS = {DType.FLOAT32: 1e-6, DType.FLOAT16: 2e-3, DType.FLOAT64: 1e-12}

Build = Callable[[Builder], Value]


def of(op: Op, dtype: DType, *shapes: tuple[int, ...]) -> Build:
    return lambda b: b.add(op, [b.input(f"x{i}", dtype, s) for i, s in enumerate(shapes)])


VECTORS = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
]

CASES = [
    IrCase(
        f"matmul {a} {b} {dtype}",
        of(MatMul(), dtype, a, b),
        expected=np.matmul,
        nodes={"MatMul": 1},
        tolerance=FLOATS.get(dtype, 0),
        evaluated=dtype is not DType.FLOAT16,
        note="onnx's evaluator adds float16 in float16",
    )
    for a, b in VECTORS
    for dtype in (*FLOATS, DType.INT32, DType.INT64)
    if dtype is DType.FLOAT32 or (a, b) == VECTORS[-1]
]

# -------------------------------------------------------------------- Gemm


def _gemm(op: Gemm, a: np.ndarray, b: np.ndarray, c: np.ndarray | float = 0) -> np.ndarray:
    left = np.swapaxes(a, 0, 1) if op.transpose_a else a
    right = np.swapaxes(b, 0, 1) if op.transpose_b else b
    return op.alpha * np.einsum("ij,jk->ik", left, right) + op.beta * c


CASES += [
    IrCase(
        f"gemm {op.alpha:g} {op.beta:g} {op.transpose_a:d}{op.transpose_b:d} {c} {dtype}",
        of(
            op,
            dtype,
            (4, 3) if op.transpose_a else (3, 4),
            (5, 4) if op.transpose_b else (4, 5),
            *([] if c is None else [c]),
        ),
        expected=lambda *given, op=op: _gemm(op, *(x.astype(np.float64) for x in given)),
        nodes={"Gemm": 1},
        tolerance=FLOATS[dtype],
        evaluated=dtype is not DType.FLOAT16,
        runtime_tolerance=3e-6 if dtype is DType.FLOAT32 else None,
    )
    for op in (
        Gemm(),
        Gemm(transpose_b=True),
        Gemm(transpose_a=True, alpha=0.5),
        Gemm(transpose_a=True, transpose_b=True, beta=0.25, alpha=2.0),
    )
    for c in (None, (3, 5), (5,), (1, 5), (3, 1), ())
    for dtype in FLOATS
    if dtype is DType.FLOAT32 or c == (5,)
]


def _layer(b: Builder) -> Value:
    rng = np.random.default_rng(0)
    weights, bias = rng.standard_normal((5, 4)), rng.standard_normal(5)
    x = b.input("x", DType.FLOAT32, (3, 4))
    return b.add(
        FullyConnected(), [x, b.const(weights.astype(np.float32)), b.const(np.float32(bias))]
    )


CASES += [IrCase("layer", _layer, nodes={"Gemm": 1}, runtime_tolerance=1e-5)]


def test_operands_of_other_ranks_are_told() -> None:
    vector, matrix = TensorType(DType.FLOAT32, (4,)), TensorType(DType.FLOAT32, (3, 4))
    with pytest.raises(ValueError, match="a has rank 1, must have 2"):
        Gemm().infer([vector, matrix])
    with pytest.raises(ValueError, match="inner extents are 4 and 3"):
        Gemm().infer([matrix, matrix])
    with pytest.raises(ValueError, match="don't broadcast"):
        Gemm(transpose_b=True).infer([matrix, matrix, TensorType(DType.FLOAT32, (4,))])
    with pytest.raises(ValueError, match="a vector can't be transposed"):
        MatMul(transpose_a=True).infer([vector, matrix])


# -------------------------------------------------------------------- integers


def _integer(a: DType, b: DType, a_point: np.ndarray | None, b_point: np.ndarray | None) -> Build:
    def build(builder: Builder) -> Value:
        points = [None if p is None else builder.const(p) for p in (a_point, b_point)]
        left, right = builder.input("a", a, (2, 3, 4)), builder.input("b", b, (4, 5))
        return builder.add(MatMulInteger(), [left, right, *points])

    return build


def _points(dtype: DType, *numbers: int) -> np.ndarray:
    return np.asarray(numbers if len(numbers) > 1 else numbers[0], dtype.numpy)


CASES += [
    IrCase(
        f"integer {a} {b} {name}",
        _integer(a, b, a_point, b_point),
        expected=lambda x, w, a_point=a_point, b_point=b_point: np.matmul(
            x.astype(np.int64) - (0 if a_point is None else int(a_point)),
            w.astype(np.int64) - (0 if b_point is None else b_point.astype(np.int64)),
        ),
        nodes={"MatMulInteger": 1},
        evaluated=name != "columns",
        note="onnx's evaluator takes one zero point for all columns",
    )
    for a, b in (
        (DType.UINT8, DType.UINT8),
        (DType.UINT8, DType.INT8),
        (DType.INT8, DType.INT8),
    )
    for name, a_point, b_point in (
        ("bare", None, None),
        ("first", _points(a, 7), None),
        ("second", None, _points(b, 9)),
        ("both", _points(a, 7), _points(b, 9)),
        ("columns", _points(a, 7), _points(b, 1, 2, 3, 4, 5)),
    )
]

# -------------------------------------------------------------------- Einsum

EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk", ((2, 3), (3, 4))),
    ("bij, bjk -> bik", ((5, 2, 3), (5, 3, 4))),
    ("ij->ji", ((2, 3),)),
    ("ji", ((2, 3),)),
    ("ij->i", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("i,i", ((3,), (3,))),
    ("i,j->ij", ((3,), (4,))),
    ("...ij,...jk->...ik", ((6, 2, 3), (6, 3, 4))),
    ("...ii->...i", ((2, 3, 3),)),
    ("...ij,jk", ((5, 6, 2, 3), (3, 4))),
    ("bqhd,bkhd->bhqk", ((2, 3, 4, 5), (2, 6, 4, 5))),
    ("aB,Bc,cd->ad", ((2, 3), (3, 4), (4, 5))),
]

CASES += [
    IrCase(
        f"einsum {equation} {dtype}",
        of(Einsum(equation=explicit(equation)), dtype, *shapes),
        expected=lambda *given, equation=equation: np.einsum(equation, *given),
        nodes={"Einsum": 1},
        tolerance=FLOATS.get(dtype, 0),
        evaluated=dtype is not DType.FLOAT16,
        runs=() if equation == "aB,Bc,cd->ad" else None,
        note="onnxruntime takes lower case indices alone",
    )
    for equation, shapes in EQUATIONS
    for dtype in (*FLOATS, DType.INT32, DType.INT64)
    if dtype is DType.FLOAT32 or equation in ("ij,jk", "...ii->...i")
]


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", ((2, 3),), "is of 2 operands"),
        ("ij->ik", ((2, 3),), "repeats or invents"),
        ("ij->ii", ((2, 3),), "repeats or invents"),
        ("ij->i", ((2, 3, 4),), "of rank 3"),
        ("ijk->i", ((2, 3),), "of rank 2"),
        ("i1->i", ((2, 3),), "can't have the term"),
        ("ij", ((2, 3),), "tells no result"),
        ("ij,jk->ik", ((2, 3), (4, 5)), "don't broadcast"),
    ],
)
def test_wrong_equations_are_told(
    equation: str, shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Einsum(equation=equation).infer([TensorType(DType.FLOAT32, s) for s in shapes])


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        (" ij , jk ", "ij,jk->ik"),
        ("ba", "ba->ab"),
        ("bA", "bA->Ab"),
        ("...ij,...jk", "...ij,...jk->...ik"),
        ("ii", "ii->"),
        ("ij -> ji", "ij->ji"),
    ],
)
def test_an_equation_is_made_explicit(equation: str, expected: str) -> None:
    assert explicit(equation) == expected


# -------------------------------------------------------------------- determinants

CASES += [
    IrCase(
        f"det {shape} {dtype}",
        of(Det(), dtype, shape),
        expected=np.linalg.det,
        nodes={"Det": 1},
        runs=() if dtype is DType.FLOAT64 else None,
        tolerance=1e-5,
        note="onnxruntime has a kernel for float32",
    )
    for shape in ((2, 2), (3, 4, 4), (2, 3, 5, 5), (1, 1))
    for dtype in (DType.FLOAT32, DType.FLOAT64)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_product(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_product_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
