"""Integers of 2 and 4 bits, which TFLite packs into bytes with the first value in the low bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def packed_size(count: int, bits: int) -> int:
    """The number of bytes that ``count`` values of ``bits`` bits take."""
    return -(-count * bits // 8)


def unpack(
    data: npt.NDArray[np.uint8], count: int, *, bits: int, signed: bool
) -> npt.NDArray[np.int8] | npt.NDArray[np.uint8]:
    """Spread packed values out, one a byte.

    Args:
        data: uint8 of shape (packed_size(count, bits),).
        count: how many values to read; bits behind the last are ignored.
        bits: 2 or 4.
        signed: whether the values are in two's complement.

    Returns:
        int8 or uint8 of shape (count,).
    """
    per_byte = 8 // bits
    spread = np.empty((len(data), per_byte), np.uint8)
    for place in range(per_byte):
        # Shifting left drops the values above; shifting back drops those below, and spreads the
        # sign if there is one.
        np.left_shift(data, 8 - bits * (place + 1), out=spread[:, place])
    flat = spread.reshape(-1)[:count]
    if signed:
        return np.right_shift(flat.view(np.int8), 8 - bits)
    return np.right_shift(flat, 8 - bits)
