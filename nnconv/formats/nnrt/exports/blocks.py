"""Ops that exchange space with depth or batch."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.formats.nnrt.window import extents_of
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import blocks as b


def export_depth_to_space(node: Node, t: Target) -> None:
    """DEPTH_TO_SPACE."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, b.DepthToSpace)
    extents_of(t, x, op.layout)
    params = {"blockSize": op.block, "mode": int(op.column_row_depth)}
    t.emit("DEPTH_TO_SPACE", {"input": x}, node.outputs, params)


def export_space_to_depth(node: Node, t: Target) -> None:
    """SPACE_TO_DEPTH."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, b.SpaceToDepth)
    extents_of(t, x, op.layout)
    if op.column_row_depth:
        raise t.refused("SPACE_TO_DEPTH has depth innermost")
    t.emit("SPACE_TO_DEPTH", {"input": x}, node.outputs, {"blocksize": op.block})


def export_batch_space(node: Node, t: Target) -> None:
    """SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND: of height and width."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, b.SpaceToBatch | b.BatchToSpace)
    if len(t.shape(x)) != 4 or op.block is None or len(op.block) != 2 or op.channels_first:
        raise t.refused("it is of height and width, with a block that is known")
    if isinstance(op, b.SpaceToBatch):
        names, edges = ("SPACE_TO_BATCH_ND", "blockShape", "paddings"), op.pads
    else:
        names, edges = ("BATCH_TO_SPACE_ND", "blockSize", "crops"), op.crops
    if edges is None:
        raise t.refused("what is put on or taken off is computed at run time")
    params = {names[1]: list(op.block), names[2]: [list(pair) for pair in edges]}
    t.emit(names[0], {"input": x}, node.outputs, params)


EXPORTERS: dict[type[Op], Exporter] = {
    b.BatchToSpace: export_batch_space,
    b.DepthToSpace: export_depth_to_space,
    b.SpaceToBatch: export_batch_space,
    b.SpaceToDepth: export_space_to_depth,
}
