"""Finds pixel shuffles spelled as reshapes and a transpose, and has depth where TFLite wants it.

PyTorch's pixel shuffle takes channels with depth outermost, TFLite's DEPTH_TO_SPACE with depth
innermost. Where a convolution makes them, its filters change places instead of its results.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Layout, LayoutKind, Op, Perm
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.conv import Conv2D
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Reshape, Transpose
from nnconv.passes.base import Pass

_SPELLINGS: dict[Perm, tuple[str, bool]] = {
    (0, 1, 4, 2, 5, 3): ("deep", True),
    (0, 3, 4, 1, 5, 2): ("deep", False),
    (0, 3, 5, 1, 2, 4): ("flat", False),
}
"""By the transpose of six dimensions, channels first: which way, and whether depth is outermost."""


class PixelShufflesPass(Pass):
    """One walk: first the ops that are spelled out, then their depth."""

    name: ClassVar[str] = "pixel_shuffles"

    def run(self, graph: Graph) -> bool:
        """Find and turn one graph's shuffles."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            found = _spelled(node)
            if found is not None:
                outputs = graph.output_set() if outputs is None else outputs
                before = node.inputs[0]
                node.op = found[0]
                node.set_inputs([found[1]])
                _take_out(graph, before, outputs)
                modified = True
            if isinstance(node.op, DepthToSpace) and node.op.column_row_depth:
                outputs = graph.output_set() if outputs is None else outputs
                modified |= _turn_filters(node, node.op, outputs)
        return modified


def _spelled(node: Node) -> tuple[Op, Value] | None:
    """The op and the operand that a last Reshape stands for, with what comes before it."""
    last = node.inputs[0] if isinstance(node.op, Reshape) and node.op.shape is not None else None
    turn = None if last is None else last.producer
    middle = turn.inputs[0] if turn is not None and isinstance(turn.op, Transpose) else None
    first = None if middle is None else middle.producer
    x = first.inputs[0] if first is not None and isinstance(first.op, Reshape) else None
    if turn is None or middle is None or x is None or first is None:
        return None
    perm = turn.op.perm  # type: ignore[attr-defined]
    source, spread, result = x.shape, middle.shape, node.outputs[0].shape
    if perm not in _SPELLINGS or source is None or spread is None or result is None:
        return None
    if len(source) != 4 or len(result) != 4 or first.op.shape is None:  # type: ignore[attr-defined]
        return None
    if x.quant != node.outputs[0].quant or x.quant != middle.quant:
        return None
    way, outermost = _SPELLINGS[perm]
    if way == "deep":
        depth, block = (spread[1], spread[2]) if outermost else (spread[3], spread[1])
        small, large, channels = source, result, (source[1], result[1])
        wanted = (depth, block, block) if outermost else (block, block, depth)
        fits = spread[1:] == (*wanted, *source[2:])
    else:
        depth, block = spread[1], spread[3]
        small, large, channels = result, source, (result[1], source[1])
        fits = spread[1:] == (depth, result[2], block, result[3], block)
    if not fits or not isinstance(block, int) or not isinstance(depth, int) or block < 2:
        return None
    if channels != (depth * block * block, depth):
        return None
    if not all(_times(a, block, b) for a, b in zip(small[2:], large[2:], strict=True)):
        return None
    if way == "flat":
        return SpaceToDepth(layout=Layout.NCHW, block=block), x
    return DepthToSpace(layout=Layout.NCHW, block=block, column_row_depth=outermost), x


def _take_out(graph: Graph, value: Value | None, outputs: set[Value]) -> None:
    """Take out the two nodes that made a value, as far as nothing reads their results any more."""
    for _ in range(2):
        node = None if value is None else value.producer
        if node is None or value is None or value.use_count or value in outputs:
            return
        value = node.inputs[0]
        graph.remove(node)


def _times(small: Dim, block: int, large: Dim) -> bool:
    return isinstance(small, int) and isinstance(large, int) and small * block == large


def _turn_filters(node: Node, op: DepthToSpace, outputs: set[Value]) -> bool:
    """Let the convolution before a shuffle give its channels with depth innermost."""
    value = node.inputs[0]
    while value is not None and _is_private(value, outputs):
        conv = value.producer
        if conv is None:
            return False
        if isinstance(conv.op, Conv2D):
            return _reorder(conv, op.block) and _settle(node, op)
        others = [v for v in conv.inputs[1:] if v is not None]
        if conv.op.layout_kind is not LayoutKind.TRANSPARENT or len(conv.outputs) != 1:
            return False
        if any(constant_behind(v) is None or v.type.rank is None or not _is_one(v) for v in others):
            return False
        value = conv.inputs[0]
    return False


def _settle(node: Node, op: DepthToSpace) -> bool:
    node.op = op.replace(column_row_depth=False)
    return True


def _is_private(value: Value, outputs: set[Value]) -> bool:
    per_tensor = value.quant is None or value.quant.is_per_tensor
    return value.use_count == 1 and value not in outputs and per_tensor


def _is_one(value: Value) -> bool:
    return all(dim == 1 for dim in value.shape or ())


def _reorder(conv: Node, block: int) -> bool:
    """Reorder the filters of a convolution with constant weights."""
    weights, bias = conv.inputs[1], conv.optional(2)
    if conv.op.groups != 1 or weights is None:  # type: ignore[attr-defined]
        return False
    given = [(1, weights), *([(2, bias)] if bias is not None else [])]
    sources = [constant_behind(value) for _, value in given]
    if any(s is None or s.data is None or (s.quant and s.quant.block) for s in sources):
        return False
    assert weights.shape is not None
    count = weights.shape[0]
    assert isinstance(count, int)
    order = np.arange(count).reshape(-1, block * block).T.reshape(-1)
    if any(s is None or s.data is None or s.data.shape[:1] != (count,) for s in sources):
        return False
    assert conv.graph is not None
    builder = Builder(conv.graph, before=conv, origin=conv.origin)
    for index, value in given:
        conv.replace_input_with(index, _taken(value, order, builder))
    return True


def _taken(value: Value, order: np.ndarray, builder: Builder) -> Value:
    """A constant, or what is widened from one, with its first dimension in another order."""
    quant = value.quant
    if quant is not None and quant.axis == 0:
        scale = tuple(quant.scale[i] for i in order)
        quant = Quant(scale=scale, zero_point=tuple(quant.zero_point[i] for i in order), axis=0)
    if value.data is not None:
        return builder.const(value.data[order], value.name, quant=quant, dtype=value.dtype)
    node = value.producer
    source = constant_behind(value)
    assert node is not None
    assert source is not None
    taken = _taken(source, order, builder)
    return builder.add_typed(node.op, [taken], [value.type], names=[value.name])[0]
