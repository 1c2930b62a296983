"""Ops that exchange space with depth or batch."""

from __future__ import annotations

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.op import Layout
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth


def _block(s: Source) -> int:
    block = s.options.int("block_size")
    if block < 1:
        raise s.fail(f"block size {block}, must be positive")
    return block


def import_depth_to_space(s: Source) -> None:
    """DEPTH_TO_SPACE."""
    s.emit(DepthToSpace(layout=Layout.NHWC, block=_block(s)), [s.operand(0)])


def import_space_to_depth(s: Source) -> None:
    """SPACE_TO_DEPTH."""
    s.emit(SpaceToDepth(layout=Layout.NHWC, block=_block(s)), [s.operand(0)])


def import_space_to_batch(s: Source) -> None:
    """SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND."""
    x, block, edges = s.operand(0), s.ints(1), s.ints(2)
    known = block is not None and edges is not None
    inputs = [x] if known else [x, s.operand(1), s.operand(2)]
    pairs = None
    if known and edges is not None:
        pairs = tuple(zip(edges[0::2], edges[1::2], strict=True))
    sizes = block if known else None
    if s.op.name == "SPACE_TO_BATCH_ND":
        s.emit(SpaceToBatch(block=sizes, pads=pairs), inputs)
    else:
        s.emit(BatchToSpace(block=sizes, crops=pairs), inputs)


IMPORTERS: dict[str, Importer] = {
    "DEPTH_TO_SPACE": import_depth_to_space,
    "SPACE_TO_DEPTH": import_space_to_depth,
    "SPACE_TO_BATCH_ND": import_space_to_batch,
    "BATCH_TO_SPACE_ND": import_space_to_batch,
}
