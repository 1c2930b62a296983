"""The elements of a file's tensors: as the file stores them, and as the IR does.

A file has elements as raw bytes, in one of six typed fields, or in another file. Raw bytes and
typed fields of floats are taken as they lie; varints are decoded when they are asked for. Nothing
is allocated before what the shape demands has been compared with what the file holds.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.payload import tensor_nbytes
from nnconv.formats.onnx.protobuf_reader import BrokenMessageError, Bytes, packed_varints
from nnconv.formats.onnx.wire import DataType, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

STORED = {
    DataType.FLOAT: ("<f4", 32),
    DataType.UINT8: ("<u1", 8),
    DataType.INT8: ("<i1", 8),
    DataType.UINT16: ("<u2", 16),
    DataType.INT16: ("<i2", 16),
    DataType.INT32: ("<i4", 32),
    DataType.INT64: ("<i8", 64),
    DataType.BOOL: ("<u1", 8),
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
    DataType.FLOAT8E8M0: ("<u1", 8),
    DataType.UINT4: ("<u1", 4),
    DataType.INT4: ("<i1", 4),
    DataType.FLOAT4E2M1: ("<u1", 4),
    DataType.UINT2: ("<u1", 2),
    DataType.INT2: ("<i1", 2),
    DataType.FLOAT6E2M3: ("<u1", 6),
    DataType.FLOAT6E3M2: ("<u1", 6),
}
"""Per element type of numbers: the numpy type of an unpacked element, and its bits in the file."""

FIELD_OF = {
    DataType.FLOAT: "float_data",
    DataType.COMPLEX64: "float_data",
    DataType.DOUBLE: "double_data",
    DataType.COMPLEX128: "double_data",
    DataType.INT64: "int64_data",
    DataType.UINT32: "uint64_data",
    DataType.UINT64: "uint64_data",
}
"""The typed field that holds elements of a type; ``int32_data`` for the others."""

MOST_AXES = 64
"""How many numpy's arrays can have."""

MOST_BYTES = (1 << 63) - 1
"""What a tensor may take by its extents other than 0: numpy counts bytes in 64 bits."""


def stored_bytes(dtype: DataType, dims: Sequence[int]) -> int:
    """How many bytes the elements of a tensor of numbers take as raw bytes.

    Raises:
        BrokenMessageError: the extents are no shape.
    """
    if len(dims) > MOST_AXES:
        raise BrokenMessageError(
            f"it has {plural(len(dims), 'axis', 'axes')}, allowed are {MOST_AXES}"
        )
    if dims and min(dims) < 0:
        raise BrokenMessageError(f"the shape {list(dims)} has a negative extent")
    bits = STORED[dtype][1]
    if prod(extent for extent in dims if extent) * max(bits, 8) > MOST_BYTES * 8:
        raise BrokenMessageError(f"the shape {list(dims)} has too many elements")
    return (prod(dims) * bits + 7) // 8


def from_varints(dtype: DataType, dims: Sequence[int], data: Bytes) -> npt.NDArray[Any] | bytes:
    """The elements of a packed field of integers, in a form that a wire tensor has.

    Types under 8 bits are returned packed, since each number of the field is a packed byte.

    Raises:
        BrokenMessageError: the field isn't sound, or their number isn't what ``dims`` needs.
    """
    values = packed_varints(data)
    storage, bits = STORED[dtype]
    narrow: npt.NDArray[Any]
    if bits == 6:  # the one type whose numbers of the field are elements, not raw bytes
        _count(len(values), prod(dims))
        return _packed6((values & 63).astype(np.uint8))
    if bits < 8:
        _count(len(values), stored_bytes(dtype, dims))
        return values.astype(np.uint8).tobytes()
    _count(len(values), prod(dims))
    if dtype is DataType.BOOL:
        narrow = values != 0
        return narrow.reshape(dims)
    # protobuf narrows what is too large for a field, and runtimes what is for a type.
    narrow = values.astype(f"<u{bits // 8}").view(storage)
    return narrow.reshape(dims)


def _count(found: int, needed: int) -> None:
    if found != needed:
        raise BrokenMessageError(f"its data have {plural(found, 'number')}, {needed} are needed")


def _packed6(codes: npt.NDArray[np.uint8]) -> bytes:
    bits = np.unpackbits(codes[:, None], axis=1, count=6, bitorder="little")
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def unpacked(
    raw: npt.NDArray[np.uint8], bits: int, *, count: int, signed: bool
) -> npt.NDArray[Any]:
    """Spread out elements of fewer than 8 bits, the first in the lowest bits.

    Args:
        raw: uint8 of shape (n,).
        bits: 2, 4 or 6.
        count: the number of elements, for which ``raw`` has just enough bytes.
        signed: whether the highest bit of an element is its sign.

    Returns:
        int8 or, of unsigned elements, uint8 of shape (count,).
    """
    width = 3 if bits == 6 else 1  # bytes of the least group that holds whole elements
    per_group = width * 8 // bits
    groups: npt.NDArray[Any] = raw
    if width == 3:
        padded = np.zeros(-(-len(raw) // 3) * 3, np.uint32)
        padded[: len(raw)] = raw
        groups = padded[::3] | padded[1::3] << 8 | padded[2::3] << 16
    spread = np.empty((len(groups), per_group), np.uint8)
    for place in range(per_group):
        spread[:, place] = (groups >> (bits * place)) & ((1 << bits) - 1)
    flat = spread.reshape(-1)[:count]
    if not signed:
        return flat
    spare = 8 - bits
    return np.right_shift(np.left_shift(flat, spare).view(np.int8), spare)


def array_of(tensor: Tensor) -> npt.NDArray[Any]:
    """See :meth:`nnconv.formats.onnx.wire.Tensor.array`."""
    data = tensor.data
    dims = tuple(tensor.dims)
    if tensor.dtype is DataType.STRING and isinstance(data, np.ndarray):
        return data
    if tensor.dtype not in _UNWRITTEN:
        tensor_nbytes(tensor)  # the writer's check of what others made
    storage, bits = STORED[tensor.dtype]
    array: npt.NDArray[Any]
    if isinstance(data, np.ndarray):
        array = data
    elif bits < 8:
        raw = np.frombuffer(data or b"", np.uint8)
        flat = unpacked(raw, bits, count=prod(dims), signed=storage == "<i1")
        array = flat.reshape(dims)
    else:
        array = np.frombuffer(data or b"", storage).reshape(dims)
    if tensor.dtype is DataType.BOOL and array.dtype != np.bool_:
        clean = not array.size or array.max() <= 1
        array = array.view(np.bool_) if clean else array != 0
    elif tensor.dtype is DataType.BFLOAT16:
        import ml_dtypes  # loaded only where a bfloat16 model needs it

        array = array.view(ml_dtypes.bfloat16)
    return array


_UNWRITTEN = frozenset({DataType.FLOAT6E2M3, DataType.FLOAT6E3M2})
