"""Constants that decompositions need."""

from __future__ import annotations

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Value
from nnconv.ops.elementwise import Add, Mul, Sub

MOST_ELEMENTS = 1 << 24
"""Constants of more elements aren't made for a decomposition: a file's extents may be any."""


def scalar(b: Builder, number: float, like: Value) -> Value:
    """A constant of one element, of another value's type."""
    return b.const(np.asarray(number, like.dtype.numpy))


HALF_STEPS = 8388608.0
"""From 2**23 on float32 has no fractions; adding it to smaller numbers rounds them to even."""


def round_small(x: Value, b: Builder) -> Value:
    """A float32 value within 2**22, rounded half to even: (x + 3 * 2**22) - 3 * 2**22."""
    limit = scalar(b, 1.5 * HALF_STEPS, x)
    return b.add(Sub(), [b.add(Add(), [x, limit]), limit])


def times(x: Value, factor: float, b: Builder) -> Value:
    """A value times a number."""
    return x if factor == 1 else b.add(Mul(), [x, scalar(b, factor, x)])
