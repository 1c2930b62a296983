"""Reductions, running sums, and indices of extremes."""

from __future__ import annotations

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ops import reduce as r

REDUCTIONS: dict[str, type[r.Reduction]] = {
    "MEAN": r.ReduceMean,
    "SUM": r.ReduceSum,
    "REDUCE_PROD": r.ReduceProd,
    "REDUCE_MAX": r.ReduceMax,
    "REDUCE_MIN": r.ReduceMin,
    "REDUCE_ANY": r.ReduceAny,
    "REDUCE_ALL": r.ReduceAll,
}

EXTREMES: dict[str, type[r.ArgMax | r.ArgMin]] = {"ARG_MAX": r.ArgMax, "ARG_MIN": r.ArgMin}

_LOGICAL: dict[str, type[r.Reduction]] = {
    "SUM": r.ReduceAny,
    "REDUCE_MAX": r.ReduceAny,
    "REDUCE_PROD": r.ReduceAll,
    "REDUCE_MIN": r.ReduceAll,
}
"""What LiteRT's reductions come to on truth values."""


def import_reduction(s: Source) -> None:
    """MEAN, SUM, REDUCE_*: axes may repeat, be negative or none at all; a scalar has none."""
    x, axes = s.operand(0), s.ints(1)
    kind = REDUCTIONS[s.op.name]
    if x.dtype is DType.BOOL:
        kind = _LOGICAL.get(s.op.name, kind)
    keep_dims = s.options.bool("keep_dims")
    if axes is None:
        s.emit(kind(axes=None, keep_dims=keep_dims), [x, s.operand(1)])
        return
    rank = s.rank(x)
    chosen = {s.axis(axis, rank) for axis in axes} if rank else set()
    s.emit(kind(axes=tuple(sorted(chosen)), keep_dims=keep_dims), [x])


def import_extreme(s: Source) -> None:
    """ARG_MAX, ARG_MIN: the result's type counts, the option may be left out."""
    x = s.operand(0)
    (axis,) = s.required_ints(1, "the axis") or (0,)
    op: Op = EXTREMES[s.op.name](axis=s.axis(axis, s.rank(x)), dtype=s.output_type().dtype)
    s.emit(op, [x])


def import_cumsum(s: Source) -> None:
    """CUMSUM."""
    x, axes = s.operand(0), s.ints(1)
    options = s.options
    op = r.CumSum(
        axis=None if axes is None else s.axis(axes[0] if axes else 0, s.rank(x)),
        exclusive=options.bool("exclusive"),
        reverse=options.bool("reverse"),
    )
    s.emit(op, [x, s.operand(1)] if axes is None else [x])


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(REDUCTIONS, import_reduction),
    **dict.fromkeys(EXTREMES, import_extreme),
    "CUMSUM": import_cumsum,
}
