"""Biases of quantized layers, whose scales follow from those of the data and the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant, dequantize
from nnconv.ops.quantize import Bitcast

_MOST_WIDE = 1 << 62
"""Bounds of int64 biases: float64 has no number at the end of int64's own."""


def bias_quant(x: Quant, weights: Quant) -> Quant:
    """The product of the scales, the zero point 0; for each filter where the weights have that."""
    scale = weights.scales.astype(np.float64) * x.scale[0]
    if weights.axis is None:
        return Quant.per_tensor(scale[0])
    return Quant.per_channel(scale, axis=0)


def with_quant(builder: Builder, value: Value, quant: Quant | None) -> Value:
    """A value with the same elements and other quantization parameters."""
    if value.quant == quant:
        return value
    kind = replace(value.type, quant=quant)
    if value.data is not None:
        return Value(value.name, kind, data=value.data, origin=value.origin)
    return builder.add_typed(Bitcast(dtype=value.dtype), [value], [kind], names=[value.name])[0]


def bias_codes(bias: Value, quant: Quant, dtype: DType = DType.INT32) -> np.ndarray | None:
    """The elements of a bias as codes of other parameters; None if it isn't known.

    They stay as they are where its own parameters are the same.
    """
    if bias.data is None:
        return None
    data: np.ndarray = bias.data.reshape(-1)
    own = bias.quant
    if own is not None and bias.dtype is dtype and is_alike(own, quant):
        return data
    real = data.astype(np.float64) if own is None else dequantize(bias.data, own, np.float64)
    codes = np.rint(real.reshape(-1) / np.asarray(quant.scale))
    low, high = DType.INT32.int_range if dtype is DType.INT32 else (-_MOST_WIDE, _MOST_WIDE)
    clipped = np.clip(codes, low, high)
    result: np.ndarray = clipped.astype(dtype.numpy)
    return result


def is_alike(a: Quant, b: Quant) -> bool:
    """Whether two biases have the same scales but for rounding."""
    return (
        a.is_symmetric
        and len(a.scale) == len(b.scale)
        and bool(np.all(np.abs(a.scales - b.scales) <= 1e-6 * b.scales))
    )
