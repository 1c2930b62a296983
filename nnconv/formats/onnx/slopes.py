"""PRelu in the form that onnxruntime does fastest; its own op takes up to 25 times as long."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.graph import Value
from nnconv.ir.quant import dequantize
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import Add, PRelu
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.rewrite import constant_behind

_BLOCKED = (Conv2D, MaxPool2D, AveragePool2D, Add, PRelu)
"""Ops whose result onnxruntime may leave in blocks of channels."""


def sloped(t: Target, x: Value, slope: Value, y: Value) -> str:
    """``x`` where it isn't negative, else ``slope`` times it: exact for the slopes.

    ``y`` is the result's value, whose readers count.
    """
    name, factor = t.real(x), t.real(slope)
    slopes = constant_reals(slope)
    if slopes is not None and not np.isfinite(slopes).all():  # the other forms multiply 0 by them
        return t.node("PRelu", [name, factor])
    if slopes is not None and slopes.size and bool((slopes == slopes.flat[0]).all()):
        return t.node("LeakyRelu", [name], alpha=float(slopes.flat[0]))
    # In a convolutional net x + (1 - slope) * Relu(-x) is two passes in onnxruntime's blocked
    # layout: a convolution takes the Relu in, another one the Add. With finite activations it is
    # exact for x >= 0, and as near as (1 + slope) * 2**-24 of x else.
    if slopes is not None and _is_per_channel(slopes, x) and _among_convs(x, y):
        dtype = t.real_type(x).numpy
        minus = t.const(np.full(slopes.shape, -1, dtype))
        negative = t.node("Relu", [t.node("Mul", [name, minus])])
        part = t.node("Mul", [negative, t.const((1 - slopes).astype(dtype))])
        return t.node("Add", [part, name])
    if slopes is not None and bool(((slopes <= 1) & (slopes != 0)).all()):
        return t.node("Max", [name, t.node("Mul", [name, factor])])
    negative = t.node("Relu", [t.node("Neg", [name])])
    part = t.node("Mul", [negative, factor])
    return t.node("Sub", [t.node("Relu", [name]), part])


def constant_reals(value: Value) -> np.ndarray | None:
    """The real values of a constant, or of the constant that it is a widened form of."""
    source = constant_behind(value)
    if source is None or source.data is None:
        return None
    if source.quant is not None and source.type.has_codes:
        return dequantize(source.data, source.quant)
    return source.data.astype(np.float32)


def _is_per_channel(slopes: np.ndarray, x: Value) -> bool:
    """Whether there is a slope for each channel of NCHW data."""
    return x.type.rank == 4 and x.shape is not None and slopes.shape[-3:] == (x.shape[1], 1, 1)


def _among_convs(x: Value, y: Value) -> bool:
    """Whether a float value lies between convolutions, where onnxruntime keeps it in blocks."""
    if x.quant is not None or x.type.rank != 4:
        return False
    readers = (use.node.op for use in y.uses)
    made = x.producer is not None and isinstance(x.producer.op, _BLOCKED)
    return made or any(isinstance(op, Conv2D) for op in readers)
