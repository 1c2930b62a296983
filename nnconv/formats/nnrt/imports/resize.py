"""Resizing of images."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.imports.conv import image
from nnconv.ops.resample import Coordinates, Policy, Resample
from nnconv.ops.resize import ResizeBilinear

COORDINATES = {
    0: Coordinates.ASYMMETRIC,
    1: Coordinates.ALIGN_CORNERS,
    2: Coordinates.HALF_PIXEL,
}


def import_resize_bilinear(s: Source) -> None:
    """RESIZE_BILINEAR."""
    x, mode = s.operand("input"), s.int("coordinateTransformMode")
    image(s, x)
    size = s.positive("newHeight"), s.positive("newWidth")
    if mode not in COORDINATES:
        raise s.fail(f"coordinateTransformMode is {mode}, allowed are 0 to 2")
    keeps_ratio, excludes = s.bool("preserveAspectRatio"), s.int("excludeOutside")
    if excludes not in (0, 1):
        raise s.fail(f"excludeOutside is {excludes}, allowed are 0 and 1")
    if not keeps_ratio:
        # Of two neighbours, none counts that lies outside: the edge goes on, or what is left is
        # divided by its weight, which is the same.
        op = ResizeBilinear(size=size, align_corners=mode == 1, half_pixel=mode == 2)
        s.emit(op, [x])
        return
    s.emit(
        Resample(
            axes=(1, 2),
            sizes=size,
            coordinates=COORDINATES[mode],
            policy=Policy.NOT_LARGER,
            exclude_outside=bool(excludes),
        ),
        [x],
    )


IMPORTERS: dict[str, Importer] = {"RESIZE_BILINEAR": import_resize_bilinear}
