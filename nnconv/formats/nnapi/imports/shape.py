"""Operations that move, repeat or join elements."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.imports.reduce import left_without
from nnconv.ir.graph import Value
from nnconv.ir.types import static_shape
from nnconv.ops import shape as o
from nnconv.ops.dynamic import DynamicSqueeze


def import_reshape(s: Source) -> None:
    """RESHAPE: one extent may be -1."""
    x, target = s.operand("input"), s.ints("shape")
    if target is None:
        s.emit(o.Reshape(shape=None), [x, s.operand("shape")])
        return
    if sum(extent < 0 for extent in target) > 1:
        raise s.fail(f"shape {list(target)} leaves more than one extent open")
    s.emit(o.Reshape(shape=target), [x])


def import_squeeze(s: Source) -> None:
    """SQUEEZE: all extents of 1 where no axes are given; one dimension always stays."""
    x = s.operand("input")
    rank = s.rank(x)
    extents = x.shape or ()
    if s.has("axes"):
        named = s.ints("axes")
        if named is None:
            _squeeze_open(s, x, s.operand("axes"))
            return
        axes = tuple(sorted({s.axis(axis, rank) for axis in named}))
    else:
        if any(not isinstance(extent, int) for extent in extents):
            raise s.unsupported("which extents are 1 isn't known")
        axes = tuple(i for i, extent in enumerate(extents) if extent == 1)
    if len(axes) == rank:
        s.emit(o.Reshape(shape=(1,)), [x])
        return
    s.emit(o.Squeeze(axes=axes), [x])


def _squeeze_open(s: Source, x: Value, axes: Value) -> None:
    """SQUEEZE of axes computed at run time."""
    extents = left_without(s, x, axes)
    if extents is None:
        s.emit(DynamicSqueeze(), [x, axes])
    else:
        s.emit(o.Reshape(shape=extents), [x])


def import_expand_dims(s: Source) -> None:
    """EXPAND_DIMS."""
    x = s.operand("input")
    s.emit(o.Unsqueeze(axes=(s.axis(s.int("axis"), s.rank(x) + 1),)), [x])


def import_transpose(s: Source) -> None:
    """TRANSPOSE: without a permutation the two dimensions of a matrix change places."""
    x = s.operand("input")
    if not s.has("perm"):
        if s.rank(x) != 2:
            raise s.fail(f"perm is left out for rank {s.rank(x)}, which only rank 2 allows")
        s.emit(o.Transpose(perm=(1, 0)), [x])
        return
    perm = s.ints("perm")
    if perm is None:
        s.emit(o.Transpose(perm=None), [x, s.operand("perm")])
        return
    if sorted(perm) != list(range(len(perm))):
        raise s.fail(f"perm {list(perm)} is no permutation")
    s.emit(o.Transpose(perm=perm), [x])


def import_concatenation(s: Source) -> None:
    """CONCATENATION: an axis from the front; quantized parts may have parameters of their own."""
    parts, axis = s.operands("inputs"), s.int("axis")
    ranks = [len(part.shape) for part in parts if part.shape is not None]
    if not ranks:
        raise s.unsupported("no input's rank is known")
    if not 0 <= axis < ranks[0]:
        raise s.fail(f"axis {axis} is out of range for rank {ranks[0]}")
    s.emit(o.Concat(axis=axis), parts)


def import_pack(s: Source) -> None:
    """PACK."""
    parts = s.operands("inputs")
    s.emit(o.Stack(axis=s.axis(s.int("axis"), s.rank(parts[0]) + 1)), parts)


def import_split(s: Source) -> None:
    """SPLIT: equal parts, as many as there are outputs."""
    x, count = s.operand("input"), s.int("count")
    axis = s.axis(s.int("axis"), s.rank(x))
    if count != len(s.op.outputs):
        raise s.fail(f"{plural(count, 'part')} for {plural(len(s.op.outputs), 'output')}")
    extent = (x.shape or ())[axis]
    if not isinstance(extent, int):
        raise s.unsupported(f"the extent of axis {axis} isn't known")
    if extent % count:
        raise s.fail(f"extent {extent} doesn't split into {plural(count, 'equal part')}")
    s.emit(o.Split(axis=axis, sizes=(extent // count,) * count), [x])


def import_tile(s: Source) -> None:
    """TILE."""
    x, repeats = s.operand("input"), s.ints("multiples")
    if repeats is None:
        s.emit(o.Tile(repeats=None), [x, s.operand("multiples")])
    else:
        s.emit(o.Tile(repeats=repeats), [x])


def import_channel_shuffle(s: Source) -> None:
    """CHANNEL_SHUFFLE: the axis as a matrix of groups, whose dimensions change places."""
    x, groups = s.operand("input"), s.positive("groups")
    rank = s.rank(x)
    axis = s.axis(s.int("axis"), rank)
    shape = static_shape(x.shape)
    if shape is None:
        raise s.unsupported("an extent isn't known")
    if shape[axis] % groups:
        raise s.fail(
            f"{plural(shape[axis], 'channel')} can't be split into {plural(groups, 'group')}"
        )
    cut = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    perm = [*range(rank + 1)]
    perm[axis], perm[axis + 1] = axis + 1, axis
    parts = s.add(o.Reshape(shape=cut), [x])
    s.emit(o.Reshape(shape=shape), [s.add(o.Transpose(perm=tuple(perm)), [parts])])


def import_rank(s: Source) -> None:
    """RANK: a scalar."""
    s.emit(o.Rank(), [s.operand("input")])


def import_fill(s: Source) -> None:
    """FILL."""
    value, dims = s.operand("value"), s.ints("dims")
    if dims is None:
        s.emit(o.Fill(shape=None), [value, s.operand("dims")])
        return
    if min(dims, default=0) < 0:
        raise s.fail(f"dims {list(dims)}, allowed are 0 and more")
    s.emit(o.Fill(shape=dims), [value])


IMPORTERS: dict[str, Importer] = {
    "CHANNEL_SHUFFLE": import_channel_shuffle,
    "CONCATENATION": import_concatenation,
    "EXPAND_DIMS": import_expand_dims,
    "FILL": import_fill,
    "PACK": import_pack,
    "RANK": import_rank,
    "RESHAPE": import_reshape,
    "SPLIT": import_split,
    "SQUEEZE": import_squeeze,
    "TILE": import_tile,
    "TRANSPOSE": import_transpose,
}
