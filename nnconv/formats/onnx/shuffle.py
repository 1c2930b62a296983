"""Quantized transposed convolutions as ordinary ones.

Each result pixel belongs to a phase, its place modulo the stride. The pixels of one phase are an
ordinary convolution of the input with the filter's taps of that phase. All phases together are one
convolution with stride * stride times the filters, whose result is then laid out as pixels. That
has an integer kernel (0.37 to 0.51 of the time of ConvTranspose on floats), and gives the same
bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.weights import bias as bias_of
from nnconv.formats.onnx.weights import codes_as_weights
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.quant import Quant
from nnconv.ir.types import static_shape
from nnconv.ops.conv import ConvTranspose2D


class _Phases(NamedTuple):
    """One dimension: result pixel ``stride * q + r`` reads inputs ``q + first`` to ``q + last``."""

    stride: int
    before: int
    first: int
    last: int
    pixels: int

    @property
    def window(self) -> int:
        return self.last - self.first + 1


def _phases(window: int, stride: int, before: int, out: int) -> _Phases:
    # result pixel stride * q + r is full pixel stride * q + t, t = r + before, and meets input
    # q + d with tap t - stride * d
    first = -(-(before - window + 1) // stride)
    last = (stride - 1 + before) // stride
    return _Phases(stride, before, first, last, -(-out // stride))


def export_by_phases(node: Node, t: Target) -> bool:
    """Export a ConvTranspose2D on codes with constant parameters; False if it can't be done so."""
    op, y = node.op, node.outputs[0]
    x, filters, bias = node.operand(0), node.operand(1), node.optional(2)
    if not isinstance(op, ConvTranspose2D) or op.groups != 1 or op.dilation != (1, 1):
        return False
    if x.shape is None or y.shape is None or max(op.stride) == 1:
        return False
    shape, out = static_shape(x.shape[1:]), static_shape(y.shape[1:])
    batch = y.shape[0] if isinstance(y.shape[0], int) else -1
    if shape is None or out is None or 0 in (batch, *shape, *out):
        return False
    if bias is not None and bias.data is None:
        return False
    if max(op.stride) > 4:
        return False  # too many of the taps would be zeros
    if op.activation is not Activation.NONE and op.activation.bounds is None:
        return False
    assert filters.data is not None
    axes = [
        _phases(filters.data.shape[1 + i], op.stride[i], op.padding.before[i], out[1 + i])
        for i in range(2)
    ]
    pads = [-axis.first for axis in axes]
    pads += [
        axis.pixels - shape[1 + i] + axis.first + axis.window - 1 for i, axis in enumerate(axes)
    ]
    if min(pads) < 0:
        return False
    weights = _weights(filters, axes)
    assert weights.data is not None
    assert weights.quant is not None
    data, spread = weights.data.transpose(0, 3, 1, 2), weights.quant
    inputs = [
        t.real(x),
        codes_as_weights(t, data, weights.dtype, spread, name=filters.name, x=x, integer=True),
    ]
    if bias is not None:
        inputs.append(bias_of(t, _tiled(bias, axes), x=x, weights=weights, integer=True))
    result = t.node("Conv", inputs, pads=pads)
    quant, dtype = t.inner_quant(y), t.inner_type(y)
    image = _pixels(t, t.quantize(result, quant, dtype), axes, (batch, *out))
    if op.activation.bounds is not None:
        image = t.clip_codes(image, quant, dtype, op.activation.bounds)
    t.set_codes(y, image)
    return True


def _weights(filters: Value, axes: list[_Phases]) -> Value:
    """Filters [stride * stride * O, window, window, I] of all phases, row phases outermost."""
    data, quant = filters.data, filters.quant
    assert data is not None
    assert quant is not None
    rows, columns = axes
    out, height, width, depth = data.shape
    zero = np.asarray(quant.zero_point, np.int64).astype(data.dtype).reshape(-1, 1, 1, 1)
    grid = np.empty(
        (rows.stride, columns.stride, out, rows.window, columns.window, depth), data.dtype
    )
    grid[...] = zero
    for r in range(rows.stride):
        for c in range(columns.stride):
            for i in range(rows.window):
                for j in range(columns.window):
                    tap_row = r + rows.before - rows.stride * (rows.first + i)
                    tap_column = c + columns.before - columns.stride * (columns.first + j)
                    if 0 <= tap_row < height and 0 <= tap_column < width:
                        grid[r, c, :, i, j] = data[:, tap_row, tap_column]
    times = rows.stride * columns.stride
    tiled = quant if quant.axis is None else _tiled_quant(quant, times)
    merged = grid.reshape(times * out, rows.window, columns.window, depth)
    kind = type(filters.type)(filters.dtype, merged.shape, tiled)
    return Value(filters.name, kind, data=merged)


def _tiled_quant(quant: Quant, times: int) -> Quant:
    return Quant(scale=quant.scale * times, zero_point=quant.zero_point * times, axis=0)


def _tiled(bias: Value, axes: list[_Phases]) -> Value:
    """The bias once for each phase."""
    times = axes[0].stride * axes[1].stride
    assert bias.data is not None
    quant = bias.quant
    if quant is not None and quant.axis is not None:
        quant = _tiled_quant(quant, times)
    data = np.tile(bias.data, times)
    return Value(bias.name, type(bias.type)(bias.dtype, data.shape, quant), data=data)


def _pixels(t: Target, codes: str, axes: list[_Phases], out: tuple[int, ...]) -> str:
    """Phases in channels laid out as pixels, by way of channels last, which the kernel has."""
    rows, columns = axes
    batch, channels, height, width = out
    last = t.node("Transpose", [codes], perm=(0, 2, 3, 1))
    split = t.reshape(
        last, (batch, rows.pixels, columns.pixels, rows.stride, columns.stride, channels)
    )
    woven = t.node("Transpose", [split], perm=(0, 1, 3, 2, 4, 5))
    full = (rows.pixels * rows.stride, columns.pixels * columns.stride)
    image = t.reshape(woven, (batch, *full, channels))
    if full != (height, width):
        image = t.node("Slice", [image, t.const([0, 0]), t.const([height, width]), t.const([1, 2])])
    return t.node("Transpose", [image], perm=(0, 3, 1, 2))
