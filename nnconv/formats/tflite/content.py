"""The constant content of tensors, as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem, plural
from nnconv.formats.tflite.packed import packed_size, unpack
from nnconv.formats.tflite.storage import STORAGE
from nnconv.formats.tflite.wire import File, Tensor

if TYPE_CHECKING:
    import numpy.typing as npt


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
    if data is None or tensor.code not in STORAGE:
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
    storage = STORAGE[tensor.code]
    dtype = np.dtype(storage.dtype)
    needed = packed_size(count, storage.bits)
    if len(data) != needed:
        raise tensor.fail(
            f"its buffer {tensor.buffer} has {plural(len(data), 'byte')}, where "
            f"{plural(count, 'value')} of "
            f"{tensor.code.name} (shape {list(tensor.shape)}) need {needed}"
        )
    if storage.bits < 8:
        return unpack(data, count, bits=storage.bits, signed=dtype.kind == "i")
    # A view whose bytes aren't 0 or 1 is no valid array of truth values.
    if dtype == np.bool_:
        return np.not_equal(data, 0)
    return data.view(dtype)
