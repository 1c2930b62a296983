"""Reductions, and indices of extremes. NNAPI's results have at least one dimension."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
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
        # axes may name one dimension several times: the result's rank is only what the model says
        op, inputs = kind(axes=None, keep_dims=keep), [x, s.operand("axes")]
        result = TensorType(x.dtype, s.scope.type_of(s.output()).shape, s.result_quant())
        s.bind(0, s.builder.add_typed(op, inputs, [result])[0])
        return
    rank = s.rank(x)
    chosen = tuple(sorted({s.axis(axis, rank) for axis in axes}))
    _emit(s, kind(axes=chosen, keep_dims=keep), [x], whole=len(chosen) == rank and not keep)


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
