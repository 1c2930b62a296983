"""Pools over regions of images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Minimum, Mul
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.sampling import MaxRoiPool, RoiAlign
from nnconv.ops.shape import Concat, Reshape


class _Regions(NamedTuple):
    """Regions as NNAPI takes them.

    Attributes:
        rois: [R, 4], codes where the images are.
        width, height: what their coordinates are divided by.
    """

    rois: Value
    width: float
    height: float


def _regions(t: Target, x: Value, rois: Value, scale: float) -> _Regions:
    """What regions in float32 were made of, where that is what NNAPI takes.

    Raises:
        Refused: the images are codes, and the regions aren't made of such.
    """
    strides = np.full(4, 1 / np.float64(scale)) if scale > 0 else None
    if strides is None:
        raise t.refused(f"NNAPI's strides are above 0, the scale is {scale:g}")
    product = rois.producer
    if product is not None and isinstance(product.op, Mul) and len(product.inputs) == 2:
        factors = product.operand(1).data
        if factors is not None and factors.size == 4 and (factors > 0).all():
            own = strides / factors.reshape(-1).astype(np.float64)
            if own[0] == own[2] and own[1] == own[3]:
                strides, rois = own, product.operand(0)
    codes = rois.producer
    if x.type.has_codes:
        if codes is None or not isinstance(codes.op, Dequantize):
            raise t.to_floats("the regions of NNAPI's quantized images are codes")
        rois = codes.operand(0)
    width, height = (float(np.float32(stride)) for stride in strides[:2])
    return _Regions(rois, width, height)


def _not_held(x: Value, rois: Value, scale: float) -> Value:
    """Regions before they were made to begin at the last element at most, as NNAPI reads them."""
    node = rois.producer
    if node is None or not isinstance(node.op, Minimum) or x.shape is None:
        return rois
    bounds, last = node.operand(1).data, list(reversed(x.shape[2:]))
    if bounds is None or bounds.size != 4 or not all(isinstance(extent, int) for extent in last):
        return rois
    first, rest = bounds.reshape(-1)[:2], bounds.reshape(-1)[2:]
    edge = np.asarray(last, np.float64) - 1
    holds = (first * scale >= edge).all() and (rest >= np.finfo(np.float32).max).all()
    return node.operand(0) if holds else rois


def export_roi_align(node: Node, t: Target) -> None:
    """ROI_ALIGN of images with their channels first; its regions aren't of elements' edges."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, RoiAlign)
    if op.half_pixel or op.greatest:
        raise t.refused("ROI_ALIGN takes the mean of points that count from elements' middles")
    regions = _regions(t, x, _not_held(x, node.operand(1), op.scale), op.scale)
    operands = {
        "input": x,
        "rois": regions.rois,
        "batches": t.index(node.operand(2)),
        "out_height": op.size[0],
        "out_width": op.size[1],
        "height_stride": regions.height,
        "width_stride": regions.width,
        "height_samples": op.samples,
        "width_samples": op.samples if op.across is None else op.across,
        "nchw": True,
    }
    t.emit("ROI_ALIGN", operands, node.outputs[0])


def _numbered(t: Target, regions: Value) -> tuple[Ref, Value]:
    """The images' numbers and the regions behind them.

    Raises:
        Refused: they weren't put together of these.
    """
    joined = regions.producer
    if joined is not None and isinstance(joined.op, Concat) and len(joined.inputs) == 2:
        numbers, rois = joined.operand(0), joined.operand(1)
        if numbers.producer is not None and isinstance(numbers.producer.op, Reshape):
            numbers = numbers.producer.operand(0)
        if rois.shape is not None and len(rois.shape) == 2 and rois.shape[1] == 4:
            if numbers.producer is not None and isinstance(numbers.producer.op, Cast):
                source = numbers.producer.operand(0)
                if source.dtype is DType.INT32 and len(source.shape or ()) == 1:
                    return t.operand(source), rois
            if numbers.data is not None:
                return t.const(numbers.data.reshape(-1).astype(np.int32)), rois
            count = rois.shape[0] if isinstance(rois.shape[0], int) else None
            flat = t.result(
                "RESHAPE",
                {"input": numbers, "shape": t.ints([-1 if count is None else count])},
                TensorType(numbers.dtype, (count,)),
            )
            kind = TensorType(DType.INT32, (count,))
            return t.result("CAST", {"input": flat}, kind), rois
    raise t.refused("ROI_POOLING takes regions apart from the numbers of their images")


def export_max_roi_pool(node: Node, t: Target) -> None:
    """ROI_POOLING of images with their channels first."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, MaxRoiPool)
    numbers, rois = _numbered(t, node.operand(1))
    regions = _regions(t, x, rois, op.scale)
    operands = {
        "input": x,
        "rois": regions.rois,
        "batches": numbers,
        "out_height": op.size[0],
        "out_width": op.size[1],
        "height_stride": regions.height,
        "width_stride": regions.width,
        "nchw": True,
    }
    t.emit("ROI_POOLING", operands, node.outputs[0])


EXPORTERS: dict[type[Op], Exporter] = {
    MaxRoiPool: export_max_roi_pool,
    RoiAlign: export_roi_align,
}
