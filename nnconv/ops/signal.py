"""Fourier transforms."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS, INTEGERS, DType
from nnconv.ir.op import Op, Operand, QuantRule, Role, Types, index_operand, op_class, operand_type
from nnconv.ir.types import Dim, TensorType


def kernel(rows: int, columns: int, length: int, *, sign: int) -> np.ndarray:
    """exp(sign * 2 pi i row column / length) [rows, columns]."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    return np.asarray(np.exp(sign * 2j * np.pi * turns / length))


@op_class
class RFFT2D(Op):
    """Two-dimensional Fourier transform of real values.

    x [..., H, W] float32 to [..., h, w/2 + 1] complex64. ``length`` is (h, w) (None: operand
    ``length``): x is first cut or filled with zeros at its ends to it.
    TFLite RFFT2D.
    """

    operands = (Operand("x", frozenset({DType.FLOAT32})), index_operand("length"))

    length: tuple[int, int] | None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(DType.COMPLEX64, None),)
        if len(x.shape) < 2:
            raise ValueError(f"input has rank {len(x.shape)}, must have at least 2")
        last: tuple[Dim, Dim] = (None, None)
        if self.length is not None:
            last = self.length[0], self.length[1] // 2 + 1
        return (TensorType(DType.COMPLEX64, (*x.shape[:-2], *last)),)


@op_class
class Dft(Op):
    """Fourier transform along ``axis``.

    Complex numbers are pairs along the last dimension: real and imaginary part; x may have the real
    part alone. X[k] is the sum over n of x[n] e**(-2 pi i k n / N); with ``inverse`` the sum of
    x[n] e**(2 pi i k n / N) / N. N is ``length``: x is cut or filled with zeros at its end to it.
    With ``onesided`` there are only the first N / 2 + 1 numbers of the spectrum: of the result, or,
    for the inverse, of x, and the result has real parts alone.

    Attributes:
        axis: from the front, not the last one; None where the operand gives it, perhaps from the
            end.
        length: None where the operand gives it; where that is absent, it is the extent (for a
            onesided inverse 2 * (extent - 1)).

    ONNX DFT; TFLite RFFT2D for some of it.
    """

    operands = (Operand("x", FLOATS), index_operand("length"), index_operand("axis"))

    axis: int | None
    length: int | None = None
    inverse: bool = False
    onesided: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if self.length is not None and self.length < 1:
            raise ValueError(f"a transform of length {self.length}")
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        if len(x.shape) < 2:
            raise ValueError(f"x has rank {len(x.shape)}, must have at least 2")
        parts = 1 if self.onesided and self.inverse else 2
        if self.axis is None:
            return (TensorType(x.dtype, (*[None] * (len(x.shape) - 1), parts)),)
        if not 0 <= self.axis < len(x.shape) - 1:
            raise ValueError(f"axis {self.axis} is out of range for rank {len(x.shape)}")
        if isinstance(x.shape[-1], int) and x.shape[-1] not in (1, 2):
            raise ValueError(f"numbers have {plural(x.shape[-1], 'part')}, must have 1 or 2")
        size: Dim = self.size_of(x.shape[self.axis])
        if self.length is None and len(types) > 1 and types[1] is not None:
            size = None
        if self.onesided and not self.inverse:
            size = size // 2 + 1 if isinstance(size, int) else None
        shape = (*x.shape[: self.axis], size, *x.shape[self.axis + 1 : -1], parts)
        return (TensorType(x.dtype, shape),)

    def size_of(self, extent: Dim) -> int | None:
        """N, where no operand gives it."""
        if self.length is not None:
            return self.length
        if not isinstance(extent, int):
            return None
        return 2 * (extent - 1) if self.onesided and self.inverse else extent


@op_class
class Stft(Op):
    """Fourier transforms of windows over a signal.

    x [B, L], [B, L, 1] or (complex) [B, L, 2]; for each window of ``length`` elements, ``step``
    apart, the transform of x times ``window`` [length] (absent: ones). The result is [B, windows,
    length, 2], or with ``onesided`` [B, windows, length / 2 + 1, 2]. ``step`` and ``length`` None:
    operands give them at run time. ONNX STFT.
    """

    operands = (
        Operand("x", FLOATS),
        Operand("window", FLOATS, Role.WEIGHT, optional=True),
        index_operand("step"),
        index_operand("length"),
    )

    step: int | None
    length: int | None
    onesided: bool = True

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if min(self.step or 1, self.length or 1) < 1:
            raise ValueError(f"windows of {plural(self.length, 'element')}, {self.step} apart")
        count = self.length
        if count is not None and self.onesided:
            count = count // 2 + 1
        if x.shape is None:
            return (TensorType(x.dtype, (None, None, count, 2)),)
        if len(x.shape) not in (2, 3):
            raise ValueError(f"x has rank {len(x.shape)}, must have 2 or 3")
        if len(x.shape) == 3 and isinstance(x.shape[2], int) and x.shape[2] not in (1, 2):
            raise ValueError(f"numbers have {plural(x.shape[2], 'part')}, must have 1 or 2")
        window = types[1] if len(types) > 1 else None
        if window is not None and window.shape is not None:
            fits = len(window.shape) == 1 and window.shape[0] in (self.length, None)
            if not fits and (self.length is not None or len(window.shape) != 1):
                raise ValueError(
                    f"the window is {window}, must have {plural(self.length, 'element')}"
                )
        extent = x.shape[1]
        windows: Dim = None
        if isinstance(extent, int) and self.length is not None and self.step is not None:
            if extent < self.length:
                raise ValueError(f"windows of {plural(self.length, 'element')} over {extent}")
            windows = (extent - self.length) // self.step + 1
        return (TensorType(x.dtype, (x.shape[0], windows, count, 2)),)


@op_class
class MelWeightMatrix(Op):
    """The triangles that make mel bands of a spectrum.

    Operands, of one element each: the number of bands m, the length d of the transform, the sample
    rate r, the lower and upper edge in hertz. Result: [d / 2 + 1, m]. With
    mel(f) = 2595 log10(1 + f / 700), the edges of the bands are at m + 2 frequencies f, evenly
    apart in mel, the first at the lower edge (the upper one would be the next after the last); each
    is rounded down to a bin, (d + 1) f / r. A band rises from 0 at its first bin to 1 at its
    second, and falls to 0 at its third. ONNX MelWeightMatrix.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        *(Operand(n, INTEGERS) for n in ("bands", "length", "rate")),
        *(Operand(n, FLOATS) for n in ("low", "high")),
    )
    quant_rule = QuantRule.EXACT

    dtype: DType = DType.FLOAT32

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, (None, None)),)
