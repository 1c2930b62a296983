"""Constants that decompositions need."""

from __future__ import annotations

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Value
from nnconv.ops.elementwise import Mul

MOST_ELEMENTS = 1 << 24
"""Constants of more elements aren't made for a decomposition: a file's extents may be any."""


def scalar(b: Builder, number: float, like: Value) -> Value:
    """A constant of one element, of another value's type."""
    return b.const(np.asarray(number, like.dtype.numpy))


def times(x: Value, factor: float, b: Builder) -> Value:
    """A value times a number."""
    return x if factor == 1 else b.add(Mul(), [x, scalar(b, factor, x)])
