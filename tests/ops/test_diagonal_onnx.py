"""Triangles and diagonals as ONNX has them, and the places of greatest elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, TensorType, Value
from nnconv.ops.diagonal import EyeLike, Trilu
from nnconv.ops.norm import Hardmax, LogSoftmax, Softmax
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

Build = Callable[[Builder], Value]


def unary(op: Op, dtype: DType, shape: tuple[int, ...]) -> Build:
    return lambda b: b.add(op, [b.input("x", dtype, shape)])


WITH_KERNELS = [DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL]
OTHERS = [DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.UINT32, DType.UINT64]


def _triangle(x: np.ndarray, op: Trilu) -> np.ndarray:
    return (np.triu if op.upper else np.tril)(x, op.k)


CASES = [
    IrCase(
        f"trilu {shape} {op.k} {op.upper:d}",
        unary(op, DType.INT64, shape),
        expected=lambda x, op=op: _triangle(x, op),
        nodes={"Trilu": 1},
    )
    for shape in ((3, 4), (4, 3), (2, 3, 3), (2, 0, 3))
    for k in (0, 1, -2, 7, -7)
    for op in (Trilu(k=k), Trilu(k=k, upper=False))
]

CASES += [
    IrCase(
        f"trilu {dtype} {source or 'spelled'}",
        unary(Trilu(k=1), dtype, (3, 4)),
        expected=lambda x: np.triu(x, 1),
        nodes={"Trilu": 1} if source or dtype in WITH_KERNELS else None,
        opsets=(14, 21, 27) if source else (13, 21, 27),
        runs=() if source and dtype in OTHERS else None,
        format=source,
    )
    for dtype in (*WITH_KERNELS, *OTHERS)
    for source in ("", "onnx")
]


def _trilu_at(b: Builder) -> Value:
    return b.add(
        Trilu(k=None, upper=False),
        [b.input("x", DType.FLOAT32, (2, 4, 5)), b.input("k", DType.INT64, ())],
    )


CASES += [
    IrCase(
        f"trilu {k} at run time",
        _trilu_at,
        [None, np.int64(k)],
        expected=lambda x, k: np.tril(x, int(k)),
        nodes={"Trilu": 1},
    )
    for k in (-1, 0, 2)
]

CASES += [
    IrCase(
        "trilu of an open extent",
        lambda b: b.add(Trilu(k=-1), [b.input("x", DType.FLOAT32, (None, 4))]),
        [np.ones((6, 4), np.float32)],
        expected=lambda x: np.triu(x, -1),
    )
]

NO_EYES = (DType.UINT8, DType.BOOL, DType.FLOAT16)
"""Types without a kernel in onnxruntime."""

CASES += [
    IrCase(
        f"eye {dtype} {k} {shape} {source or 'spelled'}",
        unary(EyeLike(dtype=dtype, k=k), DType.FLOAT32, shape),
        expected=[np.eye(*shape, k=k, dtype=dtype.numpy)],
        nodes={"EyeLike": 1} if source else None,
        runs=() if source and dtype in NO_EYES else None,
        format=source,
    )
    for dtype in (DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.UINT64, DType.UINT8, DType.BOOL)
    for k, shape in ((0, (3, 4)), (1, (4, 3)), (-2, (3, 4)))
    for source in ("", "onnx")
]

TIES = np.random.default_rng(3).integers(-2, 3, (2, 3, 4)).astype(np.float32)


def _first_of_greatest(x: np.ndarray, axis: int) -> np.ndarray:
    rows = np.moveaxis(x, axis, -1)
    result = np.zeros_like(rows)
    for place in np.ndindex(*rows.shape[:-1]):
        result[(*place, int(rows[place].argmax()))] = 1
    return np.moveaxis(result, -1, axis)


CASES += [
    IrCase(
        f"hardmax axis {axis} {dtype}",
        unary(Hardmax(axis=axis), dtype, (2, 3, 4)),
        [TIES.astype(dtype.numpy)],
        expected=lambda x, axis=axis: _first_of_greatest(x, axis),
        nodes={"Hardmax": 1},
        runs=() if dtype is DType.FLOAT64 else None,
        note="onnxruntime has no kernel for float64",
    )
    for axis in (0, 1, 2)
    for dtype in (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64)
]

CASES += [
    IrCase(
        f"{op.name} axis {op.axis} keeps its node",
        unary(op, DType.FLOAT32, (2, 3, 4)),
        nodes={op.name: 1},
    )
    for axis in (0, 1, 2)
    for op in (Softmax(axis=axis), LogSoftmax(axis=axis))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_diagonal(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_diagonal_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


def test_other_ranks_are_told() -> None:
    with pytest.raises(ValueError, match="x has rank 1, must have at least 2"):
        Trilu().infer([TensorType(DType.FLOAT32, (3,))])
    with pytest.raises(ValueError, match="x has rank 3, must have 2"):
        EyeLike(dtype=DType.FLOAT32).infer([TensorType(DType.FLOAT32, (2, 3, 4))])
    with pytest.raises(ValueError, match="no 1 of type string"):
        EyeLike(dtype=DType.STRING).infer([TensorType(DType.FLOAT32, (2, 3))])
