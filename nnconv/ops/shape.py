"""Ops that move, repeat, cut or join elements without computing on them."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.ir.dtype import ANY, INTEGERS, NUMBERS, DType
from nnconv.ir.op import (
    Activation,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Types,
    index_operand,
    op_class,
    operand_type,
    require_one_type,
)
from nnconv.ir.types import (
    Dim,
    Shape,
    TensorType,
    broadcast_shapes,
    element_count,
    may_be_equal,
    merge_shapes,
    normalize_axis,
)
from nnconv.ops.moves import Move, given_shape, length_of, moved
from nnconv.ops.spatial import is_sorted, joined_dims, perm_between, reshaped_dims, usual_perms


class Identity(Move):
    """x. Kept only where a graph output must be another tensor than an input or constant."""

    layout_kind = LayoutKind.TRANSPARENT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (operand_type(types, 0),)


@op_class
class Reshape(Move):
    """The same elements in row-major order under another shape.

    ``shape`` may hold one -1; None: operand ``shape`` (rank 1) gives it at run time.
    TFLite RESHAPE, ONNX Reshape (allowzero off, no zeros), NNAPI RESHAPE, NNRt RESHAPE.
    """

    operands = (Operand("x", ANY), index_operand("shape"))
    layout_kind = LayoutKind.ATTRIBUTE

    shape: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if self.shape is None:
            return moved(x, given_shape(types))
        return moved(x, reshaped_dims(x.shape, self.shape))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        x, result = operand_type(types, 0).shape, self.infer(types)[0].shape
        if self.shape is None or x is None or result is None or len(x) != len(perm):
            return None
        follows = perm_between(x, perm, result)
        if follows is None:
            return None
        return self._to([result[p] for p in follows], types, perm, follows)

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        x, result = operand_type(types, 0).shape, self.infer(types)[0].shape
        if self.shape is None or x is None or result is None or len(result) != len(perm):
            return None
        before = perm_between(result, perm, x)
        if before is None:
            return None
        return self._to([result[p] for p in perm], types, before, perm)

    def _to(self, dims: list[Dim], types: Types, before: Perm, after: Perm) -> Permuted | None:
        """The reshape to a shape, between data in other orders."""
        if sum(not isinstance(dim, int) for dim in dims) > 1:
            return None
        op = self.replace(shape=tuple(dim if isinstance(dim, int) else -1 for dim in dims))
        orders = [None if is_sorted(perm) else perm for perm in (before, after)]
        return Permuted(op, (orders[0],) + (None,) * (len(types) - 1), (orders[1],))


@op_class
class Squeeze(Move):
    """Takes out the given dimensions, whose extents must be 1; axes count from the front.

    TFLite SQUEEZE, ONNX Squeeze, NNAPI SQUEEZE, NNRt SQUEEZE.
    """

    layout_kind = LayoutKind.ATTRIBUTE

    axes: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        for axis in self.axes:
            if not 0 <= axis < len(x.shape):
                raise ValueError(f"axis {axis} is out of range for rank {len(x.shape)}")
            if isinstance(x.shape[axis], int) and x.shape[axis] != 1:
                raise ValueError(f"dimension {axis} has extent {x.shape[axis]}, must have 1")
        return moved(x, tuple(d for i, d in enumerate(x.shape) if i not in self.axes))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        left = [p for p in perm if p not in self.axes]
        follows = tuple(sorted(left).index(p) for p in left)
        op = self.replace(axes=tuple(sorted(perm.index(axis) for axis in self.axes)))
        return Permuted(op, (perm,), (None if is_sorted(follows) else follows,))

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        rank = operand_type(types, 0).rank
        if rank is None or rank - len(self.axes) != len(perm):
            return None
        found = (self.permute(before, types) for before in usual_perms(rank))
        return next((p for p in found if p is not None and p.results == (perm,)), None)


@op_class
class Unsqueeze(Move):
    """Puts in dimensions of extent 1, at the given places of the result; axes count from the front.

    TFLite EXPAND_DIMS, ONNX Unsqueeze, NNAPI EXPAND_DIMS, NNRt UNSQUEEZE.
    """

    layout_kind = LayoutKind.ATTRIBUTE

    axes: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        rank = len(x.shape) + len(self.axes)
        if any(not 0 <= axis < rank for axis in self.axes):
            raise ValueError(f"axes {list(self.axes)} are out of range for rank {rank}")
        rest = iter(x.shape)
        return moved(x, tuple(1 if i in self.axes else next(rest) for i in range(rank)))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        old = [i for i in range(len(perm) + len(self.axes)) if i not in self.axes]
        order = [old[p] for p in perm]
        for follows in usual_perms(len(perm) + len(self.axes)):
            if [p for p in follows if p in old] == order:
                op = self.replace(axes=tuple(sorted(follows.index(axis) for axis in self.axes)))
                return Permuted(op, (perm,), (None if is_sorted(follows) else follows,))
        return None

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        rank = operand_type(types, 0).rank
        if rank is None or rank + len(self.axes) != len(perm):
            return None
        old = [i for i in range(len(perm)) if i not in self.axes]
        before = tuple(old.index(p) for p in perm if p in old)
        op = self.replace(axes=tuple(sorted(perm.index(axis) for axis in self.axes)))
        return Permuted(op, (None if is_sorted(before) else before,), (perm,))


@op_class
class Transpose(Move):
    """New dimension i is old dimension perm[i]. None: operand ``perm`` gives it at run time.

    TFLite TRANSPOSE, ONNX Transpose, NNAPI TRANSPOSE, NNRt TRANSPOSE.
    """

    operands = (Operand("x", ANY), index_operand("perm"))
    layout_kind = LayoutKind.ATTRIBUTE

    perm: Perm | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if self.perm is None:
            return moved(x, None if x.shape is None else (None,) * len(x.shape))
        if sorted(self.perm) != list(range(len(self.perm))):
            raise ValueError(f"{list(self.perm)} is no permutation")
        if x.shape is None:
            return moved(x, (None,) * len(self.perm))
        if len(x.shape) != len(self.perm):
            raise ValueError(f"perm {list(self.perm)} doesn't fit rank {len(x.shape)}")
        return moved(x, tuple(x.shape[p] for p in self.perm))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.perm is None or len(self.perm) != len(perm):
            return None
        remapped = tuple(perm.index(p) for p in self.perm)
        return Permuted(self.replace(perm=remapped), (perm,), (None,))

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        if self.perm is None or len(self.perm) != len(perm):
            return None
        before = tuple(self.perm[p] for p in perm)
        op = self.replace(perm=tuple(range(len(perm))))
        return Permuted(op, (None if is_sorted(before) else before,), (perm,))

    def between(self, before: Perm, after: Perm) -> Transpose:
        """The op for an operand that came transposed by one, whose result goes out by the other."""
        assert self.perm is not None
        return self.replace(perm=tuple(before.index(self.perm[p]) for p in after))


@op_class
class Concat(Op):
    """Operands joined along ``axis`` (counted from the front).

    Quantized: operands of other parameters are brought to the result's. TFLite CONCATENATION, ONNX
    Concat, NNAPI CONCATENATION, NNRt CONCAT.
    """

    operands = (Operand("parts", ANY, variadic=True),)
    layout_kind = LayoutKind.ATTRIBUTE

    axis: int
    activation: Activation = Activation.NONE

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        first = operand_type(types, 0)
        require_one_type(types)
        shapes = [operand_type(types, i).shape for i in range(len(types))]
        known = [shape for shape in shapes if shape is not None]
        dims = joined_dims(known, self.axis) if len(known) == len(shapes) else None
        return (TensorType(first.dtype, dims),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if any(t is None or t.rank != len(perm) for t in types):
            return None
        op = self.replace(axis=perm.index(self.axis))
        return Permuted(op, (perm,) * len(types), (perm,))


@op_class
class Stack(Move):
    """Operands of one shape joined along a new dimension ``axis`` of the result.

    TFLite PACK, NNRt STACK; ONNX Unsqueeze, Concat.
    """

    operands = (Operand("parts", ANY, variadic=True),)

    axis: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        first = operand_type(types, 0)
        require_one_type(types)
        shapes = [operand_type(types, i).shape for i in range(len(types))]
        shape: Shape = first.shape
        for other in shapes[1:]:
            if shape is not None and other is not None:
                if not may_be_equal(shape, other):
                    raise ValueError(f"operands have shapes {shape} and {other}, must be equal")
                shape = merge_shapes(shape, other)
        if shape is None:
            return moved(first, None)
        axis = normalize_axis(self.axis, len(shape) + 1)
        return moved(first, (*shape[:axis], len(types), *shape[axis:]))


@op_class
class Unstack(Move):
    """``count`` slices of extent 1 along ``axis``, without that dimension.

    TFLite UNPACK, NNRt UNSTACK; ONNX Split, Squeeze.
    """

    axis: int
    count: int

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None) * self.count
        axis = normalize_axis(self.axis, len(x.shape))
        if isinstance(x.shape[axis], int) and x.shape[axis] != self.count:
            raise ValueError(f"dimension {axis} has extent {x.shape[axis]}, not {self.count}")
        return moved(x, (*x.shape[:axis], *x.shape[axis + 1 :])) * self.count


@op_class
class Split(Move):
    """Consecutive parts along ``axis`` of the given ``sizes``; one may be -1 (the rest).

    TFLite SPLIT and SPLIT_V, ONNX Split, NNAPI SPLIT, NNRt SPLIT.
    """

    layout_kind = LayoutKind.ATTRIBUTE

    axis: int
    sizes: tuple[int, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None) * len(self.sizes)
        if not 0 <= self.axis < len(x.shape):
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        extent, given = x.shape[self.axis], sum(s for s in self.sizes if s >= 0)
        rest = extent - given if isinstance(extent, int) else None
        if rest is not None and (rest < 0 or (rest > 0 and -1 not in self.sizes)):
            raise ValueError(f"parts {list(self.sizes)} don't make up extent {extent}")
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        dims = (rest if size < 0 else size for size in self.sizes)
        return tuple(kind for dim in dims for kind in moved(x, (*before, dim, *after)))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axis=perm.index(self.axis))
        return Permuted(op, (perm,), (perm,) * len(self.sizes))


@op_class
class Tile(Move):
    """Each dimension repeated; None: operand ``repeats`` (rank 1) gives the counts at run time.

    TFLite TILE, ONNX Tile, NNAPI TILE, NNRt TILE.
    """

    operands = (Operand("x", ANY), index_operand("repeats"))
    layout_kind = LayoutKind.ATTRIBUTE

    repeats: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        if self.repeats is None:
            count = element_count(operand_type(types, 1).shape)
            if count not in (None, len(x.shape)):
                raise ValueError(f"{plural(count, 'repeat')} for rank {len(x.shape)}")
            return moved(x, (None,) * len(x.shape))
        if len(self.repeats) != len(x.shape):
            raise ValueError(f"{plural(len(self.repeats), 'repeat')} for rank {len(x.shape)}")
        pairs = zip(x.shape, self.repeats, strict=True)
        times = (d * r if isinstance(d, int) else d if r == 1 else None for d, r in pairs)
        return moved(x, tuple(times))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.repeats is None or len(self.repeats) != len(perm):
            return None
        op = self.replace(repeats=tuple(self.repeats[p] for p in perm))
        return Permuted(op, (perm,), (perm,))


@op_class
class BroadcastTo(Move):
    """x broadcast to a shape; None: operand ``shape`` (rank 1) gives it at run time.

    TFLite BROADCAST_TO, ONNX Expand, NNRt BROADCAST_TO.
    """

    operands = (Operand("x", ANY), index_operand("shape"))
    layout_kind = LayoutKind.ATTRIBUTE

    shape: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if self.shape is None:
            return moved(x, given_shape(types))
        if x.shape is not None:
            broadcast_shapes((x.shape, self.shape))
        return moved(x, self.shape)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        rank = operand_type(types, 0).rank
        if self.shape is None or len(self.shape) != len(perm) or rank is None or rank > len(perm):
            return None
        op = self.replace(shape=tuple(self.shape[p] for p in perm))
        return Permuted(op, (perm,) + (None,) * (len(types) - 1), (perm,))


@op_class
class ShapeOf(Op):
    """The extents of x, rank 1, of ``dtype``: of all dimensions, or of ``dims`` in that order.

    TFLite SHAPE, ONNX Shape, NNRt SHAPE.
    """

    operands = (Operand("x", ANY),)
    layout_kind = LayoutKind.ATTRIBUTE
    quant_rule = QuantRule.EXACT

    dtype: DType = DType.INT32
    dims: tuple[int, ...] | None = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        count = x.rank if self.dims is None else len(self.dims)
        return (TensorType(self.dtype, (count,)),)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        dims = range(len(perm)) if self.dims is None else self.dims
        return Permuted(self.replace(dims=tuple(perm.index(d) for d in dims)), (perm,), (None,))


class Rank(Op):
    """How many dimensions x has, an int32 scalar. TFLite RANK, NNAPI RANK, NNRt RANK."""

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        operand_type(types, 0)
        return (TensorType(DType.INT32, ()),)


class Size(Op):
    """How many elements x has, an int64 scalar. ONNX Size."""

    operands = (Operand("x", ANY),)
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        operand_type(types, 0)
        return (TensorType(DType.INT64, ()),)


@op_class
class Fill(Op):
    """A tensor full of ``value`` (one element).

    ``shape`` None: operand ``shape`` gives it at run time.
    TFLite FILL, ONNX Expand or ConstantOfShape, NNAPI FILL, NNRt FILL.
    """

    operands = (Operand("value", ANY), index_operand("shape"))
    quant_rule = QuantRule.CODES

    shape: tuple[int, ...] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        value = operand_type(types, 0)
        if self.shape is not None:
            return moved(value, self.shape)
        return moved(value, given_shape(types))


class BroadcastArgs(Op):
    """The shape of tensors of two shapes (all rank 1) broadcast together. TFLite BROADCAST_ARGS."""

    operands = (Operand("a", INTEGERS), Operand("b", INTEGERS))
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        if any(t.rank not in (1, None) for t in (a, b)):
            raise ValueError(f"operands have ranks {a.rank} and {b.rank}, must have 1")
        known = [rank for t in (a, b) if isinstance(rank := length_of(t), int)]
        return (TensorType(a.dtype, (max(known) if len(known) == 2 else None,)),)


class Range(Op):
    """start, start + step, ... before ``limit``: three scalars of one type, a rank-1 result.

    TFLite RANGE, ONNX Range, NNRt RANGE.
    """

    operands = (Operand("start", NUMBERS), Operand("limit", NUMBERS), Operand("step", NUMBERS))
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        start = operand_type(types, 0)
        require_one_type(types)
        if any(t is not None and element_count(t.shape) not in (None, 1) for t in types):
            raise ValueError(f"bounds {[str(t) for t in types]}, must be scalars")
        return (TensorType(start.dtype, (None,)),)
