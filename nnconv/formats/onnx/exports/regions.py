"""Moving regions of images, and finding points in them."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter
from nnconv.formats.onnx.spelled import export_in_parts
from nnconv.ir.op import Op
from nnconv.ops.regions import BoxTransform, HeatmapKeypoints

EXPORTERS: dict[type[Op], Exporter] = {
    BoxTransform: export_in_parts,
    HeatmapKeypoints: export_in_parts,
}
