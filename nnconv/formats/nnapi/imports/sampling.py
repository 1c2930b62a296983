"""Pools over regions of images."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout, Op
from nnconv.ops.elementwise import Minimum, Mul
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.rewrite import reshaped, transposed
from nnconv.ops.sampling import MaxRoiPool, RoiAlign
from nnconv.ops.shape import Concat, Transpose


def _regions(s: Source) -> Value:
    """The regions [R, (x1, y1, x2, y2)] in float32, in coordinates of the image's elements."""
    rois = s.operand("rois")
    if rois.quant is not None:
        rois = s.add(Dequantize(dtype=DType.FLOAT32), [rois])
    elif rois.dtype is not DType.FLOAT32:
        rois = s.add(Cast(dtype=DType.FLOAT32), [rois])
    strides = [s.float(f"{name}_stride") for name in ("width", "height")]
    if min(strides) <= 0:
        raise s.fail(f"strides {strides}, must be above 0")
    if strides == [1.0, 1.0]:
        return rois
    scale = np.float32(1) / np.asarray(strides * 2, np.float32)
    return s.add(Mul(), [rois, s.const(scale.reshape(1, 4))])


def _held(s: Source, regions: Value) -> Value:
    """Regions that begin at the image's last element at most, of images of known extents.

    Behind that element NNAPI reads it again, while ``RoiAlign`` reads 0 from one element on. Only a
    region narrower than an element, which counts as one wide, gets that far: all of it is the last
    element then, and still is if the region begins there.
    """
    first = s.layout() is Layout.NCHW
    shape = s.operand("input").shape or (None,) * 4
    height, width = shape[2:] if first else shape[1:3]
    if not isinstance(height, int) or not isinstance(width, int):
        return regions
    most = np.array([[width - 1, height - 1, *[np.finfo(np.float32).max] * 2]], np.float32)
    return s.add(Minimum(), [regions, s.const(most)])


def _emit(s: Source, op: Op, rest: list[Value]) -> None:
    """The op on images with their channels first, and its result in the operation's layout.

    Regions are float32 whatever the images are, so half floats are widened to these.
    """
    x, first = s.of_rank(s.operand("input"), 4), s.layout() is Layout.NCHW
    narrow = x.dtype if x.quant is None and x.dtype is not DType.FLOAT32 else None
    if narrow is not None:
        x = s.add(Cast(dtype=DType.FLOAT32), [x])
    if not first:
        x = transposed(s.builder, x, (0, 3, 1, 2))
    if first and narrow is None:
        s.emit(op, [x, *rest])
        return
    result = s.add(op, [x, *rest], quant=s.result_quant())
    if not first and narrow is not None:
        result = s.add(Transpose(perm=(0, 2, 3, 1)), [result])
    s.emit(Transpose(perm=(0, 2, 3, 1)) if narrow is None else Cast(dtype=narrow), [result])


def _size(s: Source) -> tuple[int, int]:
    return s.positive("out_height"), s.positive("out_width")


def import_roi_align(s: Source) -> None:
    """ROI_ALIGN: the mean of points in each bin."""
    images = s.operand("batches")
    samples = s.int("height_samples"), s.int("width_samples")
    if min(samples) < 0:
        raise s.fail(f"{list(samples)} samples, allowed are 0 and more")
    across = None if samples[0] == samples[1] else samples[1]
    op = RoiAlign(size=_size(s), scale=1.0, samples=samples[0], across=across, half_pixel=False)
    _emit(s, op, [_held(s, _regions(s)), images])


def import_roi_pooling(s: Source) -> None:
    """ROI_POOLING: the greatest element in each bin."""
    images = s.operand("batches")
    numbers = reshaped(s.builder, s.add(Cast(dtype=DType.FLOAT32), [images]), (-1, 1))
    regions = s.add(Concat(axis=1), [numbers, _regions(s)])
    _emit(s, MaxRoiPool(size=_size(s), scale=1.0), [regions])


IMPORTERS: dict[str, Importer] = {
    "ROI_ALIGN": import_roi_align,
    "ROI_POOLING": import_roi_pooling,
}
