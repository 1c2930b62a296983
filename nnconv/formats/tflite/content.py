"""The constant content of tensors, as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.tflite._gen.schema import TensorType
from nnconv.formats.tflite.packed import packed_size, unpack
from nnconv.formats.tflite.wire import File, Tensor

if TYPE_CHECKING:
    import numpy.typing as npt

DTYPES = {
    TensorType.BOOL: "?",
    TensorType.INT8: "<i1",
    TensorType.INT16: "<i2",
    TensorType.INT32: "<i4",
    TensorType.INT64: "<i8",
    TensorType.UINT8: "<u1",
    TensorType.UINT16: "<u2",
    TensorType.UINT32: "<u4",
    TensorType.UINT64: "<u8",
    TensorType.FLOAT16: "<f2",
    TensorType.FLOAT32: "<f4",
    TensorType.FLOAT64: "<f8",
    TensorType.COMPLEX64: "<c8",
    TensorType.COMPLEX128: "<c16",
    TensorType.BFLOAT16: "<u2",
    TensorType.FLOAT8_E4M3FN: "<u1",
    TensorType.FLOAT8_E5M2: "<u1",
}
"""The numpy dtype of a tensor's content; types that numpy lacks as their bits."""

PACKED = {TensorType.INT2: (2, True), TensorType.INT4: (4, True), TensorType.UINT4: (4, False)}
"""Bits and sign of the types that are packed into bytes."""


def tensor_content(file: File, tensor: Tensor) -> npt.NDArray[Any] | None:
    """See `nnconv.formats.tflite.wire.tensor_data`."""
    if tensor.external_buffer:
        raise UnsupportedError(
            [
                UnsupportedItem(
                    op=tensor.code.name,
                    where=tensor.where,
                    why="its content is in another file",
                    reason=Reason.NOT_IMPLEMENTED,
                )
            ],
            path=file.path,
        )
    data = file.buffer(tensor.buffer) if tensor.buffer else None
    if data is None or (tensor.code not in DTYPES and tensor.code not in PACKED):
        return None
    sparsity = tensor.sparsity
    if sparsity is None:
        return _decode(data, tensor, tensor.size).reshape(tensor.shape)

    from nnconv.formats.tflite.sparsity import densify, read_sparsity, stored_count

    layout = read_sparsity(sparsity, tensor)
    count = stored_count(layout, tensor)
    return densify(_decode(data, tensor, count), layout, tensor)


def _decode(data: npt.NDArray[np.uint8], tensor: Tensor, count: int) -> npt.NDArray[Any]:
    """The ``count`` values in ``data``, flat."""
    packed = PACKED.get(tensor.code)
    if packed:
        needed = packed_size(count, packed[0])
    else:
        dtype = np.dtype(DTYPES[tensor.code])
        needed = count * dtype.itemsize
    if len(data) != needed:
        raise tensor.fail(
            f"its buffer {tensor.buffer} has {len(data)} bytes, where {count} values of "
            f"{tensor.code.name} (shape {list(tensor.shape)}) need {needed}"
        )
    if packed:
        return unpack(data, count, bits=packed[0], signed=packed[1])
    # A view whose bytes aren't 0 or 1 is no valid array of truth values.
    if dtype == np.bool_:
        return np.not_equal(data, 0)
    return data.view(dtype)
