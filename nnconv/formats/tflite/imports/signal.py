"""Fourier transforms."""

from __future__ import annotations

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ops.signal import RFFT2D


def import_rfft2d(s: Source) -> None:
    """RFFT2D."""
    x, length = s.operand(0), s.ints(1)
    if length is not None and (len(length) != 2 or min(length) < 1):
        raise s.fail(f"length is {list(length)}, must be two positive extents")
    op = RFFT2D(length=None if length is None else (length[0], length[1]))
    s.emit(op, [x, s.operand(1)] if length is None else [x])


IMPORTERS: dict[str, Importer] = {"RFFT2D": import_rfft2d}
