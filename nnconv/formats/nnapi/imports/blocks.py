"""Operations that exchange space with depth or batch."""

from __future__ import annotations

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
    x, block = s.operand("input"), s.required_ints("block_sizes")
    if len(block) != 2 or min(block) < 1:
        raise s.fail(f"block sizes {list(block)}, must be two positive numbers")
    first = s.layout() is Layout.NCHW
    if s.name == "BATCH_TO_SPACE_ND":
        s.emit(BatchToSpace(block=block, crops=((0, 0), (0, 0)), channels_first=first), [x])
        return
    pads = s.required_ints("paddings")
    if len(pads) != 4 or min(pads) < 0:
        raise s.fail(f"paddings {list(pads)}, must be two pairs of numbers from 0 on")
    pairs = ((pads[0], pads[1]), (pads[2], pads[3]))
    s.emit(SpaceToBatch(block=block, pads=pairs, channels_first=first), [x])


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(EXCHANGES, import_depth_space),
    "BATCH_TO_SPACE_ND": import_batch_space,
    "SPACE_TO_BATCH_ND": import_batch_space,
}
