"""Indexing ops on tensors whose extents aren't known before the run, and on empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder


def _case(
    label: str,
    op: str,
    operands: Sequence[Any],
    results: Sequence[Any],
    *,
    opset: int = 21,
    expected: Sequence[np.ndarray] | None = None,
    **options: Any,
) -> Case:
    """One op: an array is an input of unknown extents, a list of one array a constant."""
    feeds = [operand for operand in operands if isinstance(operand, np.ndarray)]

    def build(b: TfliteBuilder) -> None:
        made = []
        for i, operand in enumerate(operands):
            if isinstance(operand, np.ndarray):
                signature = (-1,) * operand.ndim
                kind, ones = operand.dtype.name, (1,) * operand.ndim
                made.append(b.input(f"x{i}", kind, ones, signature=signature))
            else:
                made.append(b.const(operand[0]))
        found = b.op(op, made, results, options=options)
        b.output(*(found if isinstance(found, list) else [found]))

    return Case(f"{op}-{label}", build, feeds, options={"opset": opset}, expected=expected)


F32 = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def _scalar(value: float, dtype: str = "int32") -> list[np.ndarray]:
    return [np.asarray(value, dtype)]


FLOAT, INT, LONG = ("float32", (1,)), ("int32", (1,)), ("int64", (1,))

CASES = [
    _case("axis", "GATHER", [F32, _ints(2, 0)], [FLOAT], axis=1),
    _case("batch", "GATHER", [F32, _ints([2, 0], [1, 1])], [FLOAT], axis=1, batch_dims=1),
    _case("batch-axis", "GATHER", [F32, _ints([2, 0], [3, 1])], [FLOAT], axis=2, batch_dims=1),
    _case("points", "GATHER_ND", [F32, [_ints([1, 2], [0, 0])]], [FLOAT]),
    _case("rows", "EMBEDDING_LOOKUP", [_ints(1, 0), [F32]], [FLOAT]),
    _case(
        "axis",
        "ONE_HOT",
        [_ints([1, -1], [3, 0]), _scalar(4), _scalar(1, "float32"), _scalar(0, "float32")],
        [FLOAT],
        axis=1,
    ),
    _case("k", "TOPK_V2", [F32, _scalar(2)], [FLOAT, INT]),
    _case("rank-3", "WHERE", [F32], [LONG]),
    _case("codes", "UNIQUE", [_ints(3, 1, 3)], [INT, INT], idx_out_type="INT32"),
    *(
        _case(
            f"updates-{opset}",
            "SCATTER_ND",
            [[_ints([1], [0], [1])], F32[:, :, 0].repeat(2, 0)[:3], [_ints(2, 3)]],
            [FLOAT],
            opset=opset,
        )
        for opset in (13, 21)
    ),
    _case(
        "one-value",
        "SPARSE_TO_DENSE",
        [_ints(3, 1), [_ints(5)], _scalar(2, "float32"), _scalar(-1, "float32")],
        [FLOAT],
    ),
    *(
        _case(
            f"{kind}-{opset}",
            f"UNSORTED_SEGMENT_{kind}",
            [F32, _ints(2, -1), _scalar(3)],
            [FLOAT],
            opset=opset,
        )
        for kind in ("SUM", "MAX")
        for opset in (13, 21)
    ),
    _case("rows", "SEGMENT_SUM", [F32, _ints(0, 1)], [FLOAT]),
    _case("bounds", "BUCKETIZE", [F32], [INT], boundaries=[3.5, 7]),
    _case(
        "max",
        "REDUCE_WINDOW",
        [F32, _scalar(1, "float32"), *([np.array(v)] for v in ((1, 2, 3), (1, 1, 2), (1, 1, 1)))],
        [FLOAT],
        reduce_function="MAXIMUM",
    ),
    *(
        _case(
            f"const-{opset}",
            "DILATE",
            [F32, [_ints(2, 1, 3)], _scalar(-1, "float32")],
            [FLOAT],
            opset=opset,
        )
        for opset in (13, 21)
    ),
    _case("run-time", "DILATE", [F32, _ints(2, 1, 3), _scalar(-1, "float32")], [FLOAT]),
]

EMPTY = np.zeros((0, 3), np.float32)
NO_ROWS = np.zeros(0, np.int32)

EMPTIES = [
    _case("table", "GATHER", [EMPTY, _ints(2)], [FLOAT], axis=1, expected=[EMPTY[:, :1]]),
    _case("picks", "GATHER", [F32, NO_ROWS], [FLOAT], axis=1, expected=[F32[:, :0]]),
    _case(
        "picks",
        "ONE_HOT",
        [NO_ROWS, _scalar(4), _scalar(1, "float32"), _scalar(0, "float32")],
        [FLOAT],
        axis=-1,
        expected=[np.zeros((0, 4), np.float32)],
    ),
    _case("x", "WHERE", [EMPTY], [LONG], expected=[np.zeros((0, 2), np.int64)]),
    _case("x", "UNIQUE", [NO_ROWS], [INT, INT], idx_out_type="INT32", expected=[NO_ROWS] * 2),
    _case("x", "BUCKETIZE", [EMPTY], [INT], boundaries=[1], expected=[EMPTY.astype(np.int32)]),
    _case(
        "k-0",
        "TOPK_V2",
        [F32, _scalar(0)],
        [FLOAT, INT],
        expected=[F32[..., :0], F32[..., :0].astype(np.int32)],
    ),
    *(
        _case(
            f"rows-{opset}",
            "UNSORTED_SEGMENT_MAX",
            [EMPTY, NO_ROWS, _scalar(2)],
            [FLOAT],
            opset=opset,
            expected=[np.full((2, 3), np.finfo(np.float32).min)],
        )
        for opset in (13, 21)
    ),
]
"""LiteRT's Python wrapper gives no empty tensors."""


@pytest.mark.parametrize("case", [*CASES, *EMPTIES], ids=str)
def test_unknown_extents(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
