"""Reductions."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ops import reduce as r
from nnconv.ops.elementwise import Mul
from nnconv.ops.gather import TopK
from nnconv.ops.quantize import Cast

REDUCTIONS: dict[str, type[r.Reduction]] = {
    "REDUCE_ALL": r.ReduceAll,
    "REDUCE_L2": r.ReduceL2,
    "REDUCE_MAX": r.ReduceMax,
    "REDUCE_MEAN": r.ReduceMean,
    "REDUCE_MIN": r.ReduceMin,
    "REDUCE_PROD": r.ReduceProd,
    "REDUCE_SUM": r.ReduceSum,
}

LEAST_COEFF = 1e-5
"""A factor as small as this counts nothing."""


def import_reduction(s: Source) -> None:
    """REDUCE_*: over the axes, or from the first of them to the end, where a factor counts."""
    x, axes = s.operand("input"), s.ints("axis")
    keep = s.bool("keepDims")
    to_end = s.match.api > 1 and s.bool("reduceToEnd")
    coeff = s.float("coeff") if to_end else 0.0
    kind = REDUCTIONS[s.name]
    if axes is None:
        if to_end:
            raise s.unsupported("the first axis to reduce is computed at run time")
        s.emit(kind(axes=None, keep_dims=keep), [x, s.operand("axis")])
        return
    rank = s.rank(x)
    places = {s.axis(axis, rank) for axis in axes}
    if to_end:
        if not axes:
            raise s.fail("no axis to reduce from")
        places = set(range(s.axis(axes[0], rank), rank))
    op = kind(axes=tuple(sorted(places)), keep_dims=keep)
    if abs(coeff) <= LEAST_COEFF or s.name == "REDUCE_ALL":
        s.emit(op, [x])
        return
    value = s.add(op, [s.real(x)])
    dtype = value.dtype
    if not dtype.is_float:
        value = s.add(Cast(dtype=DType.FLOAT32), [value])
    value = s.add(Mul(), [value, s.scalar(coeff, value.dtype)])
    if not dtype.is_float:
        value = s.add(Cast(dtype=dtype), [value])
    s.emit_real(value)


def import_all(s: Source) -> None:
    """ALL."""
    x, axes = s.operand("input"), s.ints("axis")
    keep = s.int("keepDims") != 0
    if axes is None:
        s.emit(r.ReduceAll(axes=None, keep_dims=keep), [x, s.operand("axis")])
        return
    places = {s.axis(axis, s.rank(x)) for axis in axes}
    s.emit(r.ReduceAll(axes=tuple(sorted(places)), keep_dims=keep), [x])


def import_arg_max(s: Source) -> None:
    """ARG_MAX: the places of the greatest along an axis, or these themselves."""
    x = s.stored("input")
    rank = s.rank(x)
    axis, keep = s.axis(s.int("axis"), rank), s.bool("keepDims")
    count, wants_values = 1, False
    if s.match.api > 1:
        count, wants_values = s.positive("topK"), s.bool("outMaxValue")
    dtype = s.result_dtype()
    if dtype.is_float is not wants_values:
        what = "values" if wants_values else "indices"
        raise s.fail(f"the output is {dtype}, which {what} are not")
    if count == 1 and not wants_values:
        s.emit(r.ArgMax(axis=axis, dtype=dtype, keep_dims=keep), [s.integers(x)])
        return
    if count == 1:
        result = s.add(r.ReduceMax(axes=(axis,), keep_dims=keep), [s.real(x)])
    else:
        values, places = s.add_many(TopK(axis=axis, k=count, index_dtype=DType.INT32), [s.real(x)])
        result = values if wants_values else places
    s.bind(0, result if result.dtype is dtype else s.add(Cast(dtype=dtype), [result]))


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(REDUCTIONS, import_reduction),
    "ALL": import_all,
    "ARG_MAX": import_arg_max,
}
