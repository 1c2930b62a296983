"""Picking elements by index, and putting them at indices."""

from __future__ import annotations

import numpy as np

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Mul
from nnconv.ops.gather import (
    Gather,
    GatherNd,
    NonZero,
    OneHot,
    Reduction,
    ScatterNd,
    TopK,
    Unique,
)
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.rewrite import reshaped
from nnconv.ops.shape import BroadcastTo, Fill, ShapeOf


def import_gather(s: Source) -> None:
    """GATHER: a negative axis counts from x's end, negative batch dimensions from the indices'."""
    x, indices = s.operand(0), s.operand(1)
    axis = s.axis(s.options.int("axis"), s.rank(x))
    batch = s.options.int("batch_dims")
    if batch < 0:
        batch += s.rank(indices)
    s.check_indices(indices, (x.shape or ())[axis : axis + 1])
    s.emit(Gather(axis=axis, batch_dims=batch), [x, indices])


def import_gather_nd(s: Source) -> None:
    """GATHER_ND."""
    table, indices = s.operand(0), s.operand(1)
    depth = indices.shape[-1] if indices.shape else None
    if isinstance(depth, int) and table.shape is not None and depth <= len(table.shape):
        s.check_indices(indices, table.shape[:depth])
    s.emit(GatherNd(), [table, indices])


def import_embedding_lookup(s: Source) -> None:
    """EMBEDDING_LOOKUP: rows of a table; an integer table may give float32 rows.

    Rows are picked before they are dequantized, so that a run touches only what it asks for.
    """
    ids, table = s.operand(0), s.operand(1)
    s.check_indices(ids, (table.shape or ())[:1])
    if not (table.dtype.is_integer and s.output_type().dtype is DType.FLOAT32):
        s.emit(Gather(axis=0), [table, ids])
        return
    quant = table.quant
    if quant is None:
        raise s.fail(f"`{table.name}` has no quantization parameters")
    if quant.block or quant.axis not in (None, 0):
        raise s.fail(f"`{table.name}` is quantized by {quant}, must be per tensor or per row")
    if quant.is_per_tensor and table.dtype is not DType.INT4:
        s.emit(Dequantize(dtype=DType.FLOAT32), [s.add(Gather(axis=0), [table, ids])])
        return
    _scaled_rows(s, ids, table, quant)


def _scaled_rows(s: Source, ids: Value, table: Value, quant: Quant) -> None:
    """Rows as raw numbers times their scales: for per-row scales, and for int4."""
    raw = Value(table.name, TensorType(table.dtype, table.shape), data=table.data)
    raw.origin = table.origin
    if table.data is None or any(quant.zero_point):
        raise s.unsupported(f"table `{table.name}`, which must be constant and symmetric")
    if table.dtype is DType.INT4:
        raw = s.add(Cast(dtype=DType.INT8), [raw])
    rows = s.add(Cast(dtype=DType.FLOAT32), [s.add(Gather(axis=0), [raw, ids])])
    scale = np.asarray(quant.scale, np.float32).reshape(-1, *[1] * (s.rank(table) - 1))
    if len(scale) == 1:
        s.emit(Mul(), [rows, s.const(scale.reshape(()))])
        return
    s.emit(Mul(), [rows, s.add(Gather(axis=0), [s.const(scale), ids])])


def _filled(s: Source, value: Value, shape_operand: int) -> Value:
    """A tensor full of ``value`` whose shape an operand gives."""
    shape = s.ints(shape_operand)
    if shape is not None:
        return s.add(Fill(shape=shape), [value])
    return s.add(Fill(shape=None), [value, s.operand(shape_operand)])


def import_scatter_nd(s: Source) -> None:
    """SCATTER_ND: updates that meet are added, as raw numbers, to raw 0."""
    indices, updates = s.operand(0), s.operand(1)
    zero = s.const(np.zeros((), updates.dtype.numpy))
    s.emit(ScatterNd(reduction=Reduction.ADD), [_filled(s, zero, 2), indices, updates])


def import_sparse_to_dense(s: Source) -> None:
    """SPARSE_TO_DENSE: indices of rank 0 or 1 are those of a vector; one value may serve all."""
    indices, values, default = s.operand(0), s.operand(2), s.operand(3)
    base = _filled(s, default, 1)
    if s.rank(indices) < 2:
        indices = reshaped(s.builder, indices, (-1, 1))
    if s.rank(values) == 0:
        values = _spread(s, values, indices)
    s.emit(ScatterNd(), [base, indices, values])


def _spread(s: Source, value: Value, indices: Value) -> Value:
    """One value for each index."""
    count = indices.shape[0] if indices.shape is not None else None
    if isinstance(count, int):
        return s.add(BroadcastTo(shape=(count,)), [value])
    extents = s.add(ShapeOf(dtype=DType.INT64), [indices])
    first = s.add(Gather(axis=0), [extents, s.const(np.zeros(1, np.int64))])
    return s.add(BroadcastTo(shape=None), [value, first])


def import_one_hot(s: Source) -> None:
    """ONE_HOT: operands indices, depth, on, off."""
    indices, on, off = s.operand(0), s.operand(2), s.operand(3)
    axis = s.axis(s.options.int("axis"), s.rank(indices) + 1)
    depth = s.ints(1)
    op = OneHot(axis=axis, depth=None if depth is None else depth[0])
    s.emit(op, [indices, on, off, s.operand(1) if depth is None else None])


def import_top_k(s: Source) -> None:
    """TOPK_V2: along the last dimension; the type of the indices is the result's."""
    x, k = s.operand(0), s.ints(1)
    op = TopK(
        axis=s.axis(-1, s.rank(x)),
        k=None if k is None else k[0],
        index_dtype=s.output_type(1).dtype,
    )
    s.emit(op, [x, s.operand(1) if k is None else None])


def import_where(s: Source) -> None:
    """WHERE with one operand: the coordinates of what is true."""
    s.emit(NonZero(), [s.operand(0)])


def import_unique(s: Source) -> None:
    """UNIQUE."""
    s.emit(Unique(index_dtype=s.output_type(1).dtype), [s.operand(0)])


IMPORTERS: dict[str, Importer] = {
    "GATHER": import_gather,
    "GATHER_ND": import_gather_nd,
    "EMBEDDING_LOOKUP": import_embedding_lookup,
    "SCATTER_ND": import_scatter_nd,
    "SPARSE_TO_DENSE": import_sparse_to_dense,
    "ONE_HOT": import_one_hot,
    "TOPK_V2": import_top_k,
    "WHERE": import_where,
    "UNIQUE": import_unique,
}
