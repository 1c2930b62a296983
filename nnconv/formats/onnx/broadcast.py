"""Operands that had better be repeated before an elementwise op than by it."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.graph import Value
from nnconv.ir.types import static_shape

SHORT = 8
"""Runs of fewer elements are short."""

MANY = 1024
"""From so many elements on, another node costs less than short runs do."""


def in_full(value: Value, other: Value, t: Target) -> str:
    """The real values of an operand, repeated to the shape of the other where that is quicker.

    onnxruntime repeats operands run by run. With short runs an Expand first takes a quarter of the
    time ([1, 100, 32, 2] by [1, 100, 1, 2]).
    """
    name, own, wide = t.real(value), static_shape(value.shape), static_shape(other.shape)
    if own is None or wide is None or value.data is not None or not value.dtype.is_float:
        return name
    if own == wide or math.prod(own) == 1 or math.prod(wide) < MANY:
        return name
    if np.broadcast_shapes(own, wide) != wide:
        return name
    padded = (1,) * (len(wide) - len(own)) + own
    return t.node("Expand", [name, t.const(list(wide))]) if _run(padded, wide) < SHORT else name


def _run(own: tuple[int, ...], wide: tuple[int, ...]) -> int:
    """How many neighbours are read alike: each of ``own`` once, or one of it for all."""
    run = 1
    alike: bool | None = None
    for a, b in zip(reversed(own), reversed(wide), strict=True):
        if b == 1:
            continue
        if alike is not None and alike != (a == b):
            break
        alike, run = a == b, run * b
    return run
