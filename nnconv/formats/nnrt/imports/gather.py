"""Picking elements by index, and putting them there."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import Shape
from nnconv.ops.gather import Gather, GatherNd, OneHot, Reduction, ScatterNd, TopK
from nnconv.ops.quantize import Cast
from nnconv.ops.rewrite import reshaped
from nnconv.ops.shape import Fill
from nnconv.ops.slices import Reverse


def _addressed(indices: Value, table: Value) -> Shape:
    """The extents that tuples of indices count along."""
    return (table.shape or ())[: indices.data.shape[-1]] if indices.data is not None else ()


def import_gather(s: Source) -> None:
    """GATHER."""
    x, indices, number = s.operand("input"), s.operand("inputIndices"), s.number("axis")
    if number is None:
        raise s.unsupported("the axis is computed at run time")
    axis = s.axis(number, s.rank(x))
    s.check_indices(indices, (x.shape or ())[axis : axis + 1], from_end=False)
    s.emit(Gather(axis=axis), [x, indices])


def import_gather_nd(s: Source) -> None:
    """GATHER_ND."""
    x, indices = s.operand("input"), s.operand("indices")
    s.check_indices(indices, _addressed(indices, x))
    s.emit(GatherNd(), [x, indices])


def import_one_hot(s: Source) -> None:
    """ONE_HOT: an axis of -1 is the last of the result."""
    indices, on, off = (s.operand(name) for name in ("indices", "onValue", "offValue"))
    axis = s.axis(s.int("axis"), s.rank(indices) + 1)
    on, off = reshaped(s.builder, on, ()), reshaped(s.builder, off, ())
    depth = s.number("depth")
    if depth is None:
        s.emit(OneHot(axis=axis, depth=None), [indices, on, off, s.operand("depth")])
        return
    if depth < 1:
        raise s.fail(f"depth is {depth}, must be above 0")
    s.emit(OneHot(axis=axis, depth=depth), [indices, on, off])


def import_top_k(s: Source) -> None:
    """TOP_K: the greatest along an axis; unless they are sorted, in rising order."""
    x, k = s.operand("input"), s.number("k")
    axis = s.axis(s.int("axis") if s.match.api > 1 else 0, s.rank(x))
    extent = (x.shape or ())[axis]
    if k is not None and (k < 1 or (isinstance(extent, int) and k > extent)):
        raise s.fail(f"k is {k} for an extent of {extent}")
    inputs = [x] if k is not None else [x, s.operand("k")]
    if s.bool("sorted"):
        s.emit(TopK(axis=axis, k=k), inputs)
        return
    for place, value in enumerate(s.add_many(TopK(axis=axis, k=k), inputs)):
        s.bind(place, s.add(Reverse(axes=(axis,)), [value]))


def _zeros(s: Source, shape: str, like: Value) -> Value:
    """A tensor of zeros, as codes, whose extents an input tells."""
    zero = s.const(np.zeros((), like.dtype.numpy))
    extents = s.ints(shape)
    if extents is None:
        return s.add(Fill(shape=None), [zero, s.operand(shape)])
    if min(extents, default=0) < 0:
        raise s.fail(f"{shape} {list(extents)}, allowed are 0 and more")
    return s.add(Fill(shape=extents), [zero])


def import_scatter_nd(s: Source) -> None:
    """SCATTER_ND: into zeros; where several updates meet, they are added."""
    indices, updates = s.operand("indices"), s.integers(s.stored("updates"))
    whole = updates.dtype is DType.BOOL
    if whole:
        updates = s.add(Cast(dtype=DType.INT32), [updates])
    base = _zeros(s, "shape", updates)
    s.check_indices(indices, _addressed(indices, base))
    op = ScatterNd(reduction=Reduction.ADD)
    if whole:
        s.emit(Cast(dtype=DType.BOOL), [s.add(op, [base, indices, updates])])
    else:
        s.emit(op, [base, indices, updates])


def import_sparse_to_dense(s: Source) -> None:
    """SPARSE_TO_DENSE: into zeros."""
    indices, values = s.of_rank(s.operand("indices"), 2), s.integers(s.stored("values"))
    base = _zeros(s, "sparseShape", values)
    s.check_indices(indices, _addressed(indices, base))
    s.emit(ScatterNd(), [base, indices, values])


IMPORTERS: dict[str, Importer] = {
    "GATHER": import_gather,
    "GATHER_ND": import_gather_nd,
    "ONE_HOT": import_one_hot,
    "SCATTER_ND": import_scatter_nd,
    "SPARSE_TO_DENSE": import_sparse_to_dense,
    "TOP_K": import_top_k,
}
