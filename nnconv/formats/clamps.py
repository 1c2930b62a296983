"""A clamp as a maximum and a minimum with constants."""

from __future__ import annotations

import math

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import quantize
from nnconv.ops.elementwise import Clip


def clamp_steps(op: Clip, y: Value) -> list[tuple[str, np.ndarray]]:
    """MAXIMUM and MINIMUM with their bounds as ``y`` is stored, but for those that do nothing."""
    if y.quant is None:
        bounds = _in_type(op, y.dtype)
    else:
        bounds = quantize(np.asarray([op.low, op.high], np.float64), y.quant, y.dtype)
    ends = (-math.inf, math.inf) if y.dtype.is_float else y.dtype.int_range
    steps = zip(("MAXIMUM", "MINIMUM"), bounds, ends, strict=True)
    return [(name, bound) for name, bound, end in steps if bound != end]


def _in_type(op: Clip, dtype: DType) -> np.ndarray:
    """The bounds as numbers of a type, those beyond its range at its ends."""
    if dtype.is_float:
        return np.asarray([op.low, op.high], dtype.numpy)
    least, greatest = dtype.int_range
    bounds = [
        least if op.low < least else greatest if op.low > greatest else math.ceil(op.low),
        greatest if op.high > greatest else least if op.high < least else math.floor(op.high),
    ]
    return np.asarray(bounds, dtype.numpy)
