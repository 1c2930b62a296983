"""Ops on the bytes of tensors. Words of 64 bits are int64, whose sums and products wrap."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason
from nnconv.formats.onnx.exact import reread
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.spelled import export_in_parts
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.hashing import HashtableLookup, LshProjection

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
"""FarmHash's constants."""

_SEED_BYTES = 4

_MOST_BYTES = 1024
"""Of a row: 64 of them take 150 nodes."""

_WHOLE = 1 << 64


class _Words:
    """Arithmetic on words, each an array of one word for each pair of a seed and a row.

    Attributes:
        size: how many bytes are hashed.
    """

    def __init__(self, t: Target, seeds: str, rows: str, size: int) -> None:
        """``seeds`` [K, 1, 4] and ``rows`` [1, N, size - 4] are bytes in int64."""
        self.t, self._seeds, self._rows, self.size = t, seeds, rows, size

    def const(self, value: int) -> str:
        value %= _WHOLE
        signed = value - _WHOLE if value >> 63 else value
        return self.t.const(np.asarray(signed, np.int64))

    def word(self, start: int, count: int = 8) -> str:
        """The bytes from ``start`` on as a number, the first the lowest."""
        shifts = 8 * (np.arange(self.size, dtype=np.int64) - start)
        inside = (shifts >= 0) & (shifts < 8 * count)
        powers = np.where(inside, np.int64(1) << np.where(inside, shifts, 0), 0)
        parts = []
        spans = ((self._seeds, slice(0, _SEED_BYTES)), (self._rows, slice(_SEED_BYTES, None)))
        for name, span in spans:
            if powers[span].any():
                parts.append(self.t.node("MatMul", [name, self.t.const(powers[span])]))
        return parts[0] if len(parts) == 1 else self.t.node("Add", parts)

    def add(self, *terms: str | int) -> str:
        names = [self.const(term) if isinstance(term, int) else term for term in terms]
        total = names[0]
        for name in names[1:]:
            total = self.t.node("Add", [total, name])
        return total

    def mul(self, a: str, factor: str | int) -> str:
        other = self.const(factor) if isinstance(factor, int) else factor
        return self.t.node("Mul", [a, other])

    def xor(self, a: str, b: str) -> str:
        return self.t.node("BitwiseXor", [a, b])

    def right(self, a: str, count: int) -> str:
        wide = self.t.cast(a, DType.UINT64)
        shift = self.t.const(np.asarray(count, np.uint64))
        return self.t.cast(self.t.node("BitShift", [wide, shift], direction="RIGHT"), DType.INT64)

    def turn(self, a: str, count: int) -> str:
        """Turned right."""
        return self.add(self.right(a, count), self.mul(a, 1 << (64 - count)))

    def mix(self, a: str) -> str:
        return self.xor(a, self.right(a, 47))

    def join(self, a: str, b: str, factor: str | int) -> str:
        first = self.mix(self.mul(self.xor(a, b), factor))
        return self.mul(self.mix(self.mul(self.xor(b, first), factor)), factor)


def _fingerprint(w: _Words) -> str:
    """FarmHash's Fingerprint64 of ``w.size`` bytes."""
    if w.size <= 16:
        return _short(w)
    return _medium(w) if w.size <= 64 else _long(w)


def _short(w: _Words) -> str:
    size = w.size
    factor = _K2 + size * 2
    if size >= 8:
        a, b = w.add(w.word(0), _K2), w.word(size - 8)
        first = w.add(w.mul(w.turn(b, 37), factor), a)
        return w.join(first, w.mul(w.add(w.turn(a, 25), b), factor), factor)
    first = w.add(w.mul(w.word(0, 4), 8), size)
    return w.join(first, w.word(size - 4, 4), factor)


def _medium(w: _Words) -> str:
    """From 17 to 64 bytes."""
    size = w.size
    factor = _K2 + size * 2
    large = size > 32
    a, b = w.mul(w.word(0), _K2 if large else _K1), w.word(8)
    c, d = w.mul(w.word(size - 8), factor), w.mul(w.word(size - 16), _K2)
    y = w.add(w.turn(w.add(a, b), 43), w.turn(c, 30), d)
    z = w.join(y, w.add(a, w.turn(w.add(b, _K2), 18), c), factor)
    if not large:
        return z
    e, f = w.mul(w.word(16), factor), w.word(24)
    g = w.mul(w.add(y, w.word(size - 32)), factor)
    h = w.mul(w.add(z, w.word(size - 24)), factor)
    first = w.add(w.turn(w.add(e, f), 43), w.turn(g, 30), h)
    return w.join(first, w.add(e, w.turn(w.add(f, a), 18), g), factor)


_Pair = tuple[str, str]


def _long(w: _Words) -> str:
    zero = w.const(0)
    x, y = w.const(81), w.const(81 * _K1 + 113)
    z = w.mul(w.mix(w.add(w.mul(y, _K2), 113)), _K2)
    v: _Pair = (zero, zero)
    u: _Pair = (zero, zero)
    x = w.add(w.mul(x, _K2), w.word(0))
    end = (w.size - 1) // 64 * 64
    for start in range(0, end, 64):
        x, y, z, v, u = _round(w, start, (x, y, z), v, u, w.const(_K1), 1)
    factor = w.add(w.mul(_low_byte(w, z), 2), _K1)
    rest = (w.size - 1) & 63
    u = (w.add(u[0], rest), u[1])
    v = (w.add(v[0], u[0]), v[1])
    u = (w.add(u[0], v[0]), u[1])
    x, y, z, v, u = _round(w, end + rest - 63, (x, y, z), v, u, factor, 9)
    left = w.add(w.join(v[0], u[0], factor), w.mul(w.mix(y), _K0), z)
    return w.join(left, w.add(w.join(v[1], u[1], factor), x), factor)


def _low_byte(w: _Words, a: str) -> str:
    return w.right(w.mul(a, 1 << 56), 56)


def _round(
    w: _Words, start: int, state: tuple[str, str, str], v: _Pair, u: _Pair, factor: str, weight: int
) -> tuple[str, str, str, _Pair, _Pair]:
    x, y, z = state
    x = w.mul(w.turn(w.add(x, y, v[0], w.word(start + 8)), 37), factor)
    y = w.mul(w.turn(w.add(y, v[1], w.word(start + 48)), 42), factor)
    x = w.xor(x, w.mul(u[1], weight))
    y = w.add(y, w.mul(v[0], weight), w.word(start + 40))
    z = w.mul(w.turn(w.add(z, u[0]), 33), factor)
    v = _quarter(w, start, w.mul(v[1], factor), w.add(x, u[0]))
    u = _quarter(w, start + 32, w.add(z, u[1]), w.add(y, w.word(start + 16)))
    return z, y, x, v, u


def _quarter(w: _Words, start: int, a: str, b: str) -> _Pair:
    """Two words from 32 bytes and two words."""
    p, x, y, z = (w.word(start + i) for i in (0, 8, 16, 24))
    a = w.add(a, p)
    b = w.turn(w.add(b, a, z), 21)
    c = a
    a = w.add(a, x, y)
    b = w.add(b, w.turn(a, 44))
    return w.add(a, z), w.add(b, c)


# -------------------------------------------------------------------- bytes


_FLOAT_FORMS = {DType.FLOAT32: (8, 23), DType.FLOAT16: (5, 10)}
"""Bits of exponent and fraction."""


def _float_bits(t: Target, name: str, dtype: DType) -> str:
    """The bits of floats as whole numbers, int64, worked out: no op of older opsets rereads them.

    NaN is taken for the infinity of its sign.
    """
    exponents, fraction = _FLOAT_FORMS[dtype]
    top = (1 << exponents) - 1
    bias = top >> 1
    wide = t.cast(name, DType.FLOAT64)
    size = t.node("Abs", [wide])
    powers = 2.0 ** np.arange(1 - bias, top - bias, dtype=np.float64)
    spread = t.node("Unsqueeze", [size, t.const([-1])])
    reached = t.node("GreaterOrEqual", [spread, t.const(powers)])
    counted = t.node("ReduceSum", [t.cast(reached, DType.INT64), t.const([-1])], keepdims=0)
    places = np.arange(top)
    factors = 2.0 ** (fraction + bias - np.maximum(places, 1.0))
    scaled = t.node("Mul", [size, t.node("Gather", [t.const(factors), counted])])
    steps = np.maximum(places - 1, 0).astype(np.int64) << fraction
    whole = t.node(
        "Add", [t.cast(scaled, DType.INT64), t.node("Gather", [t.const(steps), counted])]
    )
    finite = t.node("LessOrEqual", [size, t.const(np.float64(np.finfo(dtype.numpy).max))])
    whole = t.node("Where", [finite, whole, t.const(np.int64(top << fraction))])
    inverse = t.node("Div", [t.const(np.float64(1)), wide])
    negative = t.node("Less", [inverse, t.const(np.float64(0))])  # of -0.0 as well
    negative = t.node("Or", [negative, t.node("Less", [wide, t.const(np.float64(0))])])
    sign = t.const(np.int64(1 << (exponents + fraction)))
    return t.node("Where", [negative, t.node("Add", [whole, sign]), whole])


def _bytes(t: Target, value: Value, dtype: DType) -> str:
    """The bytes of each element along one more dimension, int64."""
    if value.data is not None:
        data = np.ascontiguousarray(value.data.astype(dtype.numpy))
        raw = np.frombuffer(data.tobytes(), np.uint8).reshape(*data.shape, data.itemsize)
        return t.const(raw.astype(np.int64))
    name = t.stored(value)
    if dtype.is_float:
        if dtype not in _FLOAT_FORMS:
            raise t.unsupported(f"the bytes of {dtype} data can't be told in ONNX")
        name = name if value.dtype is dtype else t.cast(name, dtype)
        bits = _float_bits(t, name, dtype)
        kind = DType.INT64
    else:
        kind = dtype
        if dtype is DType.BOOL:
            name, kind = t.cast(name, DType.UINT8), DType.UINT8
        if kind.bits == 8:
            unsigned = name if kind is DType.UINT8 else t.cast(name, DType.UINT8)
            column = t.node("Unsqueeze", [unsigned, t.const([-1])])
            return t.cast(column, DType.INT64)
        bits = name
    wide = reread(t, bits, kind, DType.UINT8)
    if dtype.is_float:
        wide = t.node("Slice", [wide, t.const([0]), t.const([dtype.bits // 8]), t.const([-1])])
    return t.cast(wide, DType.INT64)


# -------------------------------------------------------------------- LshProjection


def export_lsh_projection(node: Node, t: Target) -> None:
    """LshProjection, bit by bit."""
    op, seeds, x = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, LshProjection)
    t.require_opset(18, "hashes")
    shape, data = static_shape(seeds.shape), static_shape(x.shape)
    if shape is None or data is None:
        raise t.unsupported("the shape of the data isn't known", reason=Reason.IMPOSSIBLE)
    count, width = shape
    length = int(np.prod(data[1:], dtype=np.int64)) * max(x.dtype.bits // 8, 1)
    total = np.float64(0)
    if not 0 < length <= _MOST_BYTES or not data[0]:
        raise t.unsupported(f"data of the shape {list(data)}")
    heads = t.node("Reshape", [_bytes(t, seeds, DType.FLOAT32), t.const([-1, 1, _SEED_BYTES])])
    rows = t.node("Reshape", [_bytes(t, x, x.dtype), t.const([1, data[0], length])])
    words = _Words(t, heads, rows, _SEED_BYTES + length)
    sums = t.cast(_fingerprint(words), DType.FLOAT64)
    weights = node.optional(2)
    if weights is not None:
        sums = t.node("Mul", [sums, t.reshape(t.cast(t.real(weights), DType.FLOAT64), [1, -1])])
    totals = t.node("ReduceSum", [sums, t.const([1])], keepdims=0)
    bits = t.cast(t.node("Greater", [totals, t.const(total)]), DType.INT64)
    if not op.dense:
        powers = np.int64(1) << np.arange(width - 1, -1, -1, dtype=np.int64)
        bits = t.node(
            "MatMul", [t.node("Reshape", [bits, t.const([count, width])]), t.const(powers)]
        )
        if op.apart:
            offsets = np.arange(count, dtype=np.int64) << width
            bits = t.node("Add", [bits, t.const(offsets)])
    t.set_stored(node.outputs[0], t.cast(bits, DType.INT32))


EXPORTERS: dict[type[Op], Exporter] = {
    HashtableLookup: export_in_parts,
    LshProjection: export_lsh_projection,
}
