"""Reductions, running products and places of extremes as ONNX has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, Value
from nnconv.ops import reduce as r
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

SHAPE = (2, 3, 4, 5)

FLOATS = {DType.FLOAT32: 1e-6, DType.FLOAT16: 2e-3, DType.FLOAT64: 1e-12}


def log_sum_exp(x: np.ndarray, **axes: object) -> np.ndarray:
    return np.log(np.sum(np.exp(x), **axes))


NUMPY: dict[type[r.Reduction], Callable[..., np.ndarray]] = {
    r.ReduceSum: np.sum,
    r.ReduceMean: np.mean,
    r.ReduceProd: np.prod,
    r.ReduceMax: np.max,
    r.ReduceMin: np.min,
    r.ReduceL1: lambda x, **axes: np.sum(np.abs(x), **axes),
    r.ReduceL2: lambda x, **axes: np.sqrt(np.sum(x * x, **axes)),
    r.ReduceSumSquare: lambda x, **axes: np.sum(x * x, **axes),
    r.ReduceLogSum: lambda x, **axes: np.log(np.sum(x, **axes)),
    r.ReduceLogSumExp: log_sum_exp,
}


def reduction(
    op: Op, dtype: DType = DType.FLOAT32, shape: tuple[int, ...] = SHAPE
) -> Callable[[Builder], Value]:
    return lambda b: b.add(op, [b.input("x", dtype, shape)])


def _positive(dtype: DType, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Numbers above zero, for logarithms."""
    drawn = 1 + np.random.default_rng(5).random(shape)
    return (drawn if dtype.is_float else 5 * drawn).astype(dtype.numpy)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


CASES = [
    IrCase(
        f"{kind.__name__} {dtype} {axes} keep {keep}",
        reduction(kind(axes=axes, keep_dims=keep), dtype),
        [_positive(dtype)],
        expected=lambda x, kind=kind, axes=axes, keep=keep: NUMPY[kind](
            _wide(x), axis=axes, keepdims=keep
        ),
        nodes={kind.__name__: 1},
        tolerance=FLOATS[dtype],
        runtime_tolerance=5e-6 if dtype is DType.FLOAT32 else None,
        evaluated=dtype is not DType.FLOAT16,
        note="onnx's evaluator adds float16 in float16",
    )
    for kind in NUMPY
    for dtype in FLOATS
    for axes in ((1,), (0, 3), (0, 1, 2, 3))
    for keep in (False, True)
    if dtype is DType.FLOAT32 or axes == (0, 3)
]

CASES += [
    IrCase(
        f"{kind.__name__} {dtype}",
        reduction(kind(axes=(1, 2)), dtype),
        [_positive(dtype)],
        expected=lambda x, kind=kind: np.trunc(NUMPY[kind](_wide(x), axis=(1, 2))),
        nodes={kind.__name__: 1},
        runs=() if not dtype.is_signed or kind is r.ReduceLogSumExp else None,
        evaluated=False,
        note="onnxruntime has kernels of signed integers, and truncates e**x",
    )
    for kind in NUMPY
    for dtype in (DType.INT32, DType.INT64, DType.UINT32, DType.UINT64)
    if not (kind is r.ReduceProd and dtype in (DType.INT32, DType.UINT32))  # it doesn't fit
]

CASES += [
    IrCase(
        f"{kind.__name__} bool",
        reduction(kind(axes=(1,)), DType.BOOL),
        expected=lambda x, kind=kind: NUMPY[kind](x, axis=1),
        nodes={kind.__name__: 1},
    )
    for kind in (r.ReduceMax, r.ReduceMin)
]

CASES += [
    IrCase(
        f"{kind.__name__} of single elements",
        reduction(kind(axes=(), keep_dims=True), shape=(3, 4)),
        [_positive(DType.FLOAT32, (3, 4)) - 1.5 if kind is not r.ReduceLogSum else None],
        expected=expected,
        seed=1,
        evaluated=False,
        note="at opset 13 no axes meant all of them",
    )
    for kind, expected in (
        (r.ReduceSum, lambda x: x),
        (r.ReduceMax, lambda x: x),
        (r.ReduceL1, np.abs),
        (r.ReduceL2, np.abs),
        (r.ReduceSumSquare, np.square),
        (r.ReduceLogSum, np.log),
        (r.ReduceLogSumExp, lambda x: x),
    )
]

OF_NOTHING = {
    r.ReduceSum: 0,
    r.ReduceProd: 1,
    r.ReduceMax: -np.inf,
    r.ReduceMin: np.inf,
    r.ReduceL1: 0,
    r.ReduceL2: 0,
    r.ReduceSumSquare: 0,
    r.ReduceLogSum: -np.inf,
    r.ReduceLogSumExp: -np.inf,
}

CASES += [
    IrCase(
        f"{kind.__name__} of nothing keep {keep}",
        reduction(kind(axes=(1,), keep_dims=keep), shape=(2, 0, 4)),
        expected=[np.full((2, 1, 4) if keep else (2, 4), value, np.float32)],
        nodes={kind.__name__: 1},
        evaluated=False,
    )
    for kind, value in OF_NOTHING.items()
    for keep in (False, True)
]

CASES += [
    IrCase(
        f"log_sum_exp of {name}",
        reduction(r.ReduceLogSumExp(axes=(0,)), shape=(3,)),
        [np.float32(numbers)],
        expected=[np.float32(value)],
        evaluated=False,
        not_on_litert="" if np.isfinite(value) else "its kernels keep sums finite",
    )
    for name, numbers, value in (
        ("great numbers", [1000, 1000, 900], 1000 + np.log(2)),
        ("small numbers", [-1000, -1000, -1100], -1000 + np.log(2)),
        ("nothing at all", [-np.inf] * 3, -np.inf),
        ("infinity", [np.inf, 0, 1], np.inf),
    )
]


def _run_time_axes(
    kind: type[r.Reduction], count: int | None, *, keep: bool, all_if_empty: bool
) -> Callable[[Builder], Value]:
    op = kind(axes=None, keep_dims=keep, all_if_empty=all_if_empty)
    return lambda b: b.add(
        op, [b.input("x", DType.FLOAT32, SHAPE), b.input("axes", DType.INT64, (count,))]
    )


CASES += [
    IrCase(
        f"{kind.__name__} axes at run time {axes} {all_if_empty} keep {keep}",
        _run_time_axes(kind, None if keep else len(axes), keep=keep, all_if_empty=all_if_empty),
        [_positive(DType.FLOAT32), np.asarray(axes, np.int64)],
        expected=lambda x, axes, kind=kind, keep=keep, all_if_empty=all_if_empty: NUMPY[kind](
            x, axis=None if not axes.size and all_if_empty else tuple(axes), keepdims=keep
        ),
        nodes={kind.__name__: 1},
        opsets=(21, 27),
        refused_at=() if kind is r.ReduceSum else (13,),
        evaluated=bool(axes),
        not_on_litert="" if axes or not (keep and all_if_empty) else "none means none there",
    )
    for kind in (r.ReduceSum, r.ReduceMax)
    for axes in ([1], [-1, 0], [])
    for keep in (False, True)
    for all_if_empty in (False, True)
]

# -------------------------------------------------------------------- places of extremes

TIES = np.random.default_rng(2).integers(0, 3, SHAPE)

CASES += [
    IrCase(
        f"{kind.__name__} {dtype} axis {axis} last {last}",
        reduction(kind(axis=axis, dtype=DType.INT64, keep_dims=axis > 1, last=last), dtype),
        [TIES.astype(dtype.numpy)],
        expected=lambda x, kind=kind, axis=axis, last=last: _place(x, kind, axis, last=last),
        nodes={kind.__name__: 1},
        runs=() if dtype in (DType.INT16, DType.UINT32) else None,
        evaluated=not (last and dtype is DType.UINT32),
        note="onnxruntime has no kernels for int16 and uint32",
    )
    for kind in (r.ArgMax, r.ArgMin)
    for dtype in (DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.INT16, DType.INT32, DType.UINT32)
    for axis in (1, 3)
    for last in (False, True)
]


def _place(x: np.ndarray, kind: type[Op], axis: int, *, last: bool) -> np.ndarray:
    wanted = (x.max if kind is r.ArgMax else x.min)(axis=axis, keepdims=True)
    order = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    places = np.where(x == wanted, order, -1 if last else x.size)
    return (places.max if last else places.min)(axis=axis, keepdims=axis > 1)


# -------------------------------------------------------------------- running products


def _running(x: np.ndarray, axis: int, *, exclusive: bool, reverse: bool) -> np.ndarray:
    rows = np.moveaxis(x[::-1] if reverse else x, axis, 0) if axis == 0 else np.moveaxis(x, axis, 0)
    rows = rows[::-1] if reverse and axis else rows
    done = [np.ones_like(rows[0])]
    for row in rows:
        done.append(done[-1] * row)
    picked = np.stack(done[:-1] if exclusive else done[1:])
    return np.moveaxis(picked[::-1] if reverse else picked, 0, axis)


CASES += [
    IrCase(
        f"cumprod {dtype} axis {axis} {exclusive} {reverse} {source or 'spelled'}",
        reduction(r.CumProd(axis=axis, exclusive=exclusive, reverse=reverse), dtype, (3, 4, 2)),
        [_positive(dtype, (3, 4, 2)) * np.asarray([[[-1, 1]]], dtype.numpy)],
        expected=lambda x, axis=axis, exclusive=exclusive, reverse=reverse: _running(
            x, axis, exclusive=exclusive, reverse=reverse
        ),
        nodes={"CumProd": 1} if source else None,
        opsets=(26, 27) if source else (13, 21),
        runs=() if source else None,
        format=source,
        evaluated=bool(source),
        tolerance=1e-6,
        note="onnxruntime has no kernel of CumProd",
    )
    for dtype in (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64)
    for axis in (0, 1)
    for exclusive in (False, True)
    for reverse in (False, True)
    for source in ("", "onnx")
]


def _cumprod_at(b: Builder) -> Value:
    x = b.input("x", DType.FLOAT32, (2, 3))
    return b.add(r.CumProd(axis=None), [x, b.input("axis", DType.INT32, ())])


CASES += [
    IrCase(
        "cumprod axis at run time",
        _cumprod_at,
        [None, np.int32(1)],
        expected=lambda x, axis: np.cumprod(x, axis=int(axis)),
        opsets=(26, 27),
        refused_at=(21,),
        runs=(),
    ),
    IrCase(
        "cumprod of nothing",
        reduction(r.CumProd(axis=1, exclusive=True), shape=(2, 0)),
        expected=[np.zeros((2, 0), np.float32)],
        opsets=(21,),
        evaluated=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reduce(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_reduce_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
