"""Zero channels between convolutions of floats, as residual nets add them where they widen."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import Add, PRelu
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.slices import Pad, PadMode

MOST = 256
"""Channels up to which a convolution was seen to gain; its products grow with the square."""

_BLOCKED = (Conv2D, MaxPool2D, AveragePool2D, Add, PRelu)
"""Ops whose results onnxruntime keeps in blocks of channels."""


def adds_channels(op: Pad, node: Node) -> bool:
    """Whether a Pad puts zeros behind the channels of floats in NCHW, for Adds alone."""
    x, y = node.inputs[0], node.outputs[0]
    if x is None or x.dtype is not DType.FLOAT32 or x.shape is None or len(x.shape) != 4:
        return False
    if op.mode is not PadMode.CONSTANT or op.value or any(v is not None for v in node.inputs[1:]):
        return False
    if op.before is None or op.after is None or any((*op.before, op.after[0], *op.after[2:])):
        return False
    channels = x.shape[1]
    if not isinstance(channels, int) or channels % 4 or channels + op.after[1] > MOST:
        return False
    if x.producer is None or not isinstance(x.producer.op, _BLOCKED) or not y.use_count:
        return False
    return all(isinstance(use.node.op, Add) for use in y.uses)


def more_channels(t: Target, x: Value, op: Pad) -> str:
    """``x`` with zero channels behind, by a convolution that copies the others.

    Unlike Pad it keeps onnxruntime's blocked layout, for all elementwise ops that follow too, and
    takes the Add in: 0.7 to 0.8 of a whole net's time. Where one channel isn't finite, all of that
    place become NaN, as the next convolution would make them.
    """
    assert x.shape is not None
    assert op.after is not None
    channels = x.shape[1]
    assert isinstance(channels, int)
    same = np.eye(channels + op.after[1], channels, dtype=np.int8)[:, :, None, None]
    return t.node("Conv", [t.codes(x), t.cast(t.const(same), DType.FLOAT32)])
