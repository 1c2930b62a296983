"""Fourier transforms, and the bands of spectra."""

from __future__ import annotations

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ops.signal import Dft, MelWeightMatrix, Stft


def import_dft(src: Source) -> None:
    """DFT: the axis is an attribute before opset 20, from then on an operand."""
    x = src.operand(0)
    rank = src.rank(x)
    axis: int | None = src.int("axis", 1) if src.version < 20 else -2
    given = src.optional(2) if src.version >= 20 else None
    if given is not None:
        known = src.ints(2)
        axis = known[0] if known else None
    if axis is not None:
        axis, given = src.axis(axis, rank), None
        if axis == rank - 1:
            raise src.fail("it transforms along the dimension of real and imaginary parts")
    length = src.ints(1) if src.optional(1) is not None else None
    op = Dft(
        axis=axis,
        length=length[0] if length else None,
        inverse=bool(src.int("inverse", 0)),
        onesided=bool(src.int("onesided", 0)),
    )
    operands = [x, src.optional(1) if length is None else None, given]
    while operands[-1] is None:
        operands.pop()
    src.emit(op, operands)


def import_stft(src: Source) -> None:
    """STFT: the window, or else the signal, tells the length of frames that isn't told."""
    x, window = src.operand(0), src.optional(2)
    src.operand(1)
    step, length = src.ints(1), src.ints(3) if src.optional(3) is not None else None
    if src.optional(3) is None:
        shape = x.shape if window is None else window.shape
        extent = None if shape is None else shape[1 if window is None else 0]
        if not isinstance(extent, int):
            raise src.unsupported("the length of frames is only known at run time")
        length = (extent,)
    op = Stft(
        step=step[0] if step else None,
        length=length[0] if length else None,
        onesided=bool(src.int("onesided", 1)),
    )
    run_time = [None if step else src.operand(1), None if length else src.operand(3)]
    operands = [x, window, *run_time]
    while operands[-1] is None:
        operands.pop()
    src.emit(op, operands)


def import_mel_weights(src: Source) -> None:
    """MelWeightMatrix."""
    op = MelWeightMatrix(dtype=src.dtype("output_datatype", DType.FLOAT32))
    src.emit(op, [src.operand(i) for i in range(5)])


IMPORTERS: dict[str, Importer] = {
    "DFT": import_dft,
    "STFT": import_stft,
    "MelWeightMatrix": import_mel_weights,
}
