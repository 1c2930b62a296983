"""Quantization parameters as a .tflite file has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnconv.errors import InvalidModelError, plural
from nnconv.formats.tflite.flatbuffer import Table

if TYPE_CHECKING:
    import numpy.typing as npt


class Blockwise(NamedTuple):
    """Where the parameters of a tensor lie that is quantized in blocks of its last axis."""

    scales: int
    """Index of the tensor of scales, in the same subgraph."""
    zero_points: int
    """Index of the tensor of zero points; 0 and -1 stand for none."""
    block_size: int
    """Values that share one scale."""


class MultiAxis(NamedTuple):
    """Where the parameters of a tensor lie that is quantized along several axes."""

    scales: int
    zero_points: int
    block_size: int
    axes: tuple[int, ...]


class Quantization:
    """Quantization parameters.

    Attributes:
        scale: float32 of shape (n,); n is 1, or the tensor's extent along ``axis``; 0 if the
            parameters are elsewhere (``blockwise``, ``multi_axis``, ``custom``).
        zero_point: int64 of shape (n,).
        axis: the axis that the parameters belong to, where n > 1.
        blockwise: parameters in other tensors.
        block_shape: the block's extents, where the file gives them.
        multi_axis: parameters in other tensors.
        custom: parameters that only some custom op understands.
    """

    __slots__ = ("axis", "block_shape", "blockwise", "custom", "multi_axis", "scale", "zero_point")

    def __init__(
        self,
        scale: npt.NDArray[np.float32],
        zero_point: npt.NDArray[np.int64],
        *,
        axis: int,
        details: Table | None,
    ) -> None:
        self.scale = scale
        self.zero_point = zero_point
        self.axis = axis
        self.blockwise: Blockwise | None = None
        self.block_shape: tuple[int, ...] = ()
        self.multi_axis: MultiAxis | None = None
        self.custom: bytes | None = None
        if details is None:
            return
        if details.name == "CustomQuantization":
            self.custom = bytes(details.raw("custom"))
            return
        scales, zero_points, block_size = (
            details.scalar(field) for field in ("scales", "zero_points", "block_size")
        )
        if details.name == "BlockwiseQuantization":
            self.blockwise = Blockwise(scales, zero_points, block_size)
            self.block_shape = details.values("block_shape")
        else:
            axes = details.values("quantized_dimensions")
            self.multi_axis = MultiAxis(scales, zero_points, block_size, axes)


def read_quantization(
    tensor: Table, shape: tuple[int, ...], *, fail: Callable[[str], InvalidModelError]
) -> Quantization | None:
    """Decode the quantization of a tensor's table; None if it has none.

    Args:
        tensor: the table of the tensor.
        shape: its shape.
        fail: makes an error that names the tensor.

    Raises:
        InvalidModelError: if the numbers of parameters don't fit each other or the shape.
    """
    table = tensor.table("quantization")
    if table is None:
        return None
    scale, zero_point = table.array("scale"), table.array("zero_point")
    details = table.union("details")
    if not len(scale) and details is None:
        return None
    axis: int = table.scalar("quantized_dimension")
    # A missing zero point is 0, and one is enough for all channels.
    if len(zero_point) != len(scale):
        if len(zero_point) > 1:
            raise fail(
                f"{plural(len(scale), 'scale')} beside {plural(len(zero_point), 'zero point')}"
            )
        zero_point = np.full(len(scale), zero_point[0] if len(zero_point) else 0, np.int64)
    if len(scale) > 1 and shape:
        if not 0 <= axis < len(shape):
            raise fail(f"its quantized axis is {axis}, its rank {len(shape)}")
        if len(scale) != shape[axis]:
            raise fail(
                f"{plural(len(scale), 'scale')} can't belong to the "
                f"{plural(shape[axis], 'channel')} of axis {axis}"
            )
    return Quantization(scale, zero_point, axis=axis, details=details)
