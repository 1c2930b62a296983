"""Resizing of images: to extents, or by factors. The width comes before the height."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.imports.conv import image_dims
from nnconv.formats.nnapi.types import OperandCode
from nnconv.ops.resize import ResizeBilinear, ResizeNearest

RESIZES: dict[str, type[ResizeBilinear | ResizeNearest]] = {
    "RESIZE_BILINEAR": ResizeBilinear,
    "RESIZE_NEAREST_NEIGHBOR": ResizeNearest,
}


def import_resize(s: Source) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""
    x, layout = s.operand("input"), s.layout()
    extents, _ = image_dims(s, x, layout)
    align_corners, half_pixel = s.bool("align_corners"), s.bool("half_pixel_centers")
    if align_corners and half_pixel:
        raise s.fail("align_corners and half_pixel_centers exclude one another")
    sizes = []
    for name, extent in zip(("height", "width"), extents, strict=True):
        if s.wire(name).type is OperandCode.INT32:
            sizes.append(s.positive(name))
            continue
        if not isinstance(extent, int):
            raise s.unsupported(f"the {name} isn't known, which a factor needs")
        sizes.append(math.floor(np.float32(extent) * np.float32(s.float(name))))
    if min(sizes) < 1:
        raise s.fail(f"size {sizes}, must be two positive extents")
    op = RESIZES[s.name](
        layout=layout,
        size=(sizes[0], sizes[1]),
        align_corners=align_corners,
        half_pixel=half_pixel,
    )
    s.emit(op, [x])


IMPORTERS: dict[str, Importer] = dict.fromkeys(RESIZES, import_resize)
