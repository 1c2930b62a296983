"""Extents and ranges, which NNAPI has no operations for, by counting.

As exact as float32 counts, up to 2**24.
"""

from __future__ import annotations

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import Dim, TensorType, static_shape
from nnconv.ops import shape as s

_ROW = TensorType(DType.FLOAT32, (1,))


def export_shape_of(node: Node, t: Target) -> None:
    """The open extents are sums of ones."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.ShapeOf)
    if op.dtype is not DType.INT32:
        raise t.refused(f"NNAPI has no numbers of {op.dtype}")
    t.rank(x)
    shape = x.shape or ()
    extents = [shape[axis] for axis in (range(len(shape)) if op.dims is None else op.dims)]
    known = static_shape(tuple(extents))
    if known is not None:
        t.constant(y, np.asarray(known, np.int32))
        return
    axes = range(len(shape)) if op.dims is None else op.dims
    places = _zeros(t, x)
    counts = [
        t.const(np.asarray([extent], np.float32))
        if isinstance(extent, int)
        else _count(t, places, len(shape), axis, extent)
        for axis, extent in zip(axes, extents, strict=True)
    ]
    if len(counts) > 1:
        kind = TensorType(DType.FLOAT32, (len(counts),))
        counts = [t.result("CONCATENATION", {"inputs": counts, "axis": 0}, kind)]
    t.emit("CAST", {"input": counts[0]}, y)


def _zeros(t: Target, x: Value) -> Ref:
    """Zeros: of the open extents of x, the others are 1 or fall away; it may have a rank more.

    Nothing is known of the elements, which may be NaN, but that the greatest of one is the first.
    """
    shape = list(x.shape or ())
    cut: list[Dim] = [1 if isinstance(d, int) and d else d for d in shape]
    source = t.operand(x)
    if cut != shape:
        sizes = t.ints(1 if isinstance(d, int) and d else -1 for d in shape)
        begin = t.ints([0] * len(shape))
        kind = TensorType(x.dtype, tuple(cut), x.quant)
        source = t.result("SLICE", {"input": source, "begin": begin, "size": sizes}, kind)
    rest = cut
    if 1 in cut:
        axis = cut.index(1)
        rest = [*cut[:axis], *cut[axis + 1 :]]
    else:
        axis = len(cut)
        kind = TensorType(x.dtype, (*cut, 1), x.quant)
        source = t.result("EXPAND_DIMS", {"input": source, "axis": axis}, kind)
    kind = TensorType(DType.INT32, tuple(rest))
    places = t.result("ARGMAX", {"input": source, "axis": axis}, kind)
    if rest != cut:
        kind = TensorType(DType.INT32, tuple(cut))
        places = t.result("EXPAND_DIMS", {"input": places, "axis": axis}, kind)
    return t.result("CAST", {"input": places}, TensorType(DType.FLOAT32, tuple(cut)))


def _count(t: Target, zeros: Ref, rank: int, axis: int, extent: Dim) -> Ref:
    """An extent: along the other dimensions, which may be empty, the zeros count as one each."""
    row = TensorType(DType.FLOAT32, (extent,))
    others = [place for place in range(rank) if place != axis]
    if others:
        inputs = {"input": zeros, "axes": t.ints(others), "keep_dims": False}
        zeros = t.result("REDUCE_SUM", inputs, row)
    inputs = {"input0": zeros, "input1": t.const(np.ones(1, np.float32)), "activation": 0}
    ones = t.result("ADD", inputs, row)
    return t.result("REDUCE_SUM", {"input": ones, "axes": t.ints([0]), "keep_dims": True}, _ROW)


def export_range(node: Node, t: Target) -> None:
    """0, 1, ... below a limit: sums of as many ones, the states of a recurrence.

    A limit below 0 is as good as 0.
    """
    y, limit = node.outputs[0], node.operand(1)
    start, step = (node.operand(i).data for i in (0, 2))
    plain = start is not None and step is not None and not start.any() and (step == 1).all()
    if not plain or y.dtype is not DType.INT32:
        raise t.refused("NNAPI has no Range")
    one = t.const(np.ones((1, 1), np.float32))
    extent = (y.shape or (None,))[0]
    row, column = (TensorType(DType.FLOAT32, shape) for shape in ((extent,), (extent, 1, 1)))
    bounds = {"input0": limit, "input1": t.ints([0])}
    count = t.result("MAXIMUM", bounds, TensorType(DType.INT32, (1,)))
    ones = t.result("TILE", {"input": t.const(np.ones(1, np.float32)), "multiples": count}, row)
    inputs = {
        "input": t.result("RESHAPE", {"input": ones, "shape": t.ints((-1, 1, 1))}, column),
        "weights": one,
        "recurrent_weights": one,
        "bias": t.const(np.zeros(1, np.float32)),
        "hidden_state": t.const(np.full((1, 1), -1, np.float32)),
        "activation": 0,
        "time_major": 1,
    }
    sums = t.result("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, column)
    counts = t.result("RESHAPE", {"input": sums, "shape": t.ints((-1,))}, row)
    t.emit("CAST", {"input": counts}, y)
