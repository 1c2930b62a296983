"""Choosing boxes."""

from __future__ import annotations

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ops.detection import SelectBoxes


def import_non_max_suppression(src: Source) -> None:
    """NonMaxSuppression."""
    operands = [src.operand(0), src.operand(1), *(src.optional(i) for i in (2, 3, 4))]
    while operands[-1] is None:
        operands.pop()
    src.emit(SelectBoxes(centred=bool(src.int("center_point_box", 0))), operands)


IMPORTERS: dict[str, Importer] = {"NonMaxSuppression": import_non_max_suppression}
