"""Reductions along axes, running sums and products, and indices of extremes."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops import reduce as r

REDUCTIONS: dict[str, type[r.Reduction]] = {
    "ReduceL1": r.ReduceL1,
    "ReduceL2": r.ReduceL2,
    "ReduceLogSum": r.ReduceLogSum,
    "ReduceLogSumExp": r.ReduceLogSumExp,
    "ReduceMax": r.ReduceMax,
    "ReduceMean": r.ReduceMean,
    "ReduceMin": r.ReduceMin,
    "ReduceProd": r.ReduceProd,
    "ReduceSum": r.ReduceSum,
    "ReduceSumSquare": r.ReduceSumSquare,
}


def import_reduction(s: Source) -> None:
    """A reduction: axes are an attribute before opset 18 (ReduceSum: 13), then an operand.

    Where there are none, all are meant, or none with ``noop_with_empty_axes``.
    """
    kind, x = REDUCTIONS[s.node.op_type], s.operand(0)
    keep = bool(s.int("keepdims", 1))
    noop = bool(s.int("noop_with_empty_axes", 0))
    given, known = _axes(s)
    if given is not None and known is None:
        s.emit(kind(axes=None, keep_dims=keep, all_if_empty=not noop), [x, given])
        return
    if x.shape is None:  # axes then stay an operand, which may count from behind
        named = s.const(np.asarray(known or (), np.int64))
        s.emit(kind(axes=None, keep_dims=keep, all_if_empty=not noop), [x, named])
        return
    rank = len(x.shape)
    if known:
        axes = tuple(sorted({s.axis(axis, rank) for axis in known}))
    else:
        axes = () if noop else tuple(range(rank))
    s.emit(kind(axes=axes, keep_dims=keep), [x])


def _axes(s: Source) -> tuple[Value | None, tuple[int, ...] | None]:
    """The operand that gives the axes, if there is one, and the axes as far as they are known."""
    since = 13 if s.node.op_type == "ReduceSum" else 18
    if s.version < since:
        return None, s.int_list("axes")
    given = s.optional(1)
    if given is None:
        return None, None
    if given.shape is not None and 0 in given.shape:
        return given, ()
    return given, s.ints(1)


def import_arg_extreme(s: Source) -> None:
    """ArgMax, ArgMin."""
    x = s.operand(0)
    kind = r.ArgMax if s.node.op_type == "ArgMax" else r.ArgMin
    op = kind(
        axis=s.axis(s.int("axis", 0), s.rank(x)),
        dtype=DType.INT64,
        keep_dims=bool(s.int("keepdims", 1)),
        last=bool(s.int("select_last_index", 0)),
    )
    s.emit(op, [x])


def import_running(s: Source) -> None:
    """CumSum, CumProd: the axis is an operand."""
    x, axis = s.operand(0), s.ints(1)
    kind = r.CumSum if s.node.op_type == "CumSum" else r.CumProd
    flags = {"exclusive": bool(s.int("exclusive", 0)), "reverse": bool(s.int("reverse", 0))}
    if axis is None:
        s.emit(kind(axis=None, **flags), [x, s.operand(1)])
        return
    if len(axis) != 1:
        raise s.fail(f"{plural(len(axis), 'axis', 'axes')} are given, must be one")
    s.emit(kind(axis=s.axis(axis[0], s.rank(x)), **flags), [x])


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(REDUCTIONS, import_reduction),
    "ArgMax": import_arg_extreme,
    "ArgMin": import_arg_extreme,
    "CumSum": import_running,
    "CumProd": import_running,
}
