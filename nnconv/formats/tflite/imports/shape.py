"""Ops that move, repeat or join elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.errors import plural
from nnconv.formats.tflite._gen.schema import TensorType as Code
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import Shape, shape_of_rank, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import shape as o
from nnconv.ops.elements import reshape_target
from nnconv.ops.quantize import Cast
from nnconv.ops.slices import Slice


def vector(s: Source, value: Value, count: int) -> Value:
    """An index operand as rank 1 with ``count`` elements."""
    if static_shape(value.shape) == (count,):
        return value
    return s.add(o.Reshape(shape=(count,)), [value])


def index_const(s: Source, items: Sequence[int], like: Value) -> Value:
    """A rank-1 constant of an index operand's type."""
    if not like.dtype.is_integer:
        raise s.unsupported(f"an index operand is {like.dtype}")
    return s.const(np.asarray(items, like.dtype.numpy))


def operand_type(s: Source, index: int, value: Value) -> Value:
    """``value`` in the type of index operand ``index``."""
    dtype = s.operand(index).dtype
    return value if value.dtype is dtype else s.add(Cast(dtype=dtype), [value])


def shape_vector(s: Source, x: Value, dtype: DType) -> Value:
    """The extents of ``x``: a constant where they are known."""
    dims = static_shape(x.shape)
    if dims is not None:
        return s.const(np.asarray(dims, dtype.numpy))
    if dtype in (DType.INT32, DType.INT64):
        return s.add(o.ShapeOf(dtype=dtype), [x])
    return s.add(Cast(dtype=dtype), [s.add(o.ShapeOf(), [x])])


# -------------------------------------------------------------------- shapes of one tensor


def import_reshape(s: Source) -> None:
    """RESHAPE: the shape is a rank-1 int32 operand, else the option, else any operand."""
    x, tensor = s.operand(0), s.tensor(1)
    stated = s.options.ints("new_shape")
    is_vector = tensor is not None and len(tensor.shape) == 1 and tensor.code == Code.INT32
    if tensor is None or (stated and not is_vector):
        target: Shape = () if stated == (0,) and not _is_empty(x) else stated
        if not stated and tensor is None:
            target = s.output_tensor().shape  # old converters leave both away
    else:
        target = s.dims(1)
        if target is None:
            length = s.operand(1).shape
            known = length[0] if length is not None and len(length) == 1 else None
            if known != 1:
                _emit_reshape(s, x, s.operand(1))
                return
            target = (None,)
    _reshape(s, x, target)


def _is_empty(x: Value) -> bool:
    return x.shape is not None and 0 in x.shape


def _reshape(s: Source, x: Value, target: Shape) -> None:
    assert target is not None
    shape = reshape_target(x.shape, target)
    if shape is None:
        _emit_reshape(s, x, s.operand(1), tuple(None if d == -1 else d for d in target))
    else:
        s.emit(o.Reshape(shape=shape), [x], shape=tuple(None if d == -1 else d for d in target))


def _emit_reshape(s: Source, x: Value, sizes: Value, known: Shape = None) -> None:
    count = s.operand(1).shape
    if sizes.shape is None or len(sizes.shape) != 1:
        total = static_shape(count)
        sizes = s.add(o.Reshape(shape=(-1 if total is None else int(np.prod(total)),)), [sizes])
    if known is None:
        stated = s.output_tensor().shape
        known = (None,) * len(stated) if stated else None
        length = sizes.shape[0] if sizes.shape else None
        if isinstance(length, int):
            known = shape_of_rank(length)
    s.emit(o.Reshape(shape=None), [x, sizes], shape=known)


def import_squeeze(s: Source) -> None:
    """SQUEEZE: no dimensions named means all of extent 1."""
    x = s.operand(0)
    rank = s.rank(x)
    named = s.options.ints("squeeze_dims")
    axes = {s.axis(axis, rank) for axis in named}
    if not named:
        axes = {i for i, d in enumerate(x.shape or ()) if d == 1}
    s.emit(o.Squeeze(axes=tuple(sorted(axes))), [x])


def import_expand_dims(s: Source) -> None:
    """EXPAND_DIMS."""
    x, axes = s.operand(0), s.ints(1)
    rank = s.rank(x) + 1
    if axes is not None:
        s.emit(o.Unsqueeze(axes=(s.axis(axes[0], rank),)), [x])
        return
    # the new shape is the old one cut in two at the axis
    axis = vector(s, s.operand(1), 1)
    zero = index_const(s, [0], axis)
    wrapped = s.add(e.Add(), [axis, index_const(s, [rank], axis)])
    place = s.add(e.Select(), [s.add(e.Less(), [axis, zero]), wrapped, axis])
    sizes = shape_vector(s, x, axis.dtype)
    head = s.add(Slice(starts=(0,), ends=None, strides=(1,)), [sizes, None, place])
    tail = s.add(Slice(starts=None, ends=(None,), strides=(1,)), [sizes, place, None])
    whole = s.add(o.Concat(axis=0), [head, index_const(s, [1], axis), tail])
    s.emit(o.Reshape(shape=None), [x, vector(s, whole, rank)], shape=(None,) * rank)


def import_transpose(s: Source) -> None:
    """TRANSPOSE."""
    x, perm = s.operand(0), s.ints(1)
    if perm is None:
        s.emit(o.Transpose(perm=None), [x, s.operand(1)])
        return
    s.emit(o.Transpose(perm=tuple(s.axis(p, len(perm)) for p in perm)), [x])


# -------------------------------------------------------------------- several tensors


def import_concatenation(s: Source) -> None:
    """CONCATENATION: of quantized parts with other parameters too."""
    parts = s.all_operands()
    ranks = [len(part.shape) for part in parts if part.shape is not None]
    if not ranks:
        raise s.unsupported("no operand's rank is known")
    axis = s.axis(s.options.int("axis"), ranks[0])
    s.emit(o.Concat(axis=axis, activation=s.activation()), parts)


def import_pack(s: Source) -> None:
    """PACK."""
    parts = s.all_operands()
    s.emit(o.Stack(axis=s.axis(s.options.int("axis"), s.rank(parts[0]) + 1)), parts)


def import_unpack(s: Source) -> None:
    """UNPACK: the count is that of the results."""
    x = s.operand(0)
    axis = s.axis(s.options.int("axis"), s.rank(x))
    s.emit(o.Unstack(axis=axis, count=len(s.op.outputs)), [x])


def import_split(s: Source) -> None:
    """SPLIT: equal parts."""
    x, axes = s.operand(1), s.ints(0)
    count, rank = len(s.op.outputs), s.rank(x)
    if axes is None:
        _split_at_run_time(s, x, count)
        return
    axis = s.axis(axes[0], rank)
    extent = x.shape[axis] if x.shape is not None else None
    if isinstance(extent, int):
        if extent % count:
            raise s.fail(f"extent {extent} doesn't split into {plural(count, 'equal part')}")
        s.emit(o.Split(axis=axis, sizes=(extent // count,) * count), [x])
        return
    sizes = shape_vector(s, x, DType.INT32)
    whole = s.add(Slice(starts=(axis,), ends=(axis + 1,), strides=(1,)), [sizes])
    part = s.add(e.FloorDiv(), [whole, s.const(np.asarray([count], np.int32))])
    sizes_of_parts = s.add(o.Tile(repeats=(count,)), [part])
    _split_by(s, x, axis, sizes_of_parts, count)


def import_split_v(s: Source) -> None:
    """SPLIT_V: the given sizes, of which one may be -1."""
    x, sizes = s.operand(0), s.ints(1)
    axis = s.axis(s.required_ints(2, "the axis")[0], s.rank(x))
    count = len(s.op.outputs)
    if sizes is None:
        _split_by(s, x, axis, vector(s, s.operand(1), count), count)
        return
    if len(sizes) != count:
        raise s.fail(f"{plural(len(sizes), 'size')} for {plural(count, 'result')}")
    extent = x.shape[axis] if x.shape is not None else None
    if -1 in sizes and isinstance(extent, int):
        rest = extent - sum(size for size in sizes if size >= 0)
        sizes = tuple(rest if size < 0 else size for size in sizes)
    s.emit(o.Split(axis=axis, sizes=sizes), [x])


def _split_by(s: Source, x: Value, axis: int, sizes: Value, count: int) -> None:
    """Parts of run-time sizes (one may be -1): a Slice each, from the sum of the sizes before."""
    rank = s.rank(x)
    extent = s.add(
        Slice(starts=(axis,), ends=(axis + 1,), strides=(1,)), [shape_vector(s, x, sizes.dtype)]
    )
    parts = [s.add(Slice(starts=(i,), ends=(i + 1,), strides=(1,)), [sizes]) for i in range(count)]
    zero, one = index_const(s, [0], sizes), index_const(s, [1], sizes)
    total = parts[0]
    for part in parts[1:]:
        total = s.add(e.Add(), [total, part])
    # with a -1 among them the sum is short by the rest and one
    rest = s.add(e.Sub(), [s.add(e.Sub(), [extent, total]), one])
    start = zero
    for index, part in enumerate(parts):
        size = s.add(e.Select(), [s.add(e.Less(), [part, zero]), rest, part])
        end = s.add(e.Add(), [start, size])
        before = index_const(s, [0] * axis, sizes)
        after = index_const(s, [0] * (rank - axis - 1), sizes)
        most = index_const(s, [np.iinfo(np.int32).max] * (rank - axis - 1), sizes)
        most_before = index_const(s, [np.iinfo(np.int32).max] * axis, sizes)
        starts = s.add(o.Concat(axis=0), [before, start, after])
        ends = s.add(o.Concat(axis=0), [most_before, end, most])
        piece = s.add(Slice(starts=None, ends=None, strides=(1,) * rank), [x, starts, ends])
        piece.type = piece.type.with_shape(
            tuple(None if i == axis else d for i, d in enumerate(x.shape or ()))
        )
        piece.name = s.output_tensor(index).name
        s.bind(index, piece)
        start = end


def _split_at_run_time(s: Source, x: Value, count: int) -> None:
    """Equal parts along an axis known at run time: a Slice each, of full rank."""
    rank = s.rank(x)
    axis = vector(s, operand_type(s, 0, s.operand(0)), 1)
    if axis.dtype is not DType.INT32:
        axis = s.add(Cast(dtype=DType.INT32), [axis])
    places = s.const(np.arange(rank, dtype=np.int32))
    wrapped = s.const(np.arange(rank, dtype=np.int32) - np.int32(rank))
    here = s.add(
        e.LogicalOr(), [s.add(e.Equal(), [places, axis]), s.add(e.Equal(), [wrapped, axis])]
    )
    dims = shape_vector(s, x, DType.INT32)
    part = s.add(e.FloorDiv(), [dims, s.const(np.asarray([count], np.int32))])
    zero = s.const(np.zeros(rank, np.int32))
    for index in range(count):
        bounds = [
            s.add(e.Mul(), [part, s.const(np.asarray([index + i], np.int32))]) for i in (0, 1)
        ]
        starts = s.add(e.Select(), [here, bounds[0], zero])
        ends = s.add(e.Select(), [here, bounds[1], dims])
        piece = s.add(Slice(starts=None, ends=None, strides=(1,) * rank), [x, starts, ends])
        piece.name = s.output_tensor(index).name
        s.bind(index, piece)


# -------------------------------------------------------------------- repeating


def import_tile(s: Source) -> None:
    """TILE."""
    x, repeats = s.operand(0), s.ints(1)
    s.emit(o.Tile(repeats=repeats), [x] if repeats is not None else [x, s.operand(1)])


def import_broadcast_to(s: Source) -> None:
    """BROADCAST_TO."""
    x, shape = s.operand(0), s.ints(1)
    if shape is not None:
        s.emit(o.BroadcastTo(shape=shape), [x])
    else:
        s.emit(o.BroadcastTo(shape=None), [x, s.operand(1)], shape=s.dims(1))


def import_fill(s: Source) -> None:
    """FILL."""
    shape, value = s.ints(0), s.operand(1)
    if shape is not None:
        s.emit(o.Fill(shape=shape), [value])
    else:
        s.emit(o.Fill(shape=None), [value, s.operand(0)], shape=s.dims(0))


def import_range(s: Source) -> None:
    """RANGE: known beforehand where all three operands are."""
    operands = s.all_operands()
    shape: Shape = (None,)
    if all(v.data is not None for v in operands):
        start, limit, step = (v.data.reshape(-1)[0] for v in operands if v.data is not None)
        if step == 0:
            raise s.fail("a step of 0")
        count = int(np.ceil((float(limit) - float(start)) / float(step)))
        if all(v.dtype.is_integer for v in operands):
            count = len(range(int(start), int(limit), int(step)))
        shape = (max(count, 0),)
    s.emit(o.Range(), operands, shape=shape)


# -------------------------------------------------------------------- about shapes


def import_shape(s: Source) -> None:
    """SHAPE: int32 or int64."""
    s.emit(o.ShapeOf(dtype=s.output_type().dtype), [s.operand(0)])


def import_rank(s: Source) -> None:
    """RANK."""
    s.emit(o.Rank(), [s.operand(0)])


def import_broadcast_args(s: Source) -> None:
    """BROADCAST_ARGS."""
    s.emit(o.BroadcastArgs(), [s.operand(0), s.operand(1)])


def import_densify(s: Source) -> None:
    """DENSIFY: a constant's elements are dense when they are read."""
    s.bind(0, s.operand(0))


IMPORTERS: dict[str, Importer] = {
    "RESHAPE": import_reshape,
    "SQUEEZE": import_squeeze,
    "EXPAND_DIMS": import_expand_dims,
    "TRANSPOSE": import_transpose,
    "CONCATENATION": import_concatenation,
    "PACK": import_pack,
    "UNPACK": import_unpack,
    "SPLIT": import_split,
    "SPLIT_V": import_split_v,
    "TILE": import_tile,
    "BROADCAST_TO": import_broadcast_to,
    "FILL": import_fill,
    "RANGE": import_range,
    "SHAPE": import_shape,
    "RANK": import_rank,
    "BROADCAST_ARGS": import_broadcast_args,
    "DENSIFY": import_densify,
}
