"""gemmlowp's functions on 16-bit numbers with a point, as far as LSTMs need them.

Numbers are int64 arrays of codes; "with n integer bits" means code / 2**(15 - n).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray

_LEAST, _MOST = -(1 << 15), (1 << 15) - 1


def saturated(codes: Array) -> Array:
    """Within 16 bits."""
    return np.asarray(np.clip(codes, _LEAST, _MOST))


def _times(a: Array, b: Array | int) -> Array:
    """The product, of as many integer bits as both factors have together: rounded, ties up."""
    product = a * b
    nudge = np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    high = (product + nudge) / (1 << 15)  # exact: below 2**53
    return saturated(np.trunc(high).astype(np.int64))


def shifted_right(codes: Array, count: int) -> Array:
    """Divided by a power of two, ties away from zero."""
    if not count:
        return codes
    half = 1 << (count - 1)
    return np.asarray(np.sign(codes) * ((np.abs(codes) + half) >> count))


def _shifted_left(codes: Array, count: int) -> Array:
    return saturated(codes << count)


def _exp_of_quarter(a: Array) -> Array:
    """e**a for a in [-1/4, 0), without integer bits."""
    x = a + (1 << 12)
    x2 = _times(x, x)
    x3, x4 = _times(x2, x), _times(x2, x2)
    third = _times(shifted_right(x4, 2) + x3, 10923)
    rest = shifted_right(third + x2, 1)
    return saturated(28918 + _times(x + rest, 28918))


_POWERS = ((-2, 25520), (-1, 19875), (0, 12055), (1, 4435), (2, 600), (3, 11), (4, 0))
"""e**-(2**n) without integer bits, for each n."""


def exp_of_negative(a: Array, bits: int) -> Array:
    """e**a for a <= 0 with ``bits`` integer bits; the result has none."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    low = (a & (quarter - 1)) - quarter
    result = _exp_of_quarter(low << bits)
    rest = low - a
    for power, factor in _POWERS:
        if bits > power:
            bit = (rest >> (fraction + power)) & 1
            result = np.where(bit == 1, _times(result, factor), result)
    return np.where(a == 0, _MOST, result)


def _reciprocal(a: Array) -> Array:
    """2 / (1 + a) for a in [0, 1] without integer bits; the result has two."""
    half = (a + _MOST + 1) >> 1
    x = 23130 + _times(half, -15420)
    for _ in range(3):
        short = (1 << 13) - _times(half, x)
        x = saturated(x + _shifted_left(_times(x, short), 2))
    return np.asarray(x)


def logistic(a: Array, bits: int) -> Array:
    """1 / (1 + e**-a) for a with ``bits`` integer bits; the result has none."""
    near = _reciprocal(exp_of_negative(-np.abs(a), bits))
    positive = _shifted_left(near, 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, _MOST - positive))


def tanh(a: Array, bits: int) -> Array:
    """Hyperbolic tangent of a with ``bits`` integer bits; the result has none."""
    near = _reciprocal(exp_of_negative(-np.abs(a), bits + 1))
    positive = _shifted_left(near - (1 << 13), 2)
    return np.where(a == 0, 0, np.where(a > 0, positive, -positive))
