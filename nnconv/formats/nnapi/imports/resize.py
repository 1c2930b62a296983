"""Resizing of images: to extents, or by factors. The width comes before the height."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.hints import GIVE_SHAPES
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.imports.conv import image_dims
from nnconv.formats.nnapi.types import OperandCode
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ops.resample import RESIZE_FLAGS, Coordinates, Resample, ResampleNearest, Rounding
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.spatial import spatial_dims

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
    for name, extent in zip(NAMES, extents, strict=True):
        if s.wire(name).type is OperandCode.INT32:
            sizes.append(s.positive(name))
            continue
        if not isinstance(extent, int):
            _by_factors(s, x, layout, flags=(align_corners, half_pixel))
            return
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


NAMES = ("height", "width")


def _by_factors(s: Source, x: Value, layout: Layout, *, flags: tuple[bool, bool]) -> None:
    """Extents that aren't known, times whole factors."""
    numbers = [s.float(n) for n in NAMES if s.wire(n).type is not OperandCode.INT32]
    coordinates = {known: mode for mode, known in RESIZE_FLAGS.items()}[flags]
    aligned = coordinates is Coordinates.ALIGN_CORNERS and s.name != "RESIZE_BILINEAR"
    if len(numbers) < len(NAMES) or aligned or any(f < 1 or f != int(f) for f in numbers):
        raise s.unsupported(
            f"its extents aren't known, and {numbers} aren't two whole factors of them",
            hint=GIVE_SHAPES,
        )
    axes, scales = tuple(spatial_dims(4, layout)), (numbers[0], numbers[1])
    if s.name == "RESIZE_BILINEAR":
        s.emit(Resample(axes=axes, scales=scales, coordinates=coordinates), [x])
        return
    # Either way element i is i // factor.
    plain = Coordinates.ASYMMETRIC
    s.emit(
        ResampleNearest(axes=axes, scales=scales, coordinates=plain, rounding=Rounding.FLOOR), [x]
    )


IMPORTERS: dict[str, Importer] = dict.fromkeys(RESIZES, import_resize)
