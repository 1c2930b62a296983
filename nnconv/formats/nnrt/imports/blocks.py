"""Blocks of pixels moved into the batch or the channels, and back."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.imports.conv import positive_pair
from nnconv.ops.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth

Edges = tuple[tuple[int, int], tuple[int, int]]


def _edges(s: Source, name: str) -> Edges:
    """Rows of what is put or cut at the height and at the width."""
    numbers = s.list(name, 4)
    if min(numbers) < 0:
        raise s.fail(f"{name} are {list(numbers)}, allowed are 0 and more")
    top, bottom, left, right = numbers
    return (top, bottom), (left, right)


def import_batch_to_space(s: Source) -> None:
    """BATCH_TO_SPACE_ND."""
    x = s.of_rank(s.operand("input"), 4)
    op = BatchToSpace(block=positive_pair(s, "blockSize"), crops=_edges(s, "crops"))
    s.emit(op, [x])


def import_space_to_batch(s: Source) -> None:
    """SPACE_TO_BATCH_ND."""
    x = s.of_rank(s.operand("input"), 4)
    op = SpaceToBatch(block=positive_pair(s, "blockShape"), pads=_edges(s, "paddings"))
    s.emit(op, [x])


def import_depth_to_space(s: Source) -> None:
    """DEPTH_TO_SPACE: depth innermost (mode 0) or outermost."""
    x = s.of_rank(s.operand("input"), 4)
    op = DepthToSpace(block=s.positive("blockSize"), column_row_depth=bool(s.int("mode")))
    s.emit(op, [x])


def import_space_to_depth(s: Source) -> None:
    """SPACE_TO_DEPTH."""
    x = s.of_rank(s.operand("input"), 4)
    s.emit(SpaceToDepth(block=s.positive("blocksize")), [x])


IMPORTERS: dict[str, Importer] = {
    "BATCH_TO_SPACE_ND": import_batch_to_space,
    "DEPTH_TO_SPACE": import_depth_to_space,
    "SPACE_TO_BATCH_ND": import_space_to_batch,
    "SPACE_TO_DEPTH": import_space_to_depth,
}
