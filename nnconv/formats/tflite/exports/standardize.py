"""Normalizations, which TFLite has none of: in float32, by their parts."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, export_in_floats
from nnconv.ir.op import Op
from nnconv.ops import standardize as s

EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(
    (
        s.BatchNormalization,
        s.InstanceNormalization,
        s.GroupNormalization,
        s.LayerNormalization,
        s.RmsNormalization,
        s.MeanVarianceNormalization,
    ),
    export_in_floats,
)
