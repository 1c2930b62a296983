"""Ops on the bytes of tensors."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.hashing import HashtableLookup, LshProjection

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
"""FarmHash's constants."""


def _word(data: bytes, start: int) -> int:
    return int.from_bytes(data[start : start + 8], "little")


def _turn(value: int, count: int) -> int:
    """The low 64 bits of ``value``, turned right."""
    value &= _MASK
    return (value >> count | value << (64 - count)) & _MASK


def _mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _join(a: int, b: int, factor: int) -> int:
    first = _mix(((a ^ b) & _MASK) * factor)
    return _mix((((b & _MASK) ^ first) & _MASK) * factor) * factor & _MASK


def _short(data: bytes) -> int:
    """Up to 16 bytes."""
    size = len(data)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _word(data, 0) + _K2, _word(data, size - 8)
        return _join(_turn(b, 37) * factor + a, (_turn(a, 25) + b) * factor, factor)
    if size >= 4:
        a = int.from_bytes(data[:4], "little")
        return _join(size + (a << 3), int.from_bytes(data[-4:], "little"), factor)
    if size:
        a = data[0] + (data[size >> 1] << 8)
        return _mix((a * _K2 & _MASK) ^ ((size + (data[-1] << 2)) * _K0 & _MASK)) * _K2 & _MASK
    return _K2


def _quarter(data: bytes, a: int, b: int) -> tuple[int, int]:
    """Two words from 32 bytes and two words."""
    w, x, y, z = (_word(data, i) for i in (0, 8, 16, 24))
    a += w
    b = _turn(b + a + z, 21)
    c = a
    a += x + y
    b += _turn(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


def fingerprint(data: bytes) -> int:
    """FarmHash's Fingerprint64."""
    size = len(data)
    if size <= 16:
        return _short(data)
    if size <= 64:
        return _medium(data)
    x, y = 81, 81 * _K1 + 113
    z = _mix(y * _K2 + 113) * _K2
    v, w = (0, 0), (0, 0)
    x = x * _K2 + _word(data, 0)
    end = (size - 1) // 64 * 64
    for start in range(0, end, 64):
        part = data[start : start + 64]
        x, y, z, v, w = _round(part, x, y, z, v, w, _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    rest = (size - 1) & 63
    part = data[end + rest - 63 :]
    w = (w[0] + rest, w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _round(part, x, y, z, v, w, factor, 9)
    left = _join(v[0], w[0], factor) + _mix(y) * _K0 + z
    return _join(left, _join(v[1], w[1], factor) + x, factor)


def _round(
    part: bytes,
    x: int,
    y: int,
    z: int,
    v: tuple[int, int],
    w: tuple[int, int],
    factor: int,
    weight: int,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    x = _turn(x + y + v[0] + _word(part, 8), 37) * factor & _MASK
    y = _turn(y + v[1] + _word(part, 48), 42) * factor
    x ^= w[1] * weight & _MASK
    y += v[0] * weight + _word(part, 40)
    z = _turn(z + w[0], 33) * factor & _MASK
    v = _quarter(part, v[1] * factor, x + w[0])
    w = _quarter(part[32:], z + w[1], y + _word(part, 16))
    return z, y, x, v, w


def _medium(data: bytes) -> int:
    """From 17 to 64 bytes."""
    size = len(data)
    factor = _K2 + size * 2
    large = size > 32
    a = _word(data, 0) * (_K2 if large else _K1)
    b, c, d = _word(data, 8), _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y = _turn(a + b, 43) + _turn(c, 30) + d
    z = _join(y, a + _turn(b + _K2, 18) + c, factor)
    if not large:
        return z
    e, f = _word(data, 16) * factor, _word(data, 24)
    g = (y + _word(data, size - 32)) * factor
    h = (z + _word(data, size - 24)) * factor
    return _join(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, factor)


def _signed(value: int) -> float:
    return float(value - (1 << 64) if value >> 63 else value)


def lsh_projection(
    op: LshProjection, seeds: Array, x: Array, weights: Array | None = None
) -> list[Array]:
    """LshProjection."""
    rows = [np.ascontiguousarray(row).tobytes() for row in x]
    shares = [1.0] * len(rows) if weights is None else weights.reshape(-1).astype(float).tolist()
    bits = np.zeros(seeds.shape, np.int64)
    for place, seed in np.ndenumerate(seeds.astype("<f4")):
        head = seed.tobytes()
        total = sum(
            share * _signed(fingerprint(head + row))
            for share, row in zip(shares, rows, strict=True)
        )
        bits[place] = total > 0
    if op.dense:
        return [bits.reshape(-1)]
    count, width = seeds.shape
    numbers = bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))
    return [numbers + (np.arange(count) << width) if op.apart else numbers]


def hashtable_lookup(op: HashtableLookup, lookups: Array, keys: Array, rows: Array) -> list[Array]:
    """HashtableLookup."""
    places = {int(key): place for place, key in reversed(list(enumerate(keys.tolist())))}
    found = np.zeros((len(lookups), *rows.shape[1:]), rows.dtype)
    hits = np.zeros(len(lookups), np.uint8)
    for number, key in enumerate(lookups.tolist()):
        if key in places:
            found[number], hits[number] = rows[places[key]], 1
    return [found, hits]


KERNELS: dict[type[Op], Kernel] = {HashtableLookup: hashtable_lookup, LshProjection: lsh_projection}
