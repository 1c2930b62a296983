"""Ops that cut, pad, turn round or overwrite stretches of a tensor."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter
from nnconv.formats.tflite.exports.pad import export_pad
from nnconv.ir.op import Op
from nnconv.ops.slices import Pad

EXPORTERS: dict[type[Op], Exporter] = {
    Pad: export_pad,
}
