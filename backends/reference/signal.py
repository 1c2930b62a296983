"""Fourier transforms in numpy's own functions."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ir.types import normalize_axis
from nnconv.ops.signal import RFFT2D, Dft, MelWeightMatrix, Stft


def rfft2d(op: RFFT2D, x: Array, length: Array | None = None) -> list[Array]:
    """RFFT2D."""
    size = op.length or tuple(np.asarray(length).reshape(-1).tolist())
    return [np.fft.rfft2(x.astype(np.float64), size)]


def dft(op: Dft, x: Array, length: Array | None = None, axis: Array | None = None) -> list[Array]:
    """Dft, in the precision of x."""
    along = op.axis if axis is None else normalize_axis(int(axis.reshape(-1)[0]), x.ndim)
    assert along is not None
    z = _complex(x)
    size = op.size_of(x.shape[along]) if length is None else int(length.reshape(-1)[0])
    if not op.inverse:
        found = np.fft.fft(z, size, axis=along)
        if op.onesided:
            found = np.take(found, range(found.shape[along] // 2 + 1), axis=along)
        return [_pairs(found)]
    if op.onesided:
        return [np.fft.irfft(z, size, axis=along)[..., np.newaxis]]
    return [_pairs(np.fft.ifft(z, size, axis=along))]


def _complex(x: Array) -> Array:
    wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    if wide.shape[-1] == 1:
        return np.asarray(wide[..., 0])
    return np.ascontiguousarray(wide).view(np.result_type(wide.dtype, np.complex64))[..., 0]


def _pairs(z: Array) -> Array:
    return np.stack([z.real, z.imag], axis=-1)


def stft(
    op: Stft,
    x: Array,
    window: Array | None = None,
    step: Array | None = None,
    length: Array | None = None,
) -> list[Array]:
    """Stft."""
    size = op.length if length is None else int(length.reshape(-1)[0])
    apart = op.step if step is None else int(step.reshape(-1)[0])
    assert size is not None
    z = _complex(x.astype(np.float64).reshape(*x.shape[:2], -1))
    frames = np.lib.stride_tricks.sliding_window_view(z, size, axis=1)[:, ::apart]
    found = np.fft.fft(frames if window is None else frames * window, axis=-1)
    return [_pairs(found[..., : found.shape[-1] // 2 + 1] if op.onesided else found)]


def mel_weights(op: MelWeightMatrix, *operands: Array) -> list[Array]:
    """MelWeightMatrix."""
    bands, length, rate = (int(a.reshape(-1)[0]) for a in operands[:3])
    low, high = (
        2595 * np.log10(1 + a.reshape(-1)[0].astype(np.float64) / 700) for a in operands[3:]
    )
    mels = np.arange(bands + 2) * ((high - low) / (bands + 2)) + low
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = np.floor((length + 1) * hertz / rate)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(length // 2 + 1, dtype=np.float64)[:, np.newaxis]
    rising = (bins - left) / np.maximum(centre - left, 1)
    falling = (right - bins) / np.maximum(right - centre, 1)
    return [np.where(bins == centre, 1, np.maximum(np.minimum(rising, falling), 0))]


KERNELS: dict[type[Op], Kernel] = {
    RFFT2D: rfft2d,
    Dft: dft,
    Stft: stft,
    MelWeightMatrix: mel_weights,
}
