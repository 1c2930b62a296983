"""Reductions along axes, running sums, and indices of extremes."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import (
    CODES8,
    FLOAT32,
    NO_TYPES,
    Exporter,
    Target,
)
from nnconv.formats.tflite.types import CODES
from nnconv.ir.dtype import BOOLS, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import reduce as r

NAMES: dict[type[Op], str] = {
    r.ReduceMean: "MEAN",
    r.ReduceSum: "SUM",
    r.ReduceProd: "REDUCE_PROD",
    r.ReduceMax: "REDUCE_MAX",
    r.ReduceMin: "REDUCE_MIN",
    r.ReduceAny: "REDUCE_ANY",
    r.ReduceAll: "REDUCE_ALL",
}

_NUMBERS = FLOAT32 | {DType.INT32, DType.INT64}

_OF_BOOLS: dict[type[Op], str] = {r.ReduceMax: "REDUCE_ANY", r.ReduceMin: "REDUCE_ALL"}

_CODES: dict[type[Op], frozenset[DType]] = {
    r.ReduceMean: CODES8,
    r.ReduceMax: CODES8,
    r.ReduceMin: CODES8,
}
"""Codes that kernels take; SUM's reference kernel is wrong, 16-bit ones are slow."""

MOST_RANK = 6
"""Of more dimensions XNNPACK refuses the file."""


def export_reduction(node: Node, t: Target) -> None:
    """A reduction; extremes of codes want the result's parameters."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.Reduction)
    name, plain = NAMES[type(op)], _NUMBERS
    if x.dtype is DType.BOOL:
        name, plain = _OF_BOOLS.get(type(op), name), BOOLS
    codes = _CODES.get(type(op), NO_TYPES)
    if isinstance(op, r.ReduceMean) and node.origin.format == "tflite":
        codes |= {DType.INT16}  # slow, but what the source had
    t.require(node, plain=plain, codes=codes)
    if op.axes == ():
        raise t.refused("nothing is reduced")
    if x.type.rank is not None and x.type.rank > MOST_RANK:
        raise t.refused(f"{name} takes up to {MOST_RANK} dimensions")
    if _is_of_nothing(op, x):
        raise t.refused(f"{name} of no elements")
    if op.axes is not None:
        axes = t.ints(op.axes)
    else:
        given = node.operand(1)
        if given.shape == (0,):
            raise t.refused("no axes are named")
        axes = t.index(given)
    if y.quant is not None and isinstance(op, r.ReduceMax | r.ReduceMin):
        data = t.requantized(x, y.quant, y.dtype)
    elif y.quant is not None and x.dtype is not y.dtype:
        raise t.to_floats(f"{x.type} becomes {y.type}")
    else:
        data = t.tensor(x)
    version = 2 if y.quant is not None else 1
    t.emit(name, [data, axes], y, ("ReducerOptions", {"keep_dims": op.keep_dims}), version=version)


def _is_of_nothing(op: r.Reduction, x: Value) -> bool:
    """Whether there is nothing along a reduced dimension, and kernels give something else."""
    if isinstance(op, r.ReduceSum | r.ReduceProd) or x.dtype is DType.BOOL or x.shape is None:
        return False
    return 0 in (x.shape if op.axes is None else (x.shape[axis] for axis in op.axes))


def export_lacking(node: Node, t: Target) -> None:
    """A reduction that TFLite lacks: of float32 or of wide integers it is decomposed."""
    t.require(node, plain=FLOAT32 | {DType.INT32, DType.UINT32, DType.INT64, DType.UINT64})
    raise t.refused(f"TFLite has no {node.op.name}")


def export_arg_extreme(node: Node, t: Target) -> None:
    """ARG_MAX, ARG_MIN: the first of equals, without the dimension."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, r.ArgMax | r.ArgMin)
    t.require(node, plain=FLOAT32 | CODES8 | {DType.INT32, DType.BOOL}, codes=CODES8)
    if op.last:
        raise t.refused("the last of equals is wanted")
    if op.keep_dims:
        raise t.refused("the dimension is kept")
    if y.dtype not in (DType.INT32, DType.INT64):
        raise t.refused(f"indices are {y.dtype}")
    name, table = ("ARG_MAX", "ArgMaxOptions")
    if isinstance(op, r.ArgMin):
        name, table = ("ARG_MIN", "ArgMinOptions")
    options = (table, {"output_type": CODES[y.dtype]})
    version = 2 if x.dtype in CODES8 else 1
    t.emit(name, [t.tensor(x), t.scalar(op.axis)], y, options, version=version)


def export_cumsum(node: Node, t: Target) -> None:
    """CUMSUM."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, r.CumSum)
    t.require(node, plain=_NUMBERS)
    if op.axis is not None:
        axis = t.scalar(op.axis)
    else:
        given = node.operand(1)
        axis = t.index(given)
    options = ("CumsumOptions", {"exclusive": op.exclusive, "reverse": op.reverse})
    t.emit("CUMSUM", [t.tensor(x), axis], node.outputs[0], options)


def export_cumprod(node: Node, t: Target) -> None:
    """Running products, which TFLite lacks."""
    t.require(node, plain=_NUMBERS)
    raise t.refused("TFLite has no running product")


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_reduction),
    **dict.fromkeys(
        (r.ReduceL1, r.ReduceL2, r.ReduceSumSquare, r.ReduceLogSum, r.ReduceLogSumExp),
        export_lacking,
    ),
    r.ArgMax: export_arg_extreme,
    r.ArgMin: export_arg_extreme,
    r.CumSum: export_cumsum,
    r.CumProd: export_cumprod,
}
