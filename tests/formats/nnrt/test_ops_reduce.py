"""NNRt operations that reduce, rank and pick, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType
from nnconv.formats.nnrt.wire import QuantParams
from support.nnrt_ops import Given, check_op, codes, const

I32, I64, F32 = np.int32, np.int64, np.float32

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "REDUCE_MEAN": lambda x, **how: np.mean(x.astype(np.float64), **how),
    "REDUCE_SUM": np.sum,
    "REDUCE_PROD": np.prod,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_L2": lambda x, **how: np.sqrt(np.sum(np.square(x.astype(np.float64)), **how)),
}

FORMS: dict[str, tuple[list[int], dict[str, bool], tuple[int, ...], bool]] = {
    "one": ([1], {}, (1,), False),
    "kept": ([-1, 0], {"keepDims": True}, (0, 2), True),
    "all": ([0, 1, 2], {}, (0, 1, 2), False),
    "to the end": ([1], {"reduceToEnd": True}, (1, 2), False),
}
"""Axes, parameters, and the axes and whether they are kept for numpy."""


def _ids(kind: DataType) -> str:
    return kind.name


def _cases() -> list[Any]:
    return [
        pytest.param(op, kind, form, id=f"{op}-{kind.name}-{form}")
        for op in REDUCTIONS
        for kind in spec_of(OperationType[op]).inputs[0].types
        for form in FORMS
    ]


@pytest.mark.parametrize(("op", "kind", "form"), _cases())
def test_reductions(op: str, kind: DataType, form: str) -> None:
    axes, params, whole, keep = FORMS[form]
    rng = np.random.default_rng(len(op))
    x = rng.integers(-3, 4, (2, 3, 4)).astype(NUMPY[kind])
    if op == "REDUCE_MEAN" and x.dtype.kind == "i":
        x = np.repeat(x[:1, :1] * 24, 6, axis=1).reshape(2, 3, 4)  # whatever means, they are whole
    expected = REDUCTIONS[op](x, axis=whole, keepdims=keep).astype(x.dtype)
    if not expected.shape:
        expected = expected.reshape(1)
    check_op(op, {"input": x, "axis": const(axes, I32)}, params, expected)


@pytest.mark.parametrize("coeff", [0.0, 1e-6, 2.5, -1.0])
@pytest.mark.parametrize("op", sorted(REDUCTIONS))
def test_a_factor_counts_to_the_end(op: str, coeff: float) -> None:
    x = np.asarray([[1, 2, 3], [4, 5, 6]], F32)
    factor = coeff if abs(coeff) > 1e-5 else 1.0
    expected = REDUCTIONS[op](x, axis=(1,)).astype(F32)
    inputs = {"input": x, "axis": const([1], I64)}
    check_op(op, inputs, {"reduceToEnd": True, "coeff": coeff}, (expected * factor).astype(F32))
    check_op(op, inputs, {"coeff": coeff}, expected)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("op", ["REDUCE_ALL", "ALL"])
def test_all(op: str, *, keep: bool) -> None:
    x = np.asarray([[True, True, False], [True, True, True]])
    inputs = {"input": x, "axis": const([1], I32)}
    check_op(op, inputs, {"keepDims": keep}, x.all(axis=1, keepdims=keep))


ARG_TYPES = [F32, np.float16]


@pytest.mark.parametrize("dtype", ARG_TYPES)
@pytest.mark.parametrize(("axis", "keep"), [(0, False), (-1, True), (1, False)])
def test_arg_max(dtype: Any, axis: int, *, keep: bool) -> None:
    x = np.asarray([[3, 9, 1], [7, 2, 9]], dtype)
    params = {"axis": axis, "keepDims": keep}
    expected = np.argmax(x, axis=axis, keepdims=keep).astype(I32)
    check_op("ARG_MAX", {"input": x}, params, expected)
    values = np.max(x, axis=axis, keepdims=keep)
    check_op("ARG_MAX", {"input": x}, {**params, "outMaxValue": True}, values)


def test_arg_max_of_several() -> None:
    x = np.asarray([[3, 9, 1], [7, 2, 9]], F32)
    check_op("ARG_MAX", {"input": x}, {"topK": 2}, np.asarray([[1, 0], [2, 0]], I32))
    params = {"topK": 2, "outMaxValue": True}
    check_op("ARG_MAX", {"input": x}, params, np.asarray([[9, 3], [9, 7]], F32))


def test_arg_max_of_codes() -> None:
    x = np.asarray([[3, 9, 1], [7, 2, -9]])
    expected = Given(np.asarray([1, 0], I32), QuantParams([1.0], [0]))
    check_op("ARG_MAX", {"input": codes(x, 0.5, 1)}, {}, expected)


@pytest.mark.parametrize("dtype", [I32, np.int64])
def test_places_of_codes_need_no_parameters(dtype: Any) -> None:
    x = np.asarray([[3, 9, 1], [7, 2, -9]])
    expected = np.asarray([[1], [0]], dtype)
    check_op("ARG_MAX", {"input": codes(x, 0.5, 1)}, {"keepDims": True}, expected)
    check_op("ARG_MAX", {"input": codes(x, 0.5, 1)}, {"keepDims": True}, expected, api=1)


def _top(x: np.ndarray, k: int, axis: int, *, rising: bool) -> list[np.ndarray]:
    order = np.argsort(-x.astype(np.float64), axis=axis, kind="stable")
    places = np.take(order, range(k), axis=axis)
    if rising:
        places = np.flip(places, axis=axis)
    return [np.take_along_axis(x, places, axis=axis), places.astype(I32)]


@pytest.mark.parametrize("kind", spec_of(OperationType.TOP_K).inputs[0].types, ids=_ids)
@pytest.mark.parametrize(("axis", "falling"), [(0, True), (-1, True), (1, False)])
def test_top_k(kind: DataType, axis: int, *, falling: bool) -> None:
    x = np.asarray([[3, 9, 1, 4], [7, 2, 8, 9], [5, 6, 0, 2]]).astype(NUMPY[kind])
    expected = _top(x, 2, axis, rising=not falling)
    inputs = {"input": x, "k": const(2, I32)}
    check_op("TOP_K", inputs, {"axis": axis, "sorted": falling}, expected)


def test_top_k_of_version_1_is_of_the_first_axis() -> None:
    x = np.asarray([[3, 9, 1, 4], [7, 2, 8, 9]], F32)
    inputs = {"input": x, "k": const(1, I32)}
    check_op("TOP_K", inputs, {"sorted": True}, _top(x, 1, 0, rising=False), api=1)
