"""Moving regions of images, and finding points in them."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ops.regions import BoxTransform, HeatmapKeypoints


def import_bbox_transform(s: Source) -> None:
    """AXIS_ALIGNED_BBOX_TRANSFORM."""
    names = ("rois", "deltas", "batches", "image_info")
    s.emit(BoxTransform(), [s.operand(name) for name in names])


def import_heatmap_max_keypoint(s: Source) -> None:
    """HEATMAP_MAX_KEYPOINT: square maps of 2 elements and more a side."""
    maps, boxes = s.operand("heatmap"), s.operand("boxes")
    sides = (maps.shape or ())[2:3]  # in either layout one of the two
    if any(isinstance(side, int) and side < 2 for side in sides):
        raise s.fail(f"the heatmap has the shape {list(maps.shape or ())}, must be 2 or more")
    s.emit(HeatmapKeypoints(points_first=s.bool("nchw")), [maps, boxes])


IMPORTERS: dict[str, Importer] = {
    "AXIS_ALIGNED_BBOX_TRANSFORM": import_bbox_transform,
    "HEATMAP_MAX_KEYPOINT": import_heatmap_max_keypoint,
}
