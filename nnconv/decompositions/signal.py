"""Fourier transforms as products with the transforms' matrices, and bands of spectra."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.transforms import dft_at_run_time, stft_at_run_time
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops.conv import Conv2D
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Range, Reshape, Transpose, Unsqueeze
from nnconv.ops.signal import Dft, MelWeightMatrix, Stft, kernel
from nnconv.ops.slices import Reverse, Slice
from nnconv.ops.spatial import Padding

MOST_WEIGHTS = 1 << 20
"""A transform's matrix of more elements is taken apart in two, where its length has factors."""

MOST_EVER = 1 << 25
"""No matrix of more elements is made."""


def on_parts(matrix: np.ndarray, parts: int) -> np.ndarray:
    """A complex matrix [n, k] as one on real and imaginary parts [n * parts, k * 2]."""
    real, imaginary = matrix.real, matrix.imag
    rows = [np.stack([real, imaginary], axis=-1)]
    if parts == 2:
        rows.append(np.stack([-imaginary, real], axis=-1))
    whole = np.stack(rows, axis=1)
    return whole.reshape(matrix.shape[0] * parts, matrix.shape[1] * 2).astype(np.float32)


def _times(b: Builder, x: Value, matrix: np.ndarray) -> Value:
    """X [..., n] times a constant matrix [n, k]."""
    return b.add(FullyConnected(), [x, b.const(np.ascontiguousarray(matrix.T))])


def decompose_dft(node: Node, b: Builder) -> list[Value] | None:
    """Dft of a known length."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Dft)
    if x.shape is None or op.axis is None or any(v is not None for v in node.inputs[1:]):
        return None
    shape = x.shape
    rank, extent, parts = len(shape), shape[op.axis], shape[-1]
    size = op.size_of(extent)
    if not isinstance(extent, int) or not isinstance(parts, int) or not size:
        return None
    others = [i for i in range(rank) if i not in (op.axis, rank - 1)]
    if sum(not isinstance(shape[i], int) for i in others) > 1:
        return None
    perm = (*others, op.axis, rank - 1)
    if op.axis != rank - 2:
        x = b.add(Transpose(perm=perm), [x])
    used = min(extent, size // 2 + 1 if op.onesided and op.inverse else size)
    if used * parts * size * 2 > MOST_EVER and (used < size or size // _factor(size) > 4096):
        return None
    if used < extent:
        starts, ends = (0,) * rank, (*[None] * (rank - 2), used, None)
        x = b.add(Slice(starts=starts, ends=ends, strides=(1,) * rank), [x])
    flat = b.add(Reshape(shape=(-1, used * parts)), [x])
    found, count = _transformed(b, op, flat, used, parts, size)
    lead = [d if isinstance(d, int) else -1 for d in shape]
    last = 1 if op.onesided and op.inverse else 2
    found = b.add(Reshape(shape=(*(lead[i] for i in others), count, last)), [found])
    if op.axis != rank - 2:
        back = tuple(perm.index(i) for i in range(rank))
        found = b.add(Transpose(perm=back), [found])
    assert y.dtype is DType.FLOAT32, "the exporter asks for float32"
    return [found]


def _transformed(
    b: Builder, op: Dft, flat: Value, used: int, parts: int, size: int
) -> tuple[Value, int]:
    """The transform of rows [m, used * parts] as rows [m, count * 2], or of real parts alone."""
    if op.onesided and op.inverse:
        weights = np.full(used, 2.0)
        weights[0] = 1
        if size % 2 == 0 and used > size // 2:
            weights[size // 2] = 1
        matrix = kernel(used, size, size, sign=1) * (weights / size)[:, np.newaxis]
        rows = [matrix.real, -matrix.imag][:parts]
        whole = np.stack(rows, axis=1).reshape(used * parts, size)
        return _times(b, flat, whole.astype(np.float32)), size
    count = size // 2 + 1 if op.onesided else size
    first = _factor(size)
    if used == size and first > 1 and used * parts * count * 2 > MOST_WEIGHTS:
        found = _in_two(b, op, flat, parts, first, size // first)
        if count < size:
            cut = Slice(starts=(0, 0), ends=(None, count * 2), strides=(1, 1))
            found = b.add(cut, [found])
        return found, count
    sign = 1 if op.inverse else -1
    matrix = kernel(used, count, size, sign=sign) / (size if op.inverse else 1)
    return _times(b, flat, on_parts(matrix, parts)), count


def _factor(size: int) -> int:
    """The greatest factor of a number that is at most its root."""
    return next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)


def _in_two(b: Builder, op: Dft, flat: Value, parts: int, n1: int, n2: int) -> Value:
    """The transform of length n1 * n2 by transforms of either length.

    With n = n2 a + c and k = d + n1 f: first over a, for each c; then times e**(-2 pi i c d / N);
    then over c, for each d.
    """
    sign = 1 if op.inverse else -1
    scale = 1 / (n1 * n2) if op.inverse else 1
    x = b.add(Reshape(shape=(-1, n1, n2, parts)), [flat])
    x = b.add(Transpose(perm=(0, 2, 1, 3)), [x])
    x = b.add(Reshape(shape=(-1, n1 * parts)), [x])
    x = _times(b, x, on_parts(kernel(n1, n1, n1, sign=sign), parts))
    x = b.add(Reshape(shape=(-1, n2, n1, 2)), [x])
    turn = kernel(n2, n1, n1 * n2, sign=sign)
    straight = np.repeat(turn.real[..., np.newaxis], 2, axis=-1)
    crossed = np.stack([-turn.imag, turn.imag], axis=-1)
    kept = b.add(e.Mul(), [x, b.const(straight.astype(np.float32))])
    other = b.add(Reverse(axes=(3,)), [x])
    x = b.add(e.Add(), [kept, b.add(e.Mul(), [other, b.const(crossed.astype(np.float32))])])
    x = b.add(Transpose(perm=(0, 2, 1, 3)), [x])
    x = b.add(Reshape(shape=(-1, n2 * 2)), [x])
    x = _times(b, x, on_parts(kernel(n2, n2, n2, sign=sign) * scale, 2))
    x = b.add(Reshape(shape=(-1, n1, n2, 2)), [x])
    x = b.add(Transpose(perm=(0, 2, 1, 3)), [x])
    return b.add(Reshape(shape=(-1, n1 * n2 * 2)), [x])


def decompose_stft(node: Node, b: Builder) -> list[Value] | None:
    """Stft: a convolution whose filters are the window times the waves."""
    op, x = node.op, node.operand(0)
    window = node.optional(1)
    assert isinstance(op, Stft)
    if x.shape is None or op.step is None or op.length is None:
        return None
    batch, extent = (d if isinstance(d, int) else -1 for d in x.shape[:2])
    parts = 1 if len(x.shape) == 2 else x.shape[2]
    if not isinstance(parts, int) or (batch < 0 and extent < 0):
        return None
    count = op.length // 2 + 1 if op.onesided else op.length
    if op.length * parts * count * 2 > MOST_EVER:
        return None
    waves = on_parts(kernel(op.length, count, op.length, sign=-1), parts)
    filters = waves.reshape(op.length, parts, count * 2).transpose(2, 0, 1)[:, np.newaxis]
    if window is None:
        weights = b.const(np.ascontiguousarray(filters))
    elif window.data is not None:
        scaled = filters * window.data.reshape(1, 1, -1, 1)
        weights = b.const(np.ascontiguousarray(scaled.astype(np.float32)))
    else:
        shaped = b.add(Reshape(shape=(1, 1, op.length, 1)), [window])
        weights = b.add(e.Mul(), [b.const(np.ascontiguousarray(filters)), shaped])
    image = b.add(Reshape(shape=(batch, 1, extent, parts)), [x])
    still = Padding(before=(0, 0), after=(0, 0))
    convolution = Conv2D(stride=(1, op.step), dilation=(1, 1), padding=still, groups=1)
    found = b.add(convolution, [image, weights])
    windows = (extent - op.length) // op.step + 1 if extent >= 0 else -1
    return [b.add(Reshape(shape=(batch, windows, count, 2)), [found])]


def decompose_mel_weights(node: Node, b: Builder) -> Sequence[Value] | None:
    """MelWeightMatrix: each band is the lesser of a rising and a falling line, at least 0."""
    op = node.op
    sizes = [1 if v is None or v.data is None else int(v.data.max()) for v in node.inputs[:2]]
    if max(*sizes, sizes[0] * sizes[1]) > MOST_EVER:
        return None
    assert isinstance(op, MelWeightMatrix)

    def number(value: float) -> Value:
        return b.const(np.asarray(value, np.float32))

    def scalar(place: int) -> Value:
        value = node.inputs[place]
        assert value is not None
        return b.add(Cast(dtype=DType.FLOAT32), [b.add(Reshape(shape=()), [value])])

    def whole(value: Value) -> Value:
        return b.add(Cast(dtype=DType.INT32), [value])

    def counted(end: Value) -> Value:
        """0, 1 ... as floats, up to ``end``."""
        given = [b.const(np.asarray(0, np.int32)), whole(end), b.const(np.asarray(1, np.int32))]
        return b.add(Cast(dtype=DType.FLOAT32), [b.add(Range(), given)])

    bands, length, rate, low, high = (scalar(i) for i in range(5))
    logs = [
        b.add(e.Log(), [b.add(e.Add(), [b.add(e.Mul(), [v, number(1 / 700)]), number(1.0)])])
        for v in (low, high)
    ]
    edges = b.add(e.Add(), [bands, number(2.0)])
    step = b.add(e.Div(), [b.add(e.Sub(), [logs[1], logs[0]]), edges])
    mels = b.add(e.Add(), [b.add(e.Mul(), [counted(edges), step]), logs[0]])
    hertz = b.add(e.Mul(), [b.add(e.Sub(), [b.add(e.Exp(), [mels]), number(1.0)]), number(700.0)])
    points = b.add(e.Add(), [length, number(1.0)])
    bins = b.add(e.Floor(), [b.add(e.Div(), [b.add(e.Mul(), [hertz, points]), rate])])
    left, centre, right = (
        b.add(Slice(starts=(i,), ends=(i - 2 or None,), strides=(1,)), [bins]) for i in range(3)
    )
    half = b.add(e.Floor(), [b.add(e.Mul(), [length, number(0.5)])])
    lines = counted(b.add(e.Add(), [half, number(1.0)]))
    lines = b.add(Unsqueeze(axes=(1,)), [lines])
    slopes = [
        b.add(e.Div(), [b.add(e.Sub(), pair), b.add(e.Maximum(), [width, number(1.0)])])
        for pair, width in (
            ([lines, left], b.add(e.Sub(), [centre, left])),
            ([right, lines], b.add(e.Sub(), [right, centre])),
        )
    ]
    least = b.add(e.Maximum(), [b.add(e.Minimum(), slopes), number(0.0)])
    at_top = b.add(e.Equal(), [lines, centre])
    found = b.add(e.Select(), [at_top, number(1.0), least])
    if op.dtype is not DType.FLOAT32:
        found = b.add(Cast(dtype=op.dtype), [found])
    return [found]


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    Dft: (decompose_dft, dft_at_run_time),
    Stft: (decompose_stft, stft_at_run_time),
    MelWeightMatrix: (decompose_mel_weights,),
}
