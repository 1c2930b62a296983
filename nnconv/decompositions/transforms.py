"""Fourier transforms of which a run tells the axis, the length or the extents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import MatMul
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Range, Reshape, ShapeOf, Transpose, Unsqueeze
from nnconv.ops.signal import Dft, Stft
from nnconv.ops.slices import Pad, Reverse, Slice


class _Numbers:
    """Arithmetic on int32 scalars and vectors."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def const(self, number: int | Sequence[int]) -> Value:
        """A constant."""
        return self.b.const(np.asarray(number, np.int32))

    def scalar(self, value: Value) -> Value:
        """An integer operand of one element."""
        return self.b.add(Cast(dtype=DType.INT32), [self.b.add(Reshape(shape=()), [value])])

    def counted(self, end: Value) -> Value:
        """0, 1 ... up to ``end``."""
        return self.b.add(Range(), [self.const(0), end, self.const(1)])

    def plus(self, a: Value, number: int) -> Value:
        """A sum."""
        return self.b.add(e.Add(), [a, self.const(number)])

    def half(self, a: Value) -> Value:
        """Half of it, rounded down."""
        return self.b.add(e.FloorDiv(), [a, self.const(2)])

    def float(self, value: Value) -> Value:
        """The same as floats."""
        return self.b.add(Cast(dtype=DType.FLOAT32), [value])


def dft_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """Dft as a product with a matrix that is made at run time."""
    op, x = node.op, node.operand(0)
    given: list[Value | None] = [*node.inputs, None, None]
    length, axis = given[1:3]
    assert isinstance(op, Dft)
    if x.shape is None or not isinstance(x.shape[-1], int):
        return None
    if op.length is not None and op.length > DType.INT32.int_range[1]:
        return None
    n, rank, parts = _Numbers(b), len(x.shape), x.shape[-1]
    perm = _swapping(n, op.axis, axis, rank)
    turned = b.add(Transpose(perm=None), [x, perm])
    turned.type = turned.type.with_shape((*[None] * (rank - 1), parts))
    extents = b.add(ShapeOf(), [turned])
    extent = b.add(Gather(axis=0), [extents, n.const(rank - 2)])
    if length is not None:
        size = n.scalar(length)
    elif op.length is not None:
        size = n.const(op.length)
    elif op.onesided and op.inverse:
        size = b.add(e.Mul(), [n.plus(extent, -1), n.const(2)])
    else:
        size = extent
    if parts == 1:
        behind = (*[0] * (rank - 1), 1)
        turned = b.add(Pad(before=(0,) * rank, after=behind), [turned])
    found = _product(b, op, turned, extent, size)
    if op.onesided and op.inverse:
        cut = Slice(starts=(0,) * rank, ends=(*[None] * (rank - 1), 1), strides=(1,) * rank)
        found = b.add(cut, [found])
    return [b.add(Transpose(perm=None), [found, perm])]


def _swapping(n: _Numbers, axis: int | None, given: Value | None, rank: int) -> Value:
    """The order in which an axis and the last but one have changed places."""
    last = rank - 2
    if axis is not None:
        order = list(range(rank))
        order[axis], order[last] = last, axis
        return n.const(order)
    assert given is not None, "the axis is known or given"
    b = n.b
    along = b.add(e.FloorMod(), [n.scalar(given), n.const(rank)])
    places = n.const(range(rank))
    moved = b.add(e.Select(), [b.add(e.Equal(), [places, n.const(last)]), along, places])
    return b.add(e.Select(), [b.add(e.Equal(), [places, along]), n.const(last), moved])


def _product(b: Builder, op: Dft, x: Value, extent: Value, size: Value) -> Value:
    """The waves times x [..., extent, 2]."""
    n = _Numbers(b)
    spectrum = n.plus(n.half(size), 1)
    real = op.onesided and op.inverse
    rows = n.counted(spectrum if op.onesided and not op.inverse else size)
    columns = n.counted(extent)
    grid = b.add(e.Mul(), [b.add(Unsqueeze(axes=(1,)), [rows]), columns])
    turns = n.float(b.add(e.FloorMod(), [grid, size]))
    length = n.float(size)
    angle = b.add(e.Mul(), [turns, b.const(np.asarray(2 * math.pi, np.float32))])
    angle = b.add(e.Div(), [angle, length])
    counts = b.add(e.Less(), [columns, spectrum if real else size])
    weights = n.float(counts)
    if real:
        twice = b.add(e.Mul(), [columns, n.const(2)])
        first = b.add(e.Equal(), [columns, n.const(0)])
        once = b.add(e.LogicalOr(), [first, b.add(e.Equal(), [twice, size])])
        one, two = (b.const(np.asarray(v, np.float32)) for v in (1, 2))
        weights = b.add(e.Mul(), [weights, b.add(e.Select(), [once, one, two])])
    if op.inverse:
        weights = b.add(e.Div(), [weights, length])
    sign = 1.0 if op.inverse else -1.0
    # (cos + i sign sin) (real + i imaginary) = cos * x + sin * sign (-imaginary + i real)
    crossed = b.const(np.asarray([-sign, sign], np.float32))
    other = b.add(e.Mul(), [b.add(Reverse(axes=((x.type.rank or 1) - 1,)), [x]), crossed])
    waves = [b.add(e.Mul(), [b.add(wave, [angle]), weights]) for wave in (e.Cos(), e.Sin())]
    terms = [b.add(MatMul(), pair) for pair in zip(waves, (x, other), strict=True)]
    return b.add(e.Add(), terms)


def stft_at_run_time(node: Node, b: Builder) -> list[Value] | None:
    """Stft: the windows gathered, and their Dft."""
    op = node.op
    given: list[Value | None] = [*node.inputs, None, None, None]
    x, window, step, length = given[:4]
    assert isinstance(op, Stft)
    assert x is not None
    if x.shape is None:
        return None
    n = _Numbers(b)
    if len(x.shape) == 2:
        x = b.add(Unsqueeze(axes=(2,)), [x])
    sizes = []
    for number, value in ((op.step, step), (op.length, length)):
        if number is not None:
            sizes.append(n.const(number))
        else:
            assert value is not None, "it is known or given"
            sizes.append(n.scalar(value))
    extent = b.add(Reshape(shape=()), [b.add(ShapeOf(dims=(1,)), [x])])
    end = n.plus(b.add(e.Sub(), [extent, sizes[1]]), 1)
    starts = b.add(Range(), [n.const(0), end, sizes[0]])
    places = b.add(e.Add(), [b.add(Unsqueeze(axes=(1,)), [starts]), n.counted(sizes[1])])
    frames = b.add(Gather(axis=1), [x, places])
    if window is not None:
        frames = b.add(e.Mul(), [frames, b.add(Unsqueeze(axes=(1,)), [window])])
    return [b.add(Dft(axis=2, onesided=op.onesided), [frames])]
