"""Ops that exchange space with depth or batch."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth

NAMES: dict[type[Op], str] = {DepthToSpace: "DEPTH_TO_SPACE", SpaceToDepth: "SPACE_TO_DEPTH"}


def export_depth_space(node: Node, t: Target) -> None:
    """DEPTH_TO_SPACE, SPACE_TO_DEPTH."""
    op = node.op
    assert isinstance(op, DepthToSpace | SpaceToDepth)
    if op.column_row_depth:
        raise t.refused("its channels have the depth outermost")
    inputs = {"input": node.operand(0), "block_size": op.block, "nchw": t.nchw(op.layout)}
    t.emit(NAMES[type(op)], inputs, node.outputs[0])


def export_batch_space(node: Node, t: Target) -> None:
    """SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND: of height and width; nothing is cropped."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, SpaceToBatch | BatchToSpace)
    if t.rank(x) != 4 or (op.block is not None and len(op.block) != 2):
        raise t.refused("NNAPI exchanges batches with height and width alone")
    sizes = t.index(node.operand(1)) if op.block is None else t.ints(op.block)
    inputs: dict[str, object] = {"input": x, "block_sizes": sizes, "nchw": op.channels_first}
    edges = op.pads if isinstance(op, SpaceToBatch) else op.crops
    given = node.operand(2) if edges is None else None
    if isinstance(op, BatchToSpace):
        cropped = np.asarray(edges) if given is None else given.data
        if cropped is None or cropped.any():
            raise t.refused("BATCH_TO_SPACE_ND crops nothing")
        t.emit("BATCH_TO_SPACE_ND", inputs, y)
        return
    pads = t.const(np.asarray(edges, np.int32)) if given is None else t.index(given)
    t.emit("SPACE_TO_BATCH_ND", {**inputs, "paddings": pads}, y)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_depth_space),
    SpaceToBatch: export_batch_space,
    BatchToSpace: export_batch_space,
}
