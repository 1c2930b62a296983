"""The bytes of a tensor as model files hold them, in pieces, without a copy of the whole.

An array that already lies in memory the way the file wants it (C order, little endian) is handed
out as views. Any other is brought into that form a block at a time, so that neither a transposed
view nor a broadcast one nor a memory-mapped file ever costs more memory than a block.

Data come in one of three forms: an array of the storage type, the bytes as the file will hold them,
or None for no elements. Both of our formats pack types under 8 bits the same way, the first element
of a byte in its lowest bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nnconv.errors import plural

BLOCK_BYTES = 1 << 22
"""Upper bound of a block's size: far above what a write call costs, far below a big tensor."""

Data: TypeAlias = "np.ndarray[Any, Any] | bytes | memoryview | None"

Fail: TypeAlias = Callable[[str], Exception]
"""Makes the error to raise from what is wrong with a tensor."""


class Storage(NamedTuple):
    """How a file holds the elements of a type."""

    dtype: str
    """The numpy type that an array of elements has."""
    bits: int
    """What the file spends on an element."""


_numpy_type = cache(np.dtype)


def stored_nbytes(data: Data, dims: tuple[int, ...], storage: Storage, *, fail: Fail) -> int:
    """Return how many bytes the elements take in a file, after checking that ``data`` fit.

    Raises:
        Exception: what ``fail`` makes, if an extent is negative or the data have another type,
            shape or length than they should.
    """
    if dims and min(dims) < 0:
        raise fail(f"an extent of {dims} is negative")
    nbytes = (math.prod(dims) * storage.bits + 7) // 8
    if data is None:
        if nbytes:
            raise fail(f"it has no data, but its shape {dims} has elements")
    elif isinstance(data, np.ndarray):
        if data.shape != dims:
            raise fail(f"its shape is {dims}, that of its data {data.shape}")
        expected = _numpy_type(storage.dtype)
        if data.dtype != expected and data.dtype.newbyteorder("<") != expected:
            raise fail(f"its data are {data.dtype}, allowed is {expected}")
    else:
        view = memoryview(data)
        if not view.c_contiguous:
            raise fail("its data are a memoryview with gaps")
        if view.nbytes != nbytes:
            raise fail(f"its data are {plural(view.nbytes, 'byte')} long; {nbytes} are needed")
    return nbytes


def stored_bytes(data: Data, storage: Storage, *, fail: Fail) -> bytes:
    """All the bytes of a small tensor; see ``stored_chunks``."""
    if isinstance(data, np.ndarray) and storage.bits >= 8:
        return data.astype(_numpy_type(storage.dtype), copy=False).tobytes()
    return b"".join(stored_chunks(data, storage, fail=fail))


def stored_chunks(data: Data, storage: Storage, *, fail: Fail) -> Iterator[memoryview]:
    """Yield the bytes of the elements in order; each piece is good until the next is asked for.

    Call :func:`stored_nbytes` first: it does the checks.

    Raises:
        Exception: what ``fail`` makes, if an element doesn't fit in the under 8 bits of its type.
    """
    if data is None:
        return
    if not isinstance(data, np.ndarray):
        yield from _slices(memoryview(data).cast("B"))
        return
    if data.size == 0:
        return
    if storage.bits < 8:
        yield from _packed(data, storage.bits, fail=fail)
        return
    wanted = _numpy_type(storage.dtype)
    if data.flags.c_contiguous and data.dtype == wanted:
        yield from _slices(memoryview(data.reshape(-1).view(np.uint8)))
        return
    for block in _blocks(data):
        ready = np.ascontiguousarray(block, dtype=wanted)
        yield memoryview(ready.reshape(-1).view(np.uint8))


def _slices(view: memoryview) -> Iterator[memoryview]:
    """Cut ``view``, so that no single write call gets more than the system takes at once."""
    for start in range(0, view.nbytes, BLOCK_BYTES):
        yield view[start : start + BLOCK_BYTES]


def _blocks(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Cut ``array`` along its leading axes into views of bounded size, in C order."""
    if array.ndim == 0 or array.nbytes <= BLOCK_BYTES:
        yield array
        return
    row_bytes = array.nbytes // array.shape[0]
    if row_bytes > BLOCK_BYTES:
        for row in array:
            yield from _blocks(row)
        return
    rows = BLOCK_BYTES // row_bytes
    for start in range(0, array.shape[0], rows):
        yield array[start : start + rows]


def _packed(array: np.ndarray[Any, Any], bits: int, *, fail: Fail) -> Iterator[memoryview]:
    """Pack elements of 2 or 4 bits, the first of each byte in its lowest bits."""
    per_byte = 8 // bits
    signed = array.dtype.kind == "i"
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = lowest + (1 << bits) - 1
    rest = np.empty(0, np.uint8)
    for block in _blocks(array):
        if block.min() < lowest or block.max() > highest:
            raise fail(f"an element is outside {lowest} to {highest}")
        flat = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
        if rest.size:
            flat = np.concatenate([rest, flat])
        whole = flat.size - flat.size % per_byte
        rest = flat[whole:]
        yield memoryview(_pack(flat[:whole], bits))
    if rest.size:
        last = np.zeros(per_byte, np.uint8)
        last[: rest.size] = rest
        yield memoryview(_pack(last, bits))


def _pack(flat: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Pack whole bytes' worth of elements."""
    per_byte = 8 // bits
    mask = np.uint8((1 << bits) - 1)
    packed = flat[::per_byte] & mask
    for position in range(1, per_byte):
        packed |= (flat[position::per_byte] & mask) << np.uint8(position * bits)
    return packed
