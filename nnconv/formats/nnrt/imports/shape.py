"""Operations that make, move, repeat or join elements."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.imports.quantize import LITE_CODES
from nnconv.ir.dtype import DType
from nnconv.ir.types import element_count
from nnconv.ops import shape as o
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceProd


def import_concat(s: Source) -> None:
    """CONCAT: quantized parts may have parameters of their own."""
    parts = s.operands()
    s.emit(o.Concat(axis=s.axis(s.int("axis"), s.rank(parts[0]))), parts)


def import_stack(s: Source) -> None:
    """STACK."""
    parts = s.operands()
    s.emit(o.Stack(axis=s.axis(s.int("axis"), s.rank(parts[0]) + 1)), parts)


def import_unstack(s: Source) -> None:
    """UNSTACK: an output for each index of the axis."""
    x = s.operand("input")
    axis = s.axis(s.int("axis"), s.rank(x))
    count, extent = len(s.op.outputs), (x.shape or ())[axis]
    if isinstance(extent, int) and extent != count:
        raise s.fail(f"{plural(count, 'output')} for an extent of {extent}")
    s.emit(o.Unstack(axis=axis, count=count), [x])


def import_split(s: Source) -> None:
    """SPLIT: equal parts, or parts of given sizes."""
    x, count = s.operand("input"), s.positive("outputNum")
    axis = s.axis(s.int("axis"), s.rank(x))
    if count != len(s.op.outputs):
        raise s.fail(f"{plural(count, 'part')} for {plural(len(s.op.outputs), 'output')}")
    extent, sizes = (x.shape or ())[axis], s.list("sizeSplits")
    if sizes:
        if len(sizes) != count or min(sizes) < 1:
            raise s.fail(f"sizes {list(sizes)} for {plural(count, 'part')}")
        if isinstance(extent, int) and sum(sizes) != extent:
            raise s.fail(f"sizes {list(sizes)} for an extent of {extent}")
    else:
        if not isinstance(extent, int):
            raise s.unsupported(f"the extent of axis {axis} isn't known")
        if extent % count:
            raise s.fail(f"extent {extent} doesn't split into {plural(count, 'equal part')}")
        sizes = (extent // count,) * count
    s.emit(o.Split(axis=axis, sizes=sizes), [x])


def import_reshape(s: Source) -> None:
    """RESHAPE: one extent may be -1."""
    x, target = s.operand("input"), s.ints("InputShape")
    if target is None:
        s.emit(o.Reshape(shape=None), [x, s.operand("InputShape")])
        return
    if min(target, default=0) < -1 or sum(extent == -1 for extent in target) > 1:
        raise s.fail(f"shape {list(target)}, one extent at most may be -1")
    s.emit(o.Reshape(shape=target), [x])


def import_flatten(s: Source) -> None:
    """FLATTEN: a matrix of the dimensions before the axis and of those behind."""
    x = s.operand("input")
    rank, axis = s.rank(x), s.int("axis")
    if not -rank <= axis <= rank:
        raise s.fail(f"axis {axis} is out of range for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    shape = x.shape or ()
    rows, columns = element_count(shape[:axis]), element_count(shape[axis:])
    if rows is not None or columns is not None:
        target = (-1 if rows is None else rows, -1 if columns is None else columns)
        s.emit(o.Reshape(shape=target), [x])
        return
    extents = s.add(o.ShapeOf(dtype=DType.INT64, dims=tuple(range(axis))), [x])
    counts = [s.add(ReduceProd(axes=(0,), keep_dims=True), [extents]), s.const(np.array([-1]))]
    s.emit(o.Reshape(shape=None), [x, s.add(o.Concat(axis=0), counts)])


def import_squeeze(s: Source) -> None:
    """SQUEEZE: all extents of 1 where no axes are given; the result's rank tells how many."""
    x = s.operand("input")
    rank, extents = s.rank(x), x.shape or ()
    axes = tuple(sorted({s.axis(axis, rank) for axis in s.list("axis")}))
    if not axes:
        axes = tuple(i for i, extent in enumerate(extents) if extent == 1)
        left = len(s.output().dimensions)
        if None in extents and left != max(rank - len(axes), 1):
            raise s.unsupported("which extents are 1 isn't known")
    s.emit(o.Squeeze(axes=axes), [x])


def import_unsqueeze(s: Source) -> None:
    """UNSQUEEZE."""
    x = s.operand("input")
    (axis,) = s.list("axis", 1)
    s.emit(o.Unsqueeze(axes=(s.axis(axis, s.rank(x) + 1),)), [x])


def import_expand_dims(s: Source) -> None:
    """EXPAND_DIMS."""
    x, axis = s.operand("input"), s.number("axis")
    if axis is None:
        raise s.unsupported("the axis is computed at run time")
    s.emit(o.Unsqueeze(axes=(s.axis(axis, s.rank(x) + 1),)), [x])


def import_transpose(s: Source) -> None:
    """TRANSPOSE."""
    x, perm = s.operand("input"), s.ints("permutation")
    if perm is None:
        s.emit(o.Transpose(perm=None), [x, s.operand("permutation")])
        return
    if sorted(perm) != list(range(len(perm))):
        raise s.fail(f"permutation {list(perm)} is none")
    s.emit(o.Transpose(perm=perm), [x])


def import_tile(s: Source) -> None:
    """TILE: dimensions that the input lacks come first."""
    x, repeats = s.operand("input"), s.ints("multiples")
    rank = s.rank(x)
    if repeats is None:
        s.emit(o.Tile(repeats=None), [x, s.operand("multiples")])
        return
    if len(repeats) < rank or min(repeats, default=1) < 1:
        raise s.fail(f"multiples {list(repeats)} for rank {rank}")
    if len(repeats) > rank:
        x = s.add(o.Unsqueeze(axes=tuple(range(len(repeats) - rank))), [x], quant=x.quant)
    s.emit(o.Tile(repeats=repeats), [x])


def import_broadcast_to(s: Source) -> None:
    """BROADCAST_TO."""
    s.emit(o.BroadcastTo(shape=_extents(s, s.list("shape"), "shape")), [s.operand("input")])


def import_fill(s: Source) -> None:
    """FILL."""
    value, shape = s.operand("value"), s.ints("shape")
    if shape is None:
        s.emit(o.Fill(shape=None), [value, s.operand("shape")])
    else:
        s.emit(o.Fill(shape=_extents(s, shape, "shape")), [value])


def _extents(s: Source, extents: tuple[int, ...], name: str) -> tuple[int, ...]:
    if min(extents, default=0) < 0:
        raise s.fail(f"{name} {list(extents)}, allowed are 0 and more")
    return extents


def import_constant_of_shape(s: Source) -> None:
    """CONSTANT_OF_SHAPE: the type is that of the output, as the parameter must say."""
    code, kind = s.int("dataType"), s.output().data_type
    if code != int(kind) and LITE_CODES.get(code) is not kind:
        raise s.fail(f"dataType is {code}, the output is {kind.name}")
    data = s.param("value")
    if data is None or data.size != 1:
        count = 0 if data is None else data.size
        raise s.fail(f"parameter value has {plural(count, 'element')}, must have 1")
    value = s.scalar(float(data[0]), s.result_dtype())
    shape = s.ints("input")
    if shape is None:
        s.emit(o.Fill(shape=None), [value, s.operand("input")])
    else:
        s.emit(o.Fill(shape=_extents(s, shape, "input")), [value])


def import_range(s: Source) -> None:
    """RANGE: the bounds are parameters, the input counts nothing."""
    start, limit, delta = s.int("start"), s.int("limit"), s.int("delta")
    if delta == 0:
        raise s.fail("delta is 0")
    dtype = s.result_dtype()
    count = max(-((start - limit) // delta), 0)
    if count > MOST_NUMBERS:
        raise s.fail(f"{plural(count, 'number')}, at most {MOST_NUMBERS} are possible")
    numbers = (start + delta * np.arange(count, dtype=np.int64)).astype(dtype.numpy)
    s.bind(0, s.const(numbers))


MOST_NUMBERS = 1 << 28
"""More elements than any tensor of a range has in earnest."""


def import_shape(s: Source) -> None:
    """SHAPE."""
    s.emit(o.ShapeOf(dtype=s.result_dtype()), [s.operand("input")])


def import_rank(s: Source) -> None:
    """RANK."""
    rank = s.add(o.Rank(), [s.operand("input")])
    dtype = s.result_dtype()
    s.bind(0, rank if dtype is DType.INT32 else s.add(Cast(dtype=dtype), [rank]))


IMPORTERS: dict[str, Importer] = {
    "BROADCAST_TO": import_broadcast_to,
    "CONCAT": import_concat,
    "CONSTANT_OF_SHAPE": import_constant_of_shape,
    "EXPAND_DIMS": import_expand_dims,
    "FILL": import_fill,
    "FLATTEN": import_flatten,
    "RANGE": import_range,
    "RANK": import_rank,
    "RESHAPE": import_reshape,
    "SHAPE": import_shape,
    "SPLIT": import_split,
    "SQUEEZE": import_squeeze,
    "STACK": import_stack,
    "TILE": import_tile,
    "TRANSPOSE": import_transpose,
    "UNSQUEEZE": import_unsqueeze,
    "UNSTACK": import_unstack,
}
