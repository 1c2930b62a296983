"""Activations, none of which TFLite has: they are decomposed."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, export_in_floats
from nnconv.ir.op import Op
from nnconv.ops import activation as a

EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(
    (
        a.Softplus,
        a.Softsign,
        a.Mish,
        a.Swish,
        a.Selu,
        a.Celu,
        a.ThresholdedRelu,
        a.HardSigmoid,
        a.Shrink,
    ),
    export_in_floats,
)
