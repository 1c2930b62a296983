"""Ops that pick elements by index, or put them at indices."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import Shape
from nnconv.ops import gather as g
from nnconv.ops.quantize import LooseCast
from nnconv.ops.shape import Split


def _indices(src: Source, place: int, extents: Shape) -> tuple[Value, bool]:
    """Index operand, and whether it may count from the end.

    There is one extent for all indices, or one for each place along their last axis. Constants are
    checked, and brought to count from the front where the extents are known.
    """
    value = src.operand(place)
    data = value.data
    if data is None or not extents:
        return value, value.dtype.is_signed and src.scope.file.source == "onnx"
    src.check_indices(value, extents)
    columns = data.reshape(-1, len(extents)).astype(np.int64)
    if not columns.size:
        return value, False
    moved = columns.copy()
    for column, extent in enumerate(extents):
        if isinstance(extent, int):
            moved[:, column] += extent * (columns[:, column] < 0)
    if moved.min() < 0:
        return value, True
    if columns.min() >= 0:
        return value, False
    return src.const(moved.reshape(data.shape).astype(data.dtype), value.name), False


def import_gather(src: Source) -> None:
    """Gather."""
    x, axis = src.operand(0), src.int("axis", 0)
    if x.shape is not None or axis < 0:
        axis = src.axis(axis, src.rank(x))
    indices, from_end = _indices(src, 1, (x.shape or ())[axis : axis + 1])
    src.emit(g.Gather(axis=axis, from_end=from_end), [x, indices])


def import_gather_elements(src: Source) -> None:
    """GatherElements."""
    x = src.operand(0)
    axis = src.axis(src.int("axis", 0), src.rank(x))
    indices, _ = _indices(src, 1, (x.shape or ())[axis : axis + 1])
    src.emit(g.GatherElements(axis=axis), [x, indices])


def _depth(indices: Value) -> int | None:
    dim = indices.shape[-1] if indices.shape else None
    return dim if isinstance(dim, int) else None


def import_gather_nd(src: Source) -> None:
    """GatherND."""
    x, batch = src.operand(0), src.int("batch_dims", 0)
    depth = _depth(src.operand(1))
    known = depth is not None and x.shape is not None and batch >= 0
    extents = x.shape[batch : batch + (depth or 0)] if known and x.shape is not None else None
    whole = extents is not None and len(extents) == depth
    indices, from_end = _indices(src, 1, extents if whole else None)
    src.emit(g.GatherNd(batch_dims=batch, from_end=from_end), [x, indices])


_REDUCTIONS = {
    "none": g.Reduction.NONE,
    "add": g.Reduction.ADD,
    "mul": g.Reduction.MUL,
    "min": g.Reduction.MIN,
    "max": g.Reduction.MAX,
}


def _reduction(src: Source) -> g.Reduction:
    name = src.text("reduction", "none")
    found = _REDUCTIONS.get(name)
    if found is None:
        raise src.fail(f"reduction {name!r} isn't one")
    return found


def import_scatter_nd(src: Source) -> None:
    """ScatterND."""
    x = src.operand(0)
    depth = _depth(src.operand(1))
    extents = x.shape[:depth] if depth is not None and x.shape is not None else None
    whole = extents is not None and len(extents) == depth
    indices, from_end = _indices(src, 1, extents if whole else None)
    op = g.ScatterNd(reduction=_reduction(src), from_end=from_end)
    src.emit(op, [x, indices, src.operand(2)])


def import_scatter_elements(src: Source) -> None:
    """ScatterElements, and Scatter, its older name."""
    x = src.operand(0)
    axis = src.axis(src.int("axis", 0), src.rank(x))
    op = g.ScatterElements(axis=axis, reduction=_reduction(src))
    indices, _ = _indices(src, 1, (x.shape or ())[axis : axis + 1])
    src.emit(op, [x, indices, src.operand(2)])


def import_tensor_scatter(src: Source) -> None:
    """TensorScatter."""
    x = src.operand(0)
    axis = src.axis(src.int("axis", -2), src.rank(x))
    mode = src.text("mode", "linear")
    if mode not in ("linear", "circular"):
        raise src.fail(f"mode {mode!r} isn't one")
    op = g.TensorScatter(axis=axis, circular=mode == "circular")
    operands = [x, src.operand(1)]
    starts = src.optional(2)
    src.emit(op, operands if starts is None else [*operands, starts])
    _check_starts(src, op, operands)


def _check_starts(src: Source, op: g.TensorScatter, operands: list[Value]) -> None:
    """See that what constant starts say fits."""
    starts = src.constant(2)
    extents = [(v.shape or (None,) * (op.axis + 1))[op.axis] for v in operands]
    room, count = extents
    if starts is None or not starts.size or not isinstance(room, int) or not isinstance(count, int):
        return
    last = room - 1 if op.circular else room - count
    if starts.min() < 0 or starts.max() > last:
        raise src.fail(f"starts {starts.tolist()} for {count} of {plural(room, 'place')}")


def import_one_hot(src: Source) -> None:
    """OneHot: the two values come in one operand, off first."""
    indices, values = src.operand(0), src.operand(2)
    if indices.dtype.is_float:
        indices = src.add(LooseCast(dtype=DType.INT64), [indices])
    axis = src.axis(src.int("axis", -1), src.rank(indices) + 1)
    depth = None
    given = src.constant(1)
    if given is not None and given.size == 1:
        depth = int(given.reshape(()))
        if depth < 0:
            raise src.fail(f"a depth of {depth}")
    op = g.OneHot(axis=axis, depth=depth, from_end=indices.dtype.is_signed)
    operands = [indices, *_on_and_off(src, values)]
    if depth is None:
        count = src.operand(1)
        if count.dtype.is_float:
            count = src.add(LooseCast(dtype=DType.INT64), [count])
        operands.append(count)
    src.emit(op, operands)


def _on_and_off(src: Source, values: Value) -> list[Value]:
    if values.shape not in (None, (2,)):
        raise src.fail(f"values are {values.type}, must be two")
    if values.data is None:
        off, on = src.add_many(Split(axis=0, sizes=(1, 1)), [values])
        return [on, off]
    return [src.const(values.data[i], quant=values.quant, dtype=values.dtype) for i in (1, 0)]


def import_top_k(src: Source) -> None:
    """TopK: k as an attribute before opset 10; largest and sorted from 11 on."""
    x = src.operand(0)
    axis = src.axis(src.int("axis", -1), src.rank(x))
    operands = [x]
    if src.version < 10:
        k: int | None = src.int("k")
    else:
        known = src.ints(1)
        k = known[0] if known is not None and len(known) == 1 else None
        if k is None:
            operands.append(src.operand(1))
    if k is not None and k < 0:
        raise src.fail(f"k is {k}")
    op = g.TopK(
        axis=axis,
        k=k,
        index_dtype=DType.INT64,
        largest=bool(src.int("largest", 1)),
        sorted=bool(src.int("sorted", 1)),
    )
    src.emit(op, operands)


def import_non_zero(src: Source) -> None:
    """NonZero."""
    src.emit(g.NonZero(by_axis=True), [src.operand(0)])


def import_unique(src: Source) -> None:
    """Unique."""
    x, axis = src.operand(0), None
    if src.has("axis"):
        axis = src.axis(src.int("axis"), src.rank(x))
    src.emit(g.UniqueSlices(axis=axis, sorted=bool(src.int("sorted", 1))), [x])


def import_compress(src: Source) -> None:
    """Compress."""
    x, axis = src.operand(0), None
    if src.has("axis"):
        axis = src.axis(src.int("axis"), src.rank(x))
    src.emit(g.Compress(axis=axis), [x, src.operand(1)])


IMPORTERS: dict[str, Importer] = {
    "Gather": import_gather,
    "GatherElements": import_gather_elements,
    "GatherND": import_gather_nd,
    "Scatter": import_scatter_elements,
    "ScatterElements": import_scatter_elements,
    "ScatterND": import_scatter_nd,
    "TensorScatter": import_tensor_scatter,
    "OneHot": import_one_hot,
    "TopK": import_top_k,
    "NonZero": import_non_zero,
    "Unique": import_unique,
    "Compress": import_compress,
}
