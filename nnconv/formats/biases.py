"""Biases of quantized layers, whose scales follow from those of the data and the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ops.quantize import Bitcast


def bias_quant(x: Quant, weights: Quant) -> Quant:
    """The product of the scales, the zero point 0; for each filter where the weights have that."""
    scale = np.asarray(weights.scale, np.float64) * x.scale[0]
    if weights.axis is None:
        return Quant.per_tensor(scale[0])
    return Quant.per_channel(scale.tolist(), axis=0)


def with_quant(builder: Builder, value: Value, quant: Quant | None) -> Value:
    """A value with the same elements and other quantization parameters."""
    if value.quant == quant:
        return value
    kind = replace(value.type, quant=quant)
    if value.data is not None:
        return Value(value.name, kind, data=value.data, origin=value.origin)
    return builder.add_typed(Bitcast(dtype=value.dtype), [value], [kind], names=[value.name])[0]
