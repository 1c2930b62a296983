"""What numbers the codes of a type stand for."""

from __future__ import annotations

import numpy as np

from nnconv.ir.quant import Quant, dequantize
from nnconv.ir.types import TensorType


def is_implied(bounds: tuple[float, float], kind: TensorType) -> bool:
    """Whether no code of a type stands for a number outside of bounds, but for half a step."""
    low, high = range_of(kind)
    reach = step_of(kind) / 2
    return low >= bounds[0] - reach and high <= bounds[1] + reach


def range_of(kind: TensorType) -> tuple[float, float]:
    """The least and the greatest number that codes of a type stand for."""
    assert kind.quant is not None
    ends = dequantize(np.asarray(kind.dtype.int_range), kind.quant, np.float64)
    return float(ends[0]), float(ends[1])


def step_of(kind: TensorType) -> float:
    """How far neighbouring codes of a type are apart."""
    quant: Quant | None = kind.quant
    assert quant is not None
    return quant.scale[0]
