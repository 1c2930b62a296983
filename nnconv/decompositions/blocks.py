"""Exchanges of space with depth in other orders of channels, by moves."""

from __future__ import annotations

from nnconv.decompositions.base import Decomposition
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import static_shape
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.shape import Reshape, Transpose


def by_moves(node: Node, b: Builder) -> list[Value] | None:
    """DepthToSpace, SpaceToDepth with depth outermost, of at most one open extent."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, DepthToSpace | SpaceToDepth)
    assert x is not None
    if not op.column_row_depth or op.layout is not Layout.NHWC or not x.shape or not y.shape:
        return None
    n = x.shape[0] if isinstance(x.shape[0], int) else -1
    inner, outer = static_shape(x.shape[1:]), static_shape(y.shape[1:])
    if inner is None or outer is None:
        return None
    (h, w, c), size = inner, op.block
    split: tuple[int, ...]
    if isinstance(op, DepthToSpace):
        split, perm = (n, h, w, c // size**2, size, size), (0, 1, 4, 2, 5, 3)
    else:
        split, perm = (n, h // size, size, w // size, size, c), (0, 1, 3, 5, 2, 4)
    parts = b.add(Reshape(shape=split), [x], quant=x.quant)
    turned = b.add(Transpose(perm=perm), [parts], quant=x.quant)
    return [b.add(Reshape(shape=(n, *outer)), [turned], quant=x.quant)]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    DepthToSpace: (by_moves,),
    SpaceToDepth: (by_moves,),
}
