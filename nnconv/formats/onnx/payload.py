"""The bytes of a tensor as an ONNX file holds them; see :mod:`nnconv.formats.stored`."""

from __future__ import annotations

from collections.abc import Iterator

from nnconv.errors import GraphError
from nnconv.formats.onnx.wire import DataType, Tensor
from nnconv.formats.stored import Storage, stored_bytes, stored_chunks, stored_nbytes

_STORAGE = {
    DataType.FLOAT: Storage("<f4", 32),
    DataType.UINT8: Storage("<u1", 8),
    DataType.INT8: Storage("<i1", 8),
    DataType.UINT16: Storage("<u2", 16),
    DataType.INT16: Storage("<i2", 16),
    DataType.INT32: Storage("<i4", 32),
    DataType.INT64: Storage("<i8", 64),
    DataType.BOOL: Storage("?", 8),
    DataType.FLOAT16: Storage("<f2", 16),
    DataType.DOUBLE: Storage("<f8", 64),
    DataType.UINT32: Storage("<u4", 32),
    DataType.UINT64: Storage("<u8", 64),
    DataType.COMPLEX64: Storage("<c8", 64),
    DataType.COMPLEX128: Storage("<c16", 128),
    DataType.BFLOAT16: Storage("<u2", 16),
    DataType.FLOAT8E4M3FN: Storage("<u1", 8),
    DataType.FLOAT8E4M3FNUZ: Storage("<u1", 8),
    DataType.FLOAT8E5M2: Storage("<u1", 8),
    DataType.FLOAT8E5M2FNUZ: Storage("<u1", 8),
    DataType.UINT4: Storage("<u1", 4),
    DataType.INT4: Storage("<i1", 4),
    DataType.FLOAT4E2M1: Storage("<u1", 4),
    DataType.FLOAT8E8M0: Storage("<u1", 8),
    DataType.UINT2: Storage("<u1", 2),
    DataType.INT2: Storage("<i1", 2),
}
"""Per element type: the numpy type that an array of it has, and the bits that the file spends."""


def tensor_nbytes(tensor: Tensor) -> int:
    """Return how many bytes the elements take in the file, after checking that the data fit.

    Raises:
        GraphError: the element type can't be a constant's, an extent is negative, or the data
            have another type, shape or length than the tensor declares.
    """
    storage = _STORAGE.get(tensor.dtype)
    if storage is None:
        raise _error(tensor, f"{tensor.dtype!r} can't be the type of a constant")
    return stored_nbytes(
        tensor.data, tuple(tensor.dims), storage, fail=lambda what: _error(tensor, what)
    )


def tensor_bytes(tensor: Tensor) -> bytes:
    """All the bytes of the elements of a small tensor; see ``tensor_chunks``."""
    return stored_bytes(tensor.data, _STORAGE[tensor.dtype], fail=lambda what: _error(tensor, what))


def tensor_chunks(tensor: Tensor) -> Iterator[memoryview]:
    """Yield the bytes of the elements in order; each piece is good until the next is asked for.

    Call :func:`tensor_nbytes` first: it does the checks.

    Raises:
        GraphError: an element doesn't fit in the under 8 bits of its type.
    """
    return stored_chunks(
        tensor.data, _STORAGE[tensor.dtype], fail=lambda what: _error(tensor, what)
    )


def _error(tensor: Tensor, what: str) -> GraphError:
    return GraphError(f"ONNX tensor {tensor.name!r}: {what}.")
