"""Fourier transforms: complex results are pairs of floats."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.bounds import bounded_elements
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.signal import RFFT2D


def export_rfft2d(node: Node, t: Target) -> None:
    """RFFT2D: matrix products with the transforms' matrices, which beat the DFT op."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, RFFT2D)
    assert x is not None
    if x.shape is None:
        raise t.unsupported(f"the rank of `{x.name}` isn't known")
    if op.length is None:
        t.set_pairs(y, _by_dft(t, x, node.inputs[1]))
        return
    height, width = op.length
    bounded_elements(t, max(height, width) ** 2)
    name = _cut_or_filled(t, x, op.length)
    angles = 2 * np.pi * np.outer(np.arange(width), np.arange(width // 2 + 1)) / width
    across = [t.const(m.astype(np.float32)) for m in (np.cos(angles), -np.sin(angles))]
    real, imaginary = (t.node("MatMul", [name, matrix]) for matrix in across)
    if height > 1:
        angles = 2 * np.pi * np.outer(np.arange(height), np.arange(height)) / height
        cosine, sine = (t.const(m.astype(np.float32)) for m in (np.cos(angles), np.sin(angles)))
        # (cosine - i sine) (real + i imaginary)
        down = [t.node("MatMul", [m, part]) for m in (cosine, sine) for part in (real, imaginary)]
        real = t.node("Add", [down[0], down[3]])
        imaginary = t.node("Sub", [down[1], down[2]])
    last = t.const([-1])
    parts = [t.node("Unsqueeze", [part, last]) for part in (real, imaginary)]
    t.set_pairs(y, t.node("Concat", parts, axis=-1))


def _cut_or_filled(t: Target, x: Value, length: tuple[int, int]) -> str:
    """The real values with the last two extents made ``length``: cut, or filled with zeros."""
    assert x.shape is not None
    name, rank = t.real(x), len(x.shape)
    if tuple(x.shape[-2:]) == length:
        return name
    pads = np.zeros(2 * rank, np.int64)
    pads[-2:] = length  # first longer than needed whatever the extents, then cut
    if all(isinstance(d, int) for d in x.shape[-2:]):
        pads[-2:] = [max(n - int(d or 0), 0) for n, d in zip(length, x.shape[-2:], strict=True)]
    if pads.any():
        name = t.node("Pad", [name, t.const(pads)])
    return t.node(
        "Slice", [name, t.const([0, 0]), t.const(list(length)), t.const([rank - 2, rank - 1])]
    )


def _by_dft(t: Target, x: Value, length: Value | None) -> str:
    """The transform by the DFT op, whose length may be computed at run time."""
    t.require_opset(20, "Fourier transforms whose length is computed at run time")
    flat = t.reshape(t.int64(length), (-1,))
    height, width = (
        t.node("Gather", [flat, t.const(np.asarray(i, np.int64))], axis=0) for i in (0, 1)
    )
    # DFT wants a last dimension of one (real) or two (complex) and counts axes with it
    name = t.node("Unsqueeze", [t.real(x), t.const([-1])])
    name = t.node("DFT", [name, width, t.const(np.asarray(-2, np.int64))], onesided=1)
    return t.node("DFT", [name, height, t.const(np.asarray(-3, np.int64))])


EXPORTERS: dict[type[Op], Exporter] = {RFFT2D: export_rfft2d}
