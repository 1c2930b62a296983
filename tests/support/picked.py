"""Data, indices and places for ops that pick, put and sort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOVED = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
)
"""Types whose elements move as they are."""

RNG = np.random.default_rng(3)


def numbers(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    """Different small numbers of a type."""
    size = int(np.prod(shape))
    whole = RNG.permutation(size) - size // 3
    if dtype == "bool":
        return (whole % 2).astype(bool).reshape(shape)
    return (np.abs(whole) if dtype.startswith("u") else whole).astype(dtype).reshape(shape)


def picks(shape: Sequence[int], extent: int, *, dtype: str = "int64") -> np.ndarray:
    """Indices from both ends."""
    return RNG.integers(-extent, extent, shape).astype(dtype)


def different(count: int, extents: Sequence[int]) -> np.ndarray:
    """Different places [count, len(extents)], some of them counted from the end."""
    chosen = RNG.permutation(int(np.prod(extents)))[:count]
    places = np.stack(np.unravel_index(chosen, extents), axis=-1)
    return places - np.asarray(extents) * RNG.integers(0, 2, places.shape)
