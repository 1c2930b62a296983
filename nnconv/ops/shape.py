"""Ops that move, repeat, cut or join elements without computing on them."""

from __future__ import annotations

import math
from typing import ClassVar

from nnconv.ir.dtype import ANY, INTEGERS, NUMBERS, DType
from nnconv.ir.op import (
    Activation,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Role,
    Types,
    op_class,
    operand_type,
)
from nnconv.ir.types import (
    Dim,
    Shape,
    TensorType,
    broadcast_shapes,
    element_count,
    may_be_equal,
    merge_dim,
    merge_shapes,
    normalize_axis,
    shape_of_rank,
)
from nnconv.ops.spatial import is_sorted, perm_between, usual_perms

_INDEX = frozenset({DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.UINT8})


def index_operand(name: str) -> Operand:
    """An optional operand that gives at run time what an attribute would give beforehand."""
    return Operand(name, _INDEX, Role.INDEX, optional=True)


class Move(Op):
    """Base of ops that give codes on unchanged: the result has x's dtype and parameters."""

    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", ANY),)
    quant_rule: ClassVar[QuantRule] = QuantRule.CODES


def moved(x: TensorType, shape: Shape) -> tuple[TensorType, ...]:
    """The result type of a move: x's dtype and per-tensor parameters, another shape."""
    quant = x.quant if x.quant is not None and x.quant.is_per_tensor else None
    return (TensorType(x.dtype, shape, quant),)


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
            sizes = operand_type(types, 1).shape
            rank = sizes[0] if sizes is not None and len(sizes) == 1 else None
            return moved(x, shape_of_rank(rank))
        return moved(x, _resolve_reshape(x.shape, self.shape))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        x, result = operand_type(types, 0).shape, self.infer(types)[0].shape
        if self.shape is None or x is None or result is None or len(x) != len(perm):
            return None
        follows = perm_between(x, perm, result)
        if follows is None:
            return None
        shape = tuple(result[p] for p in follows)
        if sum(not isinstance(dim, int) for dim in shape) > 1:
            return None
        op = self.replace(shape=tuple(dim if isinstance(dim, int) else -1 for dim in shape))
        rest = (None,) * (len(types) - 1)
        return Permuted(op, (perm, *rest), (None if is_sorted(follows) else follows,))

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        x, result = operand_type(types, 0).shape, self.infer(types)[0].shape
        if self.shape is None or x is None or result is None or len(result) != len(perm):
            return None
        before = perm_between(result, perm, x)
        shape = tuple(result[p] for p in perm)
        if before is None or sum(not isinstance(dim, int) for dim in shape) > 1:
            return None
        op = self.replace(shape=tuple(dim if isinstance(dim, int) else -1 for dim in shape))
        rest = (None,) * (len(types) - 1)
        return Permuted(op, (None if is_sorted(before) else before, *rest), (perm,))


def _resolve_reshape(source: Shape, target: tuple[int, ...]) -> Shape:
    if min(target, default=0) < -1:
        raise ValueError(f"shape {list(target)} has an extent below -1")
    holes = [i for i, d in enumerate(target) if d < 0]
    if len(holes) > 1:
        raise ValueError(f"shape {list(target)} leaves more than one extent open")
    count, rest = element_count(source), math.prod(d for d in target if d >= 0)
    if not holes:
        if count is not None and count != rest:
            raise ValueError(f"{count} elements don't fit shape {list(target)}")
        return target
    if count is not None:
        if rest == 0:
            return tuple(max(d, 0) for d in target)
        if count % rest:
            raise ValueError(f"{count} elements don't divide into shape {list(target)}")
        return tuple(count // rest if d < 0 else d for d in target)
    return tuple(_open_extent(source, rest) if d < 0 else d for d in target)


def _open_extent(source: Shape, rest: int) -> Dim:
    """The one open extent of the target: the source's one unknown, if all the others cancel out."""
    if source is None:
        return None
    unknown = [d for d in source if not isinstance(d, int)]
    known = math.prod(d for d in source if isinstance(d, int))
    return unknown[0] if len(unknown) == 1 and known == rest else None


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
        for before in usual_perms(rank):
            permuted = self.permute(before, types)
            if permuted is not None and permuted.results == (perm,):
                return permuted
        return None


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
        shapes = [operand_type(types, i).shape for i in range(len(types))]
        if any(shape is None for shape in shapes):
            return (TensorType(first.dtype, None),)
        known = [shape for shape in shapes if shape is not None]
        rank = len(known[0])
        if not 0 <= self.axis < rank:
            raise ValueError(f"axis {self.axis} is out of range for rank {rank}")
        if any(len(shape) != rank for shape in known):
            raise ValueError(f"operands have ranks {[len(s) for s in known]}, must be equal")
        result: list[Dim] = list(known[0])
        for shape in known[1:]:
            for i, (a, b) in enumerate(zip(result, shape, strict=True)):
                if i == self.axis:
                    both = isinstance(a, int) and isinstance(b, int)
                    result[i] = a + b if both else None  # type: ignore[operator]
                elif isinstance(a, int) and isinstance(b, int) and a != b:
                    raise ValueError(f"extents {a} and {b} of dimension {i} must be equal")
                else:
                    result[i] = merge_dim(a, b)
        return (TensorType(first.dtype, tuple(result)),)

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
        if isinstance(extent, int) and (
            extent < given or (extent != given and -1 not in self.sizes)
        ):
            raise ValueError(f"parts {list(self.sizes)} don't make up extent {extent}")
        rest = extent - given if isinstance(extent, int) else None
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
                raise ValueError(f"{count} repeats for rank {len(x.shape)}")
            return moved(x, (None,) * len(x.shape))
        if len(self.repeats) != len(x.shape):
            raise ValueError(f"{len(self.repeats)} repeats for rank {len(x.shape)}")
        pairs = zip(x.shape, self.repeats, strict=True)
        return moved(x, tuple(d * r if isinstance(d, int) else _times(d, r) for d, r in pairs))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if self.repeats is None or len(self.repeats) != len(perm):
            return None
        op = self.replace(repeats=tuple(self.repeats[p] for p in perm))
        return Permuted(op, (perm,), (perm,))


def _times(dim: Dim, count: int) -> Dim:
    return dim if count == 1 else None


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
            sizes = operand_type(types, 1).shape
            rank = sizes[0] if sizes is not None and len(sizes) == 1 else None
            return moved(x, shape_of_rank(rank))
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
        sizes = operand_type(types, 1).shape
        rank = sizes[0] if sizes is not None and len(sizes) == 1 else None
        return moved(value, shape_of_rank(rank))


class BroadcastArgs(Op):
    """The shape of tensors of two shapes (all rank 1) broadcast together. TFLite BROADCAST_ARGS."""

    operands = (Operand("a", INTEGERS), Operand("b", INTEGERS))
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        if any(t.rank not in (1, None) for t in (a, b)):
            raise ValueError(f"operands have ranks {a.rank} and {b.rank}, must have 1")
        ranks = [t.shape[0] if t.shape is not None and len(t.shape) == 1 else None for t in (a, b)]
        known = [r for r in ranks if isinstance(r, int)]
        return (TensorType(a.dtype, (max(known) if len(known) == 2 else None,)),)


class Range(Op):
    """start, start + step, ... before ``limit``: three scalars of one type, a rank-1 result.

    TFLite RANGE, ONNX Range, NNRt RANGE.
    """

    operands = (Operand("start", NUMBERS), Operand("limit", NUMBERS), Operand("step", NUMBERS))
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        start = operand_type(types, 0)
        if any(t is not None and element_count(t.shape) not in (None, 1) for t in types):
            raise ValueError(f"bounds {[str(t) for t in types]}, must be scalars")
        return (TensorType(start.dtype, (None,)),)
