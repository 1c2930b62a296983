"""Constants that onnxruntime reads where they are, instead of copies inside the model.

Those whose axes must move are copied first, all into one block: fresh memory in large pages takes
half the time. Threads share the work, and onnxruntime's own Transpose does it: numpy takes 1.5
times as long for elements of 4 bytes, and 6 times for those of one.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nnconv.formats.onnx import wire

LENT_FROM = 1 << 16
"""Constants of so many bytes are lent."""

_MOST_COPYING = 8
"""So many threads copy at most."""

_ALIGNMENT = 64
"""Of each copy, in bytes."""

FATAL_ONLY = 4
"""The log level: what goes wrong is raised too, so the log has nothing to add."""

_NUMPY_TYPES = {
    "FLOAT": "f4", "FLOAT16": "f2", "DOUBLE": "f8", "INT8": "i1", "UINT8": "u1", "INT16": "i2",
    "UINT16": "u2", "INT32": "i4", "INT64": "i8",
}  # fmt: skip
"""The types whose elements numpy and onnxruntime hold alike, as numpy says them of any order."""


def is_lendable(tensor: wire.Tensor) -> bool:
    """Whether numpy and onnxruntime hold a constant's elements alike, and they are many."""
    data = tensor.data
    return (
        isinstance(data, np.ndarray)
        and data.nbytes >= LENT_FROM
        and data.dtype.str[1:] == _NUMPY_TYPES.get(tensor.dtype.name)
    )


def lend(tensors: Sequence[wire.Tensor], runtime: Any) -> dict[str, np.ndarray]:
    """The elements of lendable constants as onnxruntime reads them, by name.

    Args:
        tensors: the constants.
        runtime: the module ``onnxruntime``.
    """
    sources = {tensor.name: (np.asarray(tensor.data), tensor.dtype) for tensor in tensors}
    moved = {name: s for name, s in sources.items() if not _is_readable(s[0])}
    block = np.empty(sum(_padded(data.nbytes) for data, _ in moved.values()), np.uint8)
    found = {name: data for name, (data, _) in sources.items()}
    start = 0
    for name, (data, _) in moved.items():
        place = block[start : start + data.nbytes].view(data.dtype.newbyteorder("="))
        start += _padded(data.nbytes)
        found[name] = place.reshape(data.shape)

    waiting = deque(moved)

    def copy() -> None:
        while True:
            try:
                name = waiting.popleft()
            except IndexError:  # none is left
                return
            _copy(*moved[name], found[name], runtime)

    helpers = min(len(moved), os.cpu_count() or 1, _MOST_COPYING) - 1
    if helpers < 1:
        copy()
        return found
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(helpers) as pool:
        helping = [pool.submit(copy) for _ in range(helpers)]
        copy()
        for done in helping:
            done.result()
    return found


def _copy(data: np.ndarray, dtype: wire.DataType, place: np.ndarray, runtime: Any) -> None:
    """Copy elements into a place of their shape."""
    order = sorted(range(data.ndim), key=lambda axis: -data.strides[axis])
    stored = data.transpose(order)
    if not _is_readable(stored):
        np.copyto(place, data)
        return
    perm = tuple(order.index(axis) for axis in range(data.ndim))
    session = _transposer(dtype, perm, runtime)
    binding = session.io_binding()
    kind = place.dtype.type
    binding.bind_input("x", "cpu", 0, kind, stored.shape, stored.ctypes.data)
    binding.bind_output("y", "cpu", 0, kind, place.shape, place.ctypes.data)
    session.run_with_iobinding(binding)


@cache
def _transposer(dtype: wire.DataType, perm: tuple[int, ...], runtime: Any) -> Any:
    """A session that transposes."""
    from nnconv.formats.onnx import wire
    from nnconv.formats.onnx.protobuf import encode, part_chunks

    node = wire.Node("Transpose", ["x"], ["y"], {"perm": perm})
    x, y = (wire.ValueInfo(name, dtype, [None] * len(perm)) for name in "xy")
    parts, _ = encode(wire.Model(wire.Graph("transpose", [node], [x], [y]), 13))
    options = runtime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(
        b"".join(part_chunks(parts)), options, providers=["CPUExecutionProvider"]
    )


def _is_readable(data: np.ndarray) -> bool:
    return data.flags.c_contiguous and data.flags.aligned and data.dtype.isnative


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
