"""Products in the forms that only some formats have, by products of matrices; determinants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.constants import scalar, times
from nnconv.decompositions.extents import extent, ints, joined
from nnconv.decompositions.places import count_of, counted
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import Dim, broadcast_dims, element_count
from nnconv.ops import elementwise as e
from nnconv.ops import product as p
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.quantize import Cast, LooseCast
from nnconv.ops.reduce import ArgMax, ReduceSum
from nnconv.ops.rewrite import transposed
from nnconv.ops.shape import Identity, Reshape, Transpose, Unsqueeze
from nnconv.ops.slices import Slice


def gemm(node: Node, b: Builder) -> Sequence[Value]:
    """A product of matrices, scaled, and an offset; a layer where the second one is constant."""
    op = node.op
    x, y = node.operand(0), node.operand(1)
    rest = node.inputs[2:]
    assert isinstance(op, p.Gemm)
    offset = rest[0] if rest and op.beta != 0 else None
    if y.data is not None and y.data.size:
        left = b.add(Transpose(perm=(1, 0)), [x]) if op.transpose_a else x
        data = y.data * y.data.dtype.type(op.alpha) if op.alpha != 1 else y.data
        weights = b.const(data, y.name)
        layer = weights if op.transpose_b else transposed(b, weights, (1, 0))
        result = b.add(FullyConnected(), [left, layer])
    else:
        product = MatMul(transpose_a=op.transpose_a, transpose_b=op.transpose_b)
        result = times(b.add(product, [x, y]), op.alpha, b)
    if offset is None:
        return [result]
    return [b.add(e.Add(), [result, times(offset, op.beta, b)])]


# -------------------------------------------------------------------- integers

EXACT_TERMS = (1 << 24) // (255 * 255)
"""So many products of 8-bit numbers less their zero points add up exactly in float32."""

_MOST_PARTS = 1 << 10


def matmul_integer(node: Node, b: Builder) -> Sequence[Value] | None:
    """Products in float32, of few enough numbers to be exact; their sums in int32."""
    x, y = node.operand(0), node.operand(1)
    points = node.inputs[2:]
    if x.shape is None or y.shape is None or min(len(x.shape), len(y.shape)) < 2:
        return None
    depth = x.shape[-1] if isinstance(x.shape[-1], int) else y.shape[-2]
    if not isinstance(depth, int) or depth > _MOST_PARTS * EXACT_TERMS:
        return None
    left = _less_point(x, points[0] if points else None, b, rows=True)
    right = _less_point(y, points[1] if len(points) > 1 else None, b, rows=False)
    total: Value | None = None
    for start in range(0, max(depth, 1), EXACT_TERMS):
        end = min(start + EXACT_TERMS, depth)
        parts = [left, right]
        if depth > EXACT_TERMS:
            parts = [_cut(left, -1, start, end, b), _cut(right, -2, start, end, b)]
        part = b.add(LooseCast(dtype=DType.INT32), [b.add(MatMul(), parts)])
        total = part if total is None else b.add(e.Add(), [total, part])
    return None if total is None else [total]


def _less_point(codes: Value, point: Value | None, b: Builder, *, rows: bool) -> Value:
    """Codes less their zero points, in float32."""
    number = b.add(Cast(dtype=DType.FLOAT32), [codes])
    if point is None:
        return number
    shift = b.add(Cast(dtype=DType.FLOAT32), [point])
    if rows and point.shape is not None and len(point.shape) == 1 and point.shape != (1,):
        shift = b.add(Unsqueeze(axes=(1,)), [shift])
    return b.add(e.Sub(), [number, shift])


def _cut(x: Value, axis: int, start: int, end: int, b: Builder) -> Value:
    rank = len(x.shape or ())
    place = axis % rank
    starts = tuple(start if i == place else 0 for i in range(rank))
    ends = tuple(end if i == place else None for i in range(rank))
    return b.add(Slice(starts=starts, ends=ends, strides=(1,) * rank), [x])


# -------------------------------------------------------------------- Einsum


class _Open(Exception):  # noqa: N818 - a signal inside this file
    """More extents than one aren't known."""


_Places = Mapping[str, tuple[Value, int]]
"""Where each label's extent is to be found: an operand and one of its dimensions."""


class _Term:
    """An operand of an Einsum under way: a value and the label of each of its dimensions."""

    def __init__(self, value: Value, labels: Sequence[str]) -> None:
        self.value, self.labels = value, list(labels)

    def extents(self) -> dict[str, Dim]:
        """The extent behind each label."""
        assert self.value.shape is not None, "shapes were checked"
        return dict(zip(self.labels, self.value.shape, strict=True))

    def summed(self, kept: set[str], b: Builder) -> _Term:
        """Without the dimensions that nothing else has: their sums."""
        axes = tuple(i for i, label in enumerate(self.labels) if label not in kept)
        if not axes:
            return self
        value = b.add(ReduceSum(axes=axes), [self.value])
        return _Term(value, [label for label in self.labels if label in kept])

    def without_repeats(self, b: Builder) -> _Term:
        """The diagonal of dimensions of one label: the sum over what it takes, one at a time."""
        term = self
        while len(set(term.labels)) < len(term.labels):
            label = next(name for name in term.labels if term.labels.count(name) > 1)
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            taken = _on_diagonal(term.value, first, second, b)
            kept = b.add(e.Select(), [taken, term.value, scalar(b, 0, term.value)])
            value = b.add(ReduceSum(axes=(second,)), [kept])
            labels = [name for i, name in enumerate(term.labels) if i != second]
            term = _Term(value, labels)
        return term

    def ordered(self, labels: Sequence[str], b: Builder) -> Value:
        """With the dimensions in an order, those that it lacks left out."""
        perm = tuple(self.labels.index(label) for label in labels if label in self.labels)
        if perm == tuple(range(len(perm))):
            return self.value
        return b.add(Transpose(perm=perm), [self.value])


def _on_diagonal(x: Value, first: int, second: int, b: Builder) -> Value:
    """Where two places agree: bool, of extent 1 along all other dimensions."""
    sides = []
    for axis in (first, second):
        shape = tuple(-1 if i == axis else 1 for i in range(len(x.shape or ())))
        places = counted(b, count_of(b, x, axis, axis + 1))
        sides.append(b.add(Reshape(shape=shape), [places]))
    return b.add(e.Equal(), sides)


def einsum(node: Node, b: Builder) -> Sequence[Value] | None:
    """Sums of what only one operand has; products of matrices two by two; an order."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, p.Einsum)
    values = [v for v in node.inputs if v is not None]
    if any(v.shape is None for v in values):
        return None
    labels, result = op.labels([len(v.shape or ()) for v in values])
    assert labels is not None
    assert result is not None
    try:
        value = _contracted(values, labels, result, b)
    except _Open:
        return None
    if value is values[0]:
        value = b.add_typed(Identity(), [value], [y.type])[0]
    return [value]


def _contracted(
    values: Sequence[Value], labels: Sequence[Sequence[str]], result: Sequence[str], b: Builder
) -> Value:
    terms = [_Term(v, names).without_repeats(b) for v, names in zip(values, labels, strict=True)]
    places: dict[str, tuple[Value, int]] = {}
    for value, names in zip(values, labels, strict=True):
        for axis, (label, dim) in enumerate(zip(names, value.shape or (), strict=True)):
            if dim != 1:  # which another operand's may be spread over
                places.setdefault(label, (value, axis))
    done, *others = terms
    for place, other in enumerate(others):
        later = {label for term in others[place + 1 :] for label in term.labels} | set(result)
        left = done.summed(set(other.labels) | later, b)
        done = _product(left, other.summed(set(done.labels) | later, b), later, places, b)
    return done.summed(set(result), b).ordered(result, b)


def _product(left: _Term, right: _Term, kept: set[str], places: _Places, b: Builder) -> _Term:
    """Two operands multiplied, and summed over what both have and nothing needs any more."""
    shared = [label for label in left.labels if label in right.labels]
    inner = [label for label in shared if label not in kept]
    if not inner:
        return _elementwise(left, right, b)
    sizes, other_sizes = left.extents(), right.extents()
    if any(1 in (sizes[x], other_sizes[x]) and sizes[x] != other_sizes[x] for x in inner):
        return _elementwise(left, right, b).summed(kept, b)
    batch = [label for label in shared if label in kept]
    rows = [label for label in left.labels if label not in right.labels]
    columns = [label for label in right.labels if label not in left.labels]
    a = _matrix(left, (batch, rows, inner), places, b)
    c = _matrix(right, (batch, inner, columns), places, b)
    product = b.add(MatMul(), [a, c])
    extents = {x: broadcast_dims(sizes.get(x, 1), other_sizes.get(x, 1)) for x in batch}
    extents |= {x: sizes[x] for x in rows} | {x: other_sizes[x] for x in columns}
    if len(rows) != 1 or len(columns) != 1:
        product = _reshaped(product, [[label] for label in extents], extents, places, b)
    return _Term(product, [*batch, *rows, *columns])


def _matrix(term: _Term, groups: Sequence[Sequence[str]], places: _Places, b: Builder) -> Value:
    """Matrices [batch ..., first group, second group]: each group one dimension."""
    batch, first, second = groups
    sizes = term.extents()
    value = term.ordered([*batch, *first, *second], b)
    if len(first) == 1 and len(second) == 1:
        return value
    return _reshaped(value, [*([label] for label in batch), first, second], sizes, places, b)


def _reshaped(
    value: Value,
    groups: Sequence[Sequence[str]],
    sizes: Mapping[str, Dim],
    places: _Places,
    b: Builder,
) -> Value:
    """A value with one dimension a group of labels."""
    dims = [element_count(tuple(sizes[label] for label in group)) for group in groups]
    shape = tuple(-1 if dim is None else dim for dim in dims)
    if shape.count(-1) <= 1:
        return b.add(Reshape(shape=shape), [value])
    parts = []
    for group in groups:
        known = tuple(dim for x in group if isinstance(dim := sizes[x], int))
        count = ints(b, [math.prod(known)])
        for label in group:
            if not isinstance(sizes[label], int):
                if label not in places:
                    raise _Open
                source, axis = places[label]
                count = b.add(e.Mul(), [count, extent(b, source, axis)])
        parts.append(count)
    result = b.add(Reshape(shape=None), [value, joined(b, parts)])
    result.type = result.type.with_shape(tuple(dims))
    return result


def _elementwise(left: _Term, right: _Term, b: Builder) -> _Term:
    """Products of elements, each operand with all dimensions, of extent 1 where it lacks them."""
    labels = list(dict.fromkeys((*left.labels, *right.labels)))
    spread = []
    for term in (left, right):
        value = term.ordered(labels, b)
        axes = tuple(i for i, label in enumerate(labels) if label not in term.labels)
        spread.append(b.add(Unsqueeze(axes=axes), [value]) if axes else value)
    return _Term(b.add(e.Mul(), spread), labels)


# -------------------------------------------------------------------- determinants


_MOST_ROWS = 64
"""Of larger matrices elimination takes too many nodes."""


def det(node: Node, b: Builder) -> Sequence[Value] | None:
    """By elimination, column by column.

    The row of the column's greatest element is taken out, and with it the column out of the others.
    """
    x = node.operand(0)
    count = x.shape[-1] if x.shape is not None else None
    if not isinstance(count, int) or x.shape is None or not isinstance(x.shape[-2], int):
        return None
    rank = len(x.shape)
    if not 0 < count <= _MOST_ROWS:
        return None
    result: Value | None = None
    matrix = x
    for size in range(count, 1, -1):
        pivot, matrix = _eliminated(matrix, size, rank, b)
        result = pivot if result is None else b.add(e.Mul(), [result, pivot])
    last = b.add(ReduceSum(axes=(rank - 2, rank - 1)), [matrix])
    return [last if result is None else b.add(e.Mul(), [result, last])]


def _eliminated(matrix: Value, size: int, rank: int, b: Builder) -> tuple[Value, Value]:
    """The first pivot with its sign [...], and the matrix that is left [..., n - 1, n - 1]."""
    rows, columns = rank - 2, rank - 1
    column = _cut(matrix, columns, 0, 1, b)  # [..., n, 1]
    place = b.add(ArgMax(axis=rows, dtype=DType.INT32, keep_dims=True), [b.add(e.Abs(), [column])])
    numbers = np.arange(size, dtype=np.int32).reshape(size, 1)
    is_pivot = b.add(e.Equal(), [place, b.const(numbers)])
    chosen = b.add(Cast(dtype=matrix.dtype), [is_pivot])
    row = b.add(ReduceSum(axes=(rows,), keep_dims=True), [b.add(e.Mul(), [matrix, chosen])])
    pivot = _cut(row, columns, 0, 1, b)  # [..., 1, 1]
    is_zero = b.add(e.Equal(), [pivot, scalar(b, 0, pivot)])
    divisor = b.add(e.Select(), [is_zero, scalar(b, 1, pivot), pivot])
    # the first row goes where the pivot's was: a change of sign, unless they are the same
    first = _cut(matrix, rows, 0, 1, b)
    swapped = b.add(e.Select(), [is_pivot, first, matrix])
    others = _cut(_cut(swapped, rows, 1, size, b), columns, 1, size, b)
    heads = _cut(_cut(swapped, rows, 1, size, b), columns, 0, 1, b)
    rest_of_row = _cut(row, columns, 1, size, b)
    shares = b.add(e.Div(), [heads, divisor])
    left = b.add(e.Sub(), [others, b.add(e.Mul(), [shares, rest_of_row])])
    moved = b.add(e.Greater(), [place, scalar(b, 0, place)])
    signed = b.add(e.Select(), [moved, b.add(e.Neg(), [pivot]), pivot])
    return b.add(ReduceSum(axes=(rows, columns)), [signed]), left


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    p.Gemm: (gemm,),
    p.MatMulInteger: (matmul_integer,),
    p.Einsum: (einsum,),
    p.Det: (det,),
}
