"""Reductions, and indices of extremes. NNAPI's results have at least one dimension."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ir.types import element_count
from nnconv.ops import reduce as r
from nnconv.ops.shape import Reshape

REDUCTIONS: dict[str, type[r.Reduction]] = {
    "MEAN": r.ReduceMean,
    "REDUCE_ALL": r.ReduceAll,
    "REDUCE_ANY": r.ReduceAny,
    "REDUCE_MAX": r.ReduceMax,
    "REDUCE_MIN": r.ReduceMin,
    "REDUCE_PROD": r.ReduceProd,
    "REDUCE_SUM": r.ReduceSum,
}

EXTREMES: dict[str, type[r.ArgMax | r.ArgMin]] = {"ARGMAX": r.ArgMax, "ARGMIN": r.ArgMin}


def import_reduction(s: Source) -> None:
    """MEAN, REDUCE_*: axes may repeat and be negative."""
    x, axes = s.operand("input"), s.ints("axes")
    keep = s.int("keep_dims") > 0
    kind = REDUCTIONS[s.name]
    if axes is None:
        _reduce_open(s, kind, x, keep=keep)
        return
    rank = s.rank(x)
    chosen = tuple(sorted({s.axis(axis, rank) for axis in axes}))
    _emit(s, kind(axes=chosen, keep_dims=keep), [x], whole=len(chosen) == rank and not keep)


def _reduce_open(s: Source, kind: type[r.Reduction], x: Value, *, keep: bool) -> None:
    """A reduction along axes computed at run time."""
    inputs = [x, s.operand("axes")]
    extents = None if keep else left_without(s, x, inputs[1])
    if extents is None:
        s.emit(kind(axes=None, keep_dims=keep), inputs)
        return
    whole = s.add(kind(axes=None, keep_dims=True), inputs, quant=s.result_quant())
    s.emit(Reshape(shape=extents), [whole])


def left_without(s: Source, x: Value, axes: Value) -> tuple[int, ...] | None:
    """What is left of dimensions without axes that are computed at run time; -1 is the rest.

    They may name one dimension several times, and all of them, where one stays: unless it is a
    single axis, only what the model says of the output tells how many stay. None where each axis
    takes away a dimension, and others are left.

    Raises:
        NotConvertible: the model doesn't say enough.
    """
    stated, count = s.output().dimensions, element_count(axes.shape)
    left = None if x.type.rank is None or count is None else x.type.rank - count
    if stated and stated.count(0) <= 1:
        return tuple(extent or -1 for extent in stated)
    if count == 1 and left == 0:
        return (1,)
    if left is not None and left > 0 and (count == 1 or len(stated) == left):
        return None
    raise s.unsupported(
        "its axes are computed at run time, and may repeat",
        hint="State the output's dimensions, or how many there are.",
    )


def import_extreme(s: Source) -> None:
    """ARGMAX, ARGMIN."""
    x = s.operand("input")
    rank = s.rank(x)
    _emit(s, EXTREMES[s.name](axis=s.axis(s.int("axis"), rank)), [x], whole=rank == 1)


def _emit(s: Source, op: Op, inputs: list[Value | None], *, whole: bool) -> None:
    """The op's result; one without dimensions gets one."""
    if not whole:
        s.emit(op, inputs)
        return
    number = s.add(op, inputs, quant=s.result_quant())
    s.emit(Reshape(shape=(1,)), [number])


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(REDUCTIONS, import_reduction),
    **dict.fromkeys(EXTREMES, import_extreme),
}
