"""Resizing of images of open extents, by whole factors; all else becomes other ops."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.resample import (
    RESIZE_FLAGS,
    Resample,
    ResampleNearest,
    known_axes,
    whole_factors,
)

_FLAGS_LEVEL = 4
"""The feature level that knows other places of pixels than those of corners."""


def export_resample(node: Node, t: Target) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR by factors; of known extents sizes are exacter."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Resample | ResampleNearest)
    found = whole_factors(op, x.type.rank)
    flags = (False, False)
    if isinstance(op, ResampleNearest):
        name, takes = "RESIZE_NEAREST_NEIGHBOR", op.repeats
    else:
        simple = not (op.cubic or op.antialias or op.exclude_outside)
        name, takes = "RESIZE_BILINEAR", simple and op.coordinates in RESIZE_FLAGS
        flags = RESIZE_FLAGS.get(op.coordinates, flags)
    if found is None or not takes or known_axes(op, x.shape) is not None:
        raise t.refused(f"NNAPI has no {op.name} but by whole factors of extents that aren't known")
    if t.level < _FLAGS_LEVEL and any(flags):
        raise t.refused(f"feature level {t.level} doesn't know where its pixels lie")
    layout, (height, width) = found
    inputs = {
        "input": x,
        "width": float(width),
        "height": float(height),
        "nchw": t.nchw(layout),
        "align_corners": flags[0],
        "half_pixel_centers": flags[1],
    }
    t.emit(name, inputs, node.outputs[0])


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys((Resample, ResampleNearest), export_resample)
