"""Products of matrices by simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.conv import Conv2D
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.rewrite import reshaped
from nnconv.ops.shape import BroadcastTo, Reshape, Squeeze, Transpose, Unsqueeze
from nnconv.ops.spatial import Padding


def _operands(node: Node) -> tuple[Value, Value]:
    a, b = (node.operand(i) for i in range(2))
    return a, b


def of_vectors(node: Node, b: Builder) -> Sequence[Value] | None:
    """A vector is a matrix of one row or column, which the result lacks."""
    left, right = _operands(node)
    y = node.outputs[0]
    if left.shape is None or right.shape is None or min(len(left.shape), len(right.shape)) > 1:
        return None
    axes = []
    rank = max(len(left.shape), len(right.shape), 2)
    if len(left.shape) == 1:
        left = b.add(Unsqueeze(axes=(0,)), [left], quant=left.quant)
        axes.append(rank - 2)
    if len(right.shape) == 1:
        right = b.add(Unsqueeze(axes=(1,)), [right], quant=right.quant)
        axes.append(rank - 1)
    product = b.add(node.op, [left, right], quant=y.quant, dtype=y.dtype)
    return [b.add(Squeeze(axes=tuple(axes)), [product], quant=y.quant)]


_MOST_RANK = 5
"""Of operands whose leading dimensions a product broadcasts."""


def in_fewer_dimensions(node: Node, b: Builder) -> Sequence[Value] | None:
    """Leading dimensions made one, where both operands have them or there are too many.

    Matrices stay as they are.
    """
    left, right = _operands(node)
    y = node.outputs[0]
    a, c, whole = static_shape(left.shape), static_shape(right.shape), static_shape(y.shape)
    if a is None or c is None or whole is None or 0 in (*a, *c):
        return None
    if min(len(a), len(c)) < 2 or max(len(a), len(c)) < 4:
        return None
    if a[:-2] != c[:-2]:
        lead_a, lead_c = _joined_lead(a[:-2], c[:-2])
        if len(lead_a) < max(len(a), len(c)) - 2:
            left = b.add(Reshape(shape=(*lead_a, *a[-2:])), [left], quant=left.quant)
            right = b.add(Reshape(shape=(*lead_c, *c[-2:])), [right], quant=right.quant)
            product = b.add(node.op, [left, right], quant=y.quant, dtype=y.dtype)
            return [b.add(Reshape(shape=whole), [product], quant=y.quant)]
        if max(len(a), len(c)) <= _MOST_RANK:
            return None
        lead = whole[:-2]
        a, c = (*lead, *a[-2:]), (*lead, *c[-2:])
        left, right = (
            b.add(BroadcastTo(shape=shape), [value], quant=value.quant)
            for value, shape in ((left, a), (right, c))
        )
    flat = [
        b.add(Reshape(shape=(-1, *shape[-2:])), [value], quant=value.quant)
        for value, shape in ((left, a), (right, c))
    ]
    product = b.add(node.op, flat, quant=y.quant, dtype=y.dtype)
    return [b.add(Reshape(shape=whole), [product], quant=y.quant)]


def _joined_lead(a: Sequence[int], c: Sequence[int]) -> tuple[list[int], list[int]]:
    """Leading extents, neighbours in one that are alike in both, or repeated in the same one."""
    rank = max(len(a), len(c))
    joined: tuple[list[int], list[int]] = ([], [])
    before = None
    both = ((*[1] * (rank - len(dims)), *dims) for dims in (a, c))
    for p, q in zip(*both, strict=True):
        if p == q == 1:
            continue
        kind = (p == q, p == 1)
        if kind == before:
            joined[0][-1] *= p
            joined[1][-1] *= q
        else:
            joined[0].append(p)
            joined[1].append(q)
        before = kind
    return joined


_SUMMED = frozenset({DType.FLOAT32, DType.INT32, DType.INT64})


def by_elements(node: Node, b: Builder) -> Sequence[Value] | None:
    """The sum of products of elements.

    For integers, which no kernel of products takes, and for sums of nothing.
    """
    op, (left, right) = node.op, _operands(node)
    assert isinstance(op, MatMul)
    if left.quant is not None or right.quant is not None:
        return None
    if left.shape is None or right.shape is None or min(len(left.shape), len(right.shape)) < 2:
        return None
    if not left.dtype.is_integer and 0 not in (*left.shape, *right.shape):
        return None
    wide = left.dtype if left.dtype in _SUMMED else DType.INT64
    rows = _matrix(left, wide, b, turned=op.transpose_a)
    columns = _matrix(right, wide, b, turned=op.transpose_b)
    rows = b.add(Unsqueeze(axes=(len(left.shape),)), [rows])  # [..., M, K, 1]
    columns = b.add(Unsqueeze(axes=(len(right.shape) - 2,)), [columns])  # [..., 1, K, N]
    products = b.add(e.Mul(), [rows, columns])
    between = max(len(left.shape), len(right.shape)) - 1
    total = b.add(ReduceSum(axes=(between,)), [products])
    return [total if wide is left.dtype else b.add(Cast(dtype=left.dtype), [total])]


def _matrix(value: Value, dtype: DType, b: Builder, *, turned: bool) -> Value:
    """Matrices as they come or turned, in another type."""
    if value.dtype is not dtype:
        value = b.add(Cast(dtype=dtype), [value])
    if not turned:
        return value
    rank = len(value.shape or ())
    return b.add(Transpose(perm=(*range(rank - 2), rank - 1, rank - 2)), [value])


def of_nothing(node: Node, b: Builder) -> Sequence[Value] | None:
    """A layer over no elements: its bias, for as many rows as there are."""
    op, y = node.op, node.outputs[0]
    x, weights = node.operand(0), node.operand(1)
    rest = node.inputs[2:]
    assert isinstance(op, FullyConnected)
    if weights.shape is None or weights.shape[1] != 0 or x.type.rank in {None, 0, 1}:
        return None
    if y.type.has_codes or x.type.has_codes:
        return None
    bias = rest[0] if rest and rest[0] is not None else b.const(np.zeros(1, y.dtype.numpy))
    sums = b.add(MatMul(transpose_b=True), [x, weights])
    return [b.add(e.Add(activation=op.activation), [sums, bias])]


def as_convolution(node: Node, b: Builder) -> Sequence[Value] | None:
    """A layer over rows of which several extents are open: a convolution of pixels alone."""
    x = node.operand(0)
    lead = () if x.shape is None else x.shape[:-1]
    filters = static_shape(node.operand(1).shape)
    if len(lead) not in {2, 3} or sum(not isinstance(d, int) for d in lead) < 2 or not filters:
        return None
    image = b.add(Unsqueeze(axes=(1,)), [x], quant=x.quant) if len(lead) == 2 else x
    made = _of_pixels(node, image, filters, b)
    return [b.add(Squeeze(axes=(1,)), [made], quant=made.quant) if len(lead) == 2 else made]


def as_column(node: Node, b: Builder) -> Sequence[Value] | None:
    """A layer on codes whose filters have scales of their own, as those of convolutions may.

    The rows are the pixels of an image of one column; one of their extents may be open.
    """
    x, weights, y = node.operand(0), node.operand(1), node.outputs[0]
    filters = static_shape(weights.shape)
    if not x.type.has_codes or weights.quant is None or weights.quant.is_per_tensor:
        return None
    lead = None if y.shape is None else [d if isinstance(d, int) else -1 for d in y.shape[:-1]]
    if lead is None or lead.count(-1) > 1 or not filters:
        return None
    rows = -1 if -1 in lead else prod(lead)
    made = _of_pixels(node, reshaped(b, x, (1, rows, 1, filters[1])), filters, b)
    return [reshaped(b, made, (*lead, filters[0]))]


def _of_pixels(node: Node, image: Value, filters: tuple[int, ...], b: Builder) -> Value:
    """A layer, with its weights of the extents ``filters``, over the channels of an image."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, FullyConnected)
    kernel = reshaped(b, node.operand(1), (filters[0], 1, 1, filters[1]))
    plain = Conv2D(
        layout=Layout.NHWC,
        stride=(1, 1),
        dilation=(1, 1),
        padding=Padding((0, 0), (0, 0)),
        groups=1,
        activation=op.activation,
    )
    return b.add(plain, [image, kernel, *node.inputs[2:]], quant=y.quant, dtype=y.dtype)


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    FullyConnected: (of_nothing, as_convolution, as_column),
    MatMul: (of_vectors, in_fewer_dimensions, by_elements),
}
