"""Transposing single values for the layout pass: for nothing, where that can be.

Constants are turned in place, extents of 1 move by Reshape, and layers behind a flattened value
take its new order in their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import LayoutKind, Perm
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.product import Gemm
from nnconv.ops.rewrite import constant_behind, reshaped, transposed
from nnconv.ops.shape import Reshape, Transpose, Unsqueeze


def moved_by(builder: Builder, value: Value, perm: Sequence[int]) -> Value:
    """``value`` transposed: by Reshape if only extents of 1 move.

    It costs nothing if a Transpose made it the other way round.
    """
    producer = value.producer
    if producer is not None and isinstance(producer.op, Transpose) and producer.op.perm is not None:
        source, inner = producer.inputs[0], producer.op.perm
        if source is not None and source.type.quant == value.type.quant:
            return moved_by(builder, source, tuple(inner[p] for p in perm))
    if tuple(perm) == tuple(range(len(perm))):
        return value
    if constant_behind(value) is not None:
        return transposed(builder, value, perm)
    if value.shape is not None and keeps_order(value.type, tuple(perm)):
        dims = [value.shape[p] for p in perm]
        if sum(not isinstance(d, int) for d in dims) <= 1:
            shape = tuple(d if isinstance(d, int) else -1 for d in dims)
            kind = value.type.permuted(perm)
            return builder.add_typed(Reshape(shape=shape), [value], [kind], names=[value.name])[0]
    return transposed(builder, value, perm)


def keeps_order(kind: TensorType, perm: Perm) -> bool:
    """Whether a transpose only moves extents of 1: the elements keep their order.

    A shape of lower rank is taken with leading extents of 1.
    """
    if kind.shape is None or len(kind.shape) > len(perm):
        return False
    shape = (*[1] * (len(perm) - len(kind.shape)), *kind.shape)
    real = [p for p in perm if shape[p] != 1]
    return real == sorted(real)


def lifted(value: Value, perm: Perm, builder: Builder) -> Value:
    """A value of lower rank under the full rank, transposed.

    A constant's leading extents of 1 are dropped; where all extents are 1, nothing is done.
    """
    shape = value.shape
    assert shape is not None
    if all(dim == 1 for dim in shape):
        return value
    new = len(perm) - len(shape)
    constant = constant_behind(value)
    if constant is None or constant.data is None:
        full = builder.add(Unsqueeze(axes=tuple(range(new))), [value], name=value.name)
        return moved_by(builder, full, perm)
    full = reshaped(builder, value, (*[1] * new, *constant.data.shape))
    result = moved_by(builder, full, perm)
    assert result.shape is not None
    extents = [dim for dim in result.shape if isinstance(dim, int)]
    while extents[0] == 1:
        extents.pop(0)
    return reshaped(builder, result, extents)


@dataclass(frozen=True, slots=True)
class Columns:
    """A constant that goes with the columns of a flattened value.

    Attributes:
        node: its reader.
        index: which operand it is there.
        axis: its dimension that has as many entries as there are columns.
    """

    node: Node
    index: int
    axis: int

    def turn(self, builder: Builder, dims: tuple[int, ...], perm: Perm) -> None:
        """Give the reader the constant for columns that are those of [rows, *dims] by ``perm``."""
        value = self.node.inputs[self.index]
        shape = None if value is None else static_shape(value.shape)
        assert value is not None
        assert shape is not None
        before, after = shape[: self.axis], shape[self.axis + 1 :]
        places = [*range(len(before)), *(len(before) - 1 + p for p in perm[1:])]
        places += range(len(places), len(places) + len(after))
        spread = reshaped(builder, value, (*before, *dims, *after))
        turned = transposed(builder, spread, places)
        self.node.replace_input_with(
            self.index, reshaped(builder, turned, (*before, math.prod(dims), *after))
        )


def columns_behind(node: Node, perm: Perm, outputs: set[Value]) -> list[Columns] | None:
    """What must be turned if a Reshape flattened its operand transposed by ``perm``.

    There is an answer if only layers with constant weights read the result, at once or behind ops
    that work on each element with constants; None if anything else sees the columns.
    """
    value, result = node.inputs[0], node.outputs[0]
    rest = None if value is None or value.shape is None else static_shape(value.shape[1:])
    if rest is None or perm[0] != 0 or not result.shape or len(result.shape) != 2:
        return None
    count = math.prod(rest)
    if result.shape[1] != count:
        return None
    found: list[Columns] = []
    pending = [result]
    while pending:
        flat = pending.pop()
        if flat in outputs or (flat.quant is not None and not flat.quant.is_per_tensor):
            return None
        for use in flat.uses:
            axis = _weight_axis(use.node) if use.index == 0 else None
            if axis is not None:
                found.append(Columns(use.node, 1, axis))
            else:
                constants = _elementwise(use.node, use.index, flat.shape or ())
                if constants is None:
                    return None
                found += constants
                pending += use.node.outputs
    return found if all(_can_turn(c, count) for c in found) else None


def _weight_axis(node: Node) -> int | None:
    """Which dimension of a layer's weights [O, I] or [I, O] goes with its input's columns."""
    if isinstance(node.op, FullyConnected):
        return 1
    if isinstance(node.op, MatMul | Gemm) and not node.op.transpose_a:
        weights = node.inputs[1]
        if weights is not None and weights.type.rank == 2:
            return 1 if node.op.transpose_b else 0
    return None


def _elementwise(node: Node, index: int, shape: tuple[object, ...]) -> list[Columns] | None:
    """The constants by column of an op on [rows, columns] whose other operands are constants."""
    if node.op.layout_kind is not LayoutKind.TRANSPARENT:
        return None
    if any(value.type.rank != 2 or value.shape != shape for value in node.outputs):
        return None
    found = []
    for place, value in enumerate(node.inputs):
        if place == index or value is None:
            continue
        if constant_behind(value) is None:
            return None
        rank = value.type.rank or 0
        if rank and value.shape is not None and value.shape[-1] != 1:
            found.append(Columns(node, place, rank - 1))
    return found


def _can_turn(columns: Columns, count: int) -> bool:
    value = columns.node.inputs[columns.index]
    source = None if value is None else constant_behind(value)
    if source is None or source.shape is None or source.shape[columns.axis] != count:
        return False
    quant = source.quant
    return quant is None or (not quant.block and quant.axis != columns.axis)
