"""Reductions, and indices of extremes. NNAPI's results have at least one dimension."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
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
    """A reduction along axes computed at run time, which may name one dimension several times.

    What is left of the dimensions then is only what the model says of the output.
    """
    inputs = [x, s.operand("axes")]
    extents = s.output().dimensions
    if keep or extents.count(0) > 1 or not extents:
        s.emit(kind(axes=None, keep_dims=keep), inputs)
        return
    whole = s.add(kind(axes=None, keep_dims=True), inputs, quant=s.result_quant())
    s.emit(Reshape(shape=tuple(extent or -1 for extent in extents)), [whole])


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
