"""The bytes of a tensor as an ONNX file holds them, in pieces, without a copy of the whole.

An array that already lies in memory the way the file wants it (C order, little endian) is handed
out as views. Any other is brought into that form a block at a time, so that neither a transposed
view nor a broadcast one nor a memory-mapped file ever costs more memory than a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from nnconv.errors import GraphError
from nnconv.formats.onnx.wire import DataType, Tensor

BLOCK_BYTES = 1 << 22
"""Upper bound of a block's size: far above what a write call costs, far below a big tensor."""

_STORAGE = {
    DataType.FLOAT: ("<f4", 32),
    DataType.UINT8: ("<u1", 8),
    DataType.INT8: ("<i1", 8),
    DataType.UINT16: ("<u2", 16),
    DataType.INT16: ("<i2", 16),
    DataType.INT32: ("<i4", 32),
    DataType.INT64: ("<i8", 64),
    DataType.BOOL: ("?", 8),
    DataType.FLOAT16: ("<f2", 16),
    DataType.DOUBLE: ("<f8", 64),
    DataType.UINT32: ("<u4", 32),
    DataType.UINT64: ("<u8", 64),
    DataType.COMPLEX64: ("<c8", 64),
    DataType.COMPLEX128: ("<c16", 128),
    DataType.BFLOAT16: ("<u2", 16),
    DataType.FLOAT8E4M3FN: ("<u1", 8),
    DataType.FLOAT8E4M3FNUZ: ("<u1", 8),
    DataType.FLOAT8E5M2: ("<u1", 8),
    DataType.FLOAT8E5M2FNUZ: ("<u1", 8),
    DataType.UINT4: ("<u1", 4),
    DataType.INT4: ("<i1", 4),
    DataType.FLOAT4E2M1: ("<u1", 4),
    DataType.FLOAT8E8M0: ("<u1", 8),
    DataType.UINT2: ("<u1", 2),
    DataType.INT2: ("<i1", 2),
}
"""Per element type: the numpy type that an array of it has, and the bits that the file spends."""


def tensor_nbytes(tensor: Tensor) -> int:
    """Return how many bytes the elements take in the file, after checking that the data fit.

    Raises:
        GraphError: the element type can't be a constant's, an extent is negative, or the data
            have another type, shape or length than the tensor declares.
    """
    entry = _STORAGE.get(tensor.dtype)
    if entry is None:
        raise _error(tensor, f"{tensor.dtype!r} can't be the type of a constant")
    storage, bits = entry
    dims = tuple(tensor.dims)
    if any(extent < 0 for extent in dims):
        raise _error(tensor, f"an extent of {dims} is negative")
    nbytes = (math.prod(dims) * bits + 7) // 8
    data = tensor.data
    if data is None:
        if nbytes:
            raise _error(tensor, f"it has no data, but its shape {dims} has elements")
    elif isinstance(data, np.ndarray):
        if data.shape != dims:
            raise _error(tensor, f"its shape is {dims}, that of its data {data.shape}")
        expected = np.dtype(storage)
        if data.dtype.newbyteorder("<") != expected:
            raise _error(tensor, f"its data are {data.dtype}, allowed is {expected}")
    else:
        view = memoryview(data)
        if not view.c_contiguous:
            raise _error(tensor, "its data are a memoryview with gaps")
        length = view.nbytes
        if length != nbytes:
            raise _error(tensor, f"its data are {length} bytes long; {nbytes} are needed")
    return nbytes


def tensor_chunks(tensor: Tensor) -> Iterator[memoryview]:
    """Yield the bytes of the elements in order; each piece is good until the next is asked for.

    Call :func:`tensor_nbytes` first: it does the checks.

    Raises:
        GraphError: an element doesn't fit in the under 8 bits of its type.
    """
    data = tensor.data
    if data is None:
        return
    if not isinstance(data, np.ndarray):
        yield from _slices(memoryview(data).cast("B"))
        return
    storage, bits = _STORAGE[tensor.dtype]
    if data.size == 0:
        return
    if bits < 8:
        yield from _packed(tensor, data, bits)
        return
    wanted = np.dtype(storage)
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


def _packed(tensor: Tensor, array: np.ndarray[Any, Any], bits: int) -> Iterator[memoryview]:
    """Pack elements of 2 or 4 bits, the first of each byte in its lowest bits."""
    per_byte = 8 // bits
    signed = array.dtype.kind == "i"
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = lowest + (1 << bits) - 1
    rest = np.empty(0, np.uint8)
    for block in _blocks(array):
        if block.min() < lowest or block.max() > highest:
            raise _error(tensor, f"an element is outside {lowest} to {highest}")
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


def _error(tensor: Tensor, what: str) -> GraphError:
    return GraphError(f"ONNX tensor {tensor.name!r}: {what}.")
