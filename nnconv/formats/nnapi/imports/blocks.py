"""Operations that exchange space with depth or batch."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.op import Layout
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth

EXCHANGES: dict[str, type[DepthToSpace | SpaceToDepth]] = {
    "DEPTH_TO_SPACE": DepthToSpace,
    "SPACE_TO_DEPTH": SpaceToDepth,
}


def import_depth_space(s: Source) -> None:
    """DEPTH_TO_SPACE, SPACE_TO_DEPTH."""
    op = EXCHANGES[s.name](layout=s.layout(), block=s.positive("block_size"))
    s.emit(op, [s.operand("input")])


def import_batch_space(s: Source) -> None:
    """SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND: of height and width; nothing is cropped."""
    x, block = s.operand("input"), s.ints("block_sizes")
    first = s.layout() is Layout.NCHW
    if block is not None and (len(block) != 2 or min(block) < 1):
        raise s.fail(f"block sizes {list(block)}, must be two positive numbers")
    crops = s.name == "BATCH_TO_SPACE_ND"
    edges = (0, 0, 0, 0) if crops else s.ints("paddings")
    if edges is not None and (len(edges) != 4 or min(edges) < 0):
        raise s.fail(f"paddings {list(edges)}, must be two pairs of numbers from 0 on")
    inputs, pairs = [x], None
    if block is None or edges is None:
        none = s.const(np.zeros((2, 2), np.int32))
        inputs += [s.operand("block_sizes"), none if crops else s.operand("paddings")]
        block = None
    else:
        pairs = ((edges[0], edges[1]), (edges[2], edges[3]))
    if crops:
        s.emit(BatchToSpace(block=block, crops=pairs, channels_first=first), inputs)
    else:
        s.emit(SpaceToBatch(block=block, pads=pairs, channels_first=first), inputs)


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(EXCHANGES, import_depth_space),
    "BATCH_TO_SPACE_ND": import_batch_space,
    "SPACE_TO_BATCH_ND": import_batch_space,
}
