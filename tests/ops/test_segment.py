"""Segments, sparse embeddings, buckets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import DType, TensorType
from nnconv.ops.gather import Reduction
from nnconv.ops.segment import Segment
from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

KINDS = ("SUM", "PROD", "MIN", "MAX")
DATA = np.arange(1, 31).reshape(5, 2, 3)


def _segment(
    kind: str,
    ids: Any,
    *,
    dtype: str = "float32",
    shape: Sequence[int] = (5, 2, 3),
    segments: int = 6,
    const_ids: bool = False,
    fed_count: bool = False,
    count_shape: tuple[int, ...] = (),
    opset: int | None = None,
) -> Case:
    numbers, count = np.asarray(ids, np.int32), np.full(count_shape, segments, np.int32)
    data = (np.arange(np.prod(shape)).reshape(shape) % 7 - 2).astype(dtype)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, shape)
        places = b.const(numbers) if const_ids else b.input("ids", "int32", numbers.shape)
        total = b.input("n", "int32", count_shape) if fed_count else b.const(count)
        result = (dtype, (segments, *shape[numbers.ndim :]))
        b.output(b.op(f"UNSORTED_SEGMENT_{kind}", [x, places, total], [result]))

    feeds = (data, *([] if const_ids else [numbers]), *([count] if fed_count else []))
    how = f"{'const' if const_ids else 'fed'}-{count_shape}{'-fed' if fed_count else ''}"
    options = {} if opset is None else {"opset": opset}
    label = f"{kind}-{dtype}-{np.ravel(numbers).tolist()}-{how}-{opset}"
    return Case(label, build, feeds, options=options)


SEGMENTS = [
    *(
        _segment(kind, [3, 0, 3, 5, 0], dtype=dtype, opset=opset)
        for kind in KINDS
        for dtype in ("float32", "int32")
        for opset in (None, 13, 17)
    ),
    *(_segment(kind, [3, -1, 3, 5, -4]) for kind in KINDS),
    *(_segment(kind, [3, -1, 3, 5, 0], const_ids=True) for kind in KINDS),
    _segment("SUM", [3, 1, 3, 5, 0], const_ids=True),
    _segment("MAX", [[3, 1], [3, 5], [0, 0], [-1, 2], [2, 2]]),
    _segment("SUM", [[3, 1], [3, 5], [0, 0], [-1, 2], [2, 2]], dtype="int32", opset=13),
    _segment("MIN", [3, 1, 3, 5, 0], shape=(5,)),
    *(
        _segment("PROD", [3, 1, 3, -5, 0], fed_count=True, count_shape=shape, opset=opset)
        for shape in ((), (1,))
        for opset in (None, 15)
    ),
]


@pytest.mark.parametrize("case", SEGMENTS, ids=str)
def test_unsorted_segment(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _segment_sum(dtype: str, shape: Sequence[int], *, const_ids: bool) -> Case:
    ids = np.array([0, 0, 1, 2, 2], np.int32)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, shape)
        places = b.const(ids) if const_ids else b.input("ids", "int32", ids.shape)
        b.output(b.op("SEGMENT_SUM", [x, places], [(dtype, (3, *shape[1:]))]))

    label = f"{dtype}-{len(shape)}d-{'const' if const_ids else 'fed'}"
    return Case(label, build, (None, *([] if const_ids else [ids])))


SEGMENT_SUMS = [
    _segment_sum(dtype, shape, const_ids=const_ids)
    for dtype in ("float32", "int32")
    for shape in ((5,), (5, 2, 3))
    for const_ids in (False, True)
]


@pytest.mark.parametrize("case", SEGMENT_SUMS, ids=str)
def test_segment_sum(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _sparse(
    combiner: str,
    *,
    indices: Any = ((0, 0), (2, 0), (2, 1)),
    dense: Sequence[int] = (3, 2),
    row: Sequence[int] = (5,),
    fed_shape: bool = False,
    fed_table: bool = False,
    opset: int | None = None,
) -> Case:
    places, sizes = np.asarray(indices, np.int32), np.asarray(dense, np.int32)
    table = np.random.default_rng(0).standard_normal((4, *row)).astype(np.float32)

    def build(b: TfliteBuilder) -> None:
        operands = [
            b.input("ids", "int32", (len(places),)),
            b.input("indices", "int32", places.shape),
            b.input("shape", "int32", sizes.shape) if fed_shape else b.const(sizes),
            b.input("weights", "float32", (len(places),)),
            b.input("table", "float32", table.shape) if fed_table else b.const(table),
        ]
        result = ("float32", (*dense[:-1], *row))
        options = {"combiner": combiner}
        b.output(b.op("EMBEDDING_LOOKUP_SPARSE", operands, [result], options=options))

    feeds = (
        np.array([1, 3, 0], np.int32),
        places,
        *([sizes] if fed_shape else []),
        np.array([1, 2.5, 0.5], np.float32),
        *([table] if fed_table else []),
    )
    label = f"{combiner}-{len(dense)}d-row{len(row)}d-{fed_shape}-{fed_table}-{opset}"
    return Case(label, build, feeds, options={} if opset is None else {"opset": opset})


DEEP: dict[str, Any] = {"indices": ((0, 0, 0), (1, 1, 0), (1, 1, 1)), "dense": (2, 3, 2)}

SPARSES = [
    *(_sparse(kind, opset=opset) for kind in ("SUM", "MEAN", "SQRTN") for opset in (None, 13)),
    *(_sparse(kind, **DEEP, row=(2, 3)) for kind in ("SUM", "MEAN", "SQRTN")),
    *(_sparse(kind, fed_shape=True, fed_table=True) for kind in ("SUM", "MEAN")),
]


@pytest.mark.parametrize("case", SPARSES, ids=str)
def test_embedding_lookup_sparse(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _bucketize(dtype: str, values: Any, boundaries: Sequence[float]) -> Case:
    array = np.asarray(values, dtype)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, array.shape)
        options = {"boundaries": list(boundaries)}
        b.output(b.op("BUCKETIZE", [x], [("int32", array.shape)], options=options))

    return Case(f"{dtype}-{array.ndim}d-{len(boundaries)}", build, (array,))


BUCKETS = [
    *(
        _bucketize(dtype, [[0, 1, 2], [3, 4, -7]], (0.5, 1, 1.5, 3))
        for dtype in ("float32", "float64", "int32", "int64")
    ),
    _bucketize("float32", [0, 1, 1.5, 2, 3, np.nan, -np.inf, np.inf], (1, 2, 3)),
    _bucketize("float64", [0.1, 0.3, np.float64(np.float32(0.3))], (0.1, 0.3)),
    _bucketize("int32", [2**24 + 1, 2**24 + 3, 2**24 + 4], (2.0**24, 2.0**24 + 4)),
    _bucketize("int64", [2**40 + 1, 2**40 - 1], (0.5, 2.0**40)),
    _bucketize("float32", 2.5, (1, 2)),
    _bucketize("float32", [[1, 2]], ()),
]


@pytest.mark.parametrize("case", BUCKETS, ids=str)
def test_bucketize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_ids_that_do_not_fit_are_refused() -> None:
    data, ids = TensorType(DType.FLOAT32, (5, 2)), TensorType(DType.INT32, (4,))
    with pytest.raises(ValueError, match="their extents must agree"):
        Segment(reduction=Reduction.ADD, num_segments=3).infer([data, ids])
    with pytest.raises(ValueError, match="isn't one of segments"):
        Segment(reduction=Reduction.AND, num_segments=3).infer([data, ids])
