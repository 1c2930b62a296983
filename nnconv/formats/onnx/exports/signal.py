"""Fourier transforms: complex results are pairs of floats."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.bounds import bounded_elements
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.signal import RFFT2D, Dft, MelWeightMatrix, Stft


def export_rfft2d(node: Node, t: Target) -> None:
    """RFFT2D: matrix products with the transforms' matrices, which beat the DFT op."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, RFFT2D)
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


_WITH_KERNELS = frozenset({DType.FLOAT32, DType.FLOAT64})
"""What onnxruntime transforms."""


def export_dft(node: Node, t: Target) -> None:
    """DFT; its axis is an attribute before opset 20."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Dft)
    t.require_opset(17, "Fourier transforms")
    given: list[Value | None] = [*node.inputs, None, None]
    given_length, given_axis = given[1:3]
    length = t.int64(given_length)
    if op.length is not None:
        extent = None if x.shape is None or op.axis is None else x.shape[op.axis]
        if extent is None or op.length != op.replace(length=None).size_of(extent):
            length = t.const(np.asarray(op.length, np.int64))
    flags = {"inverse": int(op.inverse) or None, "onesided": int(op.onesided) or None}
    inputs = [_wide(t, x), length]
    if t.opset >= 20:
        known = None if op.axis is None else t.const(np.asarray(op.axis, np.int64))
        inputs.append(t.int64(given_axis) if known is None else known)
        result = t.node("DFT", inputs, **flags)
    elif op.axis is None:
        raise t.unsupported("a transform along an axis that a run tells", hint="Choose --opset 20.")
    else:
        result = t.node("DFT", inputs if length else inputs[:1], axis=op.axis, **flags)
    _give(t, y, result)


def _wide(t: Target, x: Value) -> str:
    """A value in a type that there are kernels for."""
    name = t.real(x)
    return name if t.real_type(x) in _WITH_KERNELS else t.cast(name, DType.FLOAT32)


def _give(t: Target, y: Value, name: str) -> None:
    kind = t.real_type(y)
    t.set_real(y, name if kind in _WITH_KERNELS else t.cast(name, kind))


def export_stft(node: Node, t: Target) -> None:
    """STFT."""
    op = node.op
    given: list[Value | None] = [*node.inputs, None, None, None]
    x, window, step, length = given[:4]
    assert isinstance(op, Stft)
    assert x is not None
    t.require_opset(17, "Fourier transforms of windows")
    names = [
        t.int64(value) if number is None else t.const(np.asarray(number, np.int64))
        for number, value in ((op.step, step), (op.length, length))
    ]
    inputs = [_wide(t, x), names[0], "" if window is None else _wide(t, window), names[1]]
    _give(t, node.outputs[0], t.node("STFT", inputs, onesided=int(op.onesided)))


def export_mel_weights(node: Node, t: Target) -> None:
    """MelWeightMatrix."""
    op = node.op
    assert isinstance(op, MelWeightMatrix)
    t.require_opset(17, "Weights of mel bands")
    names = [t.stored(v) for v in node.inputs]
    kind = None if op.dtype is DType.FLOAT32 else int(DATA_TYPES[op.dtype])
    t.set_stored(node.outputs[0], t.node("MelWeightMatrix", names, output_datatype=kind))


EXPORTERS: dict[type[Op], Exporter] = {
    RFFT2D: export_rfft2d,
    Dft: export_dft,
    Stft: export_stft,
    MelWeightMatrix: export_mel_weights,
}
