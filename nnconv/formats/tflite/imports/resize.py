"""Resizing of images."""

from __future__ import annotations

from nnconv.errors import Reason
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.op import Layout
from nnconv.ops.resize import ResizeBilinear, ResizeNearest

RESIZES: dict[str, type[ResizeBilinear | ResizeNearest]] = {
    "RESIZE_BILINEAR": ResizeBilinear,
    "RESIZE_NEAREST_NEIGHBOR": ResizeNearest,
}


def import_resize(s: Source) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""
    x, size = s.operand(0), s.ints(1)
    align_corners = s.options.bool("align_corners")
    half_pixel = s.options.bool("half_pixel_centers")
    if align_corners and half_pixel and s.op.name == "RESIZE_BILINEAR":
        raise s.unsupported(
            "align_corners and half_pixel_centers are both set, which LiteRT refuses",
            reason=Reason.OUT_OF_SCOPE,
        )
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise s.fail(f"size is {list(size)}, must be two positive extents")
    op = RESIZES[s.op.name](
        layout=Layout.NHWC,
        size=None if size is None else (size[0], size[1]),
        align_corners=align_corners,
        half_pixel=half_pixel,
    )
    operands = [x, s.operand(1)] if size is None else [x]
    if s.op.name == "RESIZE_BILINEAR":
        s.emit_rounded(op, operands)
    else:
        s.emit(op, operands)


IMPORTERS: dict[str, Importer] = dict.fromkeys(RESIZES, import_resize)
