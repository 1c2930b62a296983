"""Sparse constants: how TFLite packs them, and making them dense.

A sparse tensor is stored as a tree with one level per dimension, in `traversal_order`. A level is
dense (each node has a child for each coordinate) or compressed (CSR: the children of node ``i`` are
the entries ``segments[i]`` to ``segments[i + 1]`` of ``indices``, which hold their coordinates).
The leaves are the stored values. Dimensions may be cut into blocks: the blocked dimension then
counts blocks, and a further, dense level at the end counts within the block; ``block_map`` says
which dimension each of these belongs to.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnconv.errors import plural
from nnconv.formats.tflite._gen.schema import DimensionType
from nnconv.formats.tflite.flatbuffer import Table
from nnconv.formats.tflite.wire import Tensor

if TYPE_CHECKING:
    import numpy.typing as npt

_FREE_SIZE = 1 << 24
_LEAST_DENSITY = 4096
"""A dense form of more than _FREE_SIZE values must have stored one value in _LEAST_DENSITY.

The extents of compressed dimensions cost nothing in a file, so a small one could ask for any amount
of memory. Pruned networks keep one value in 1000 at the very least.
"""


class Level(NamedTuple):
    """One level of the tree.

    Attributes:
        extent: the number of coordinates.
        stride: how far apart two neighbouring coordinates lie in the dense tensor, in elements.
        segments: int64 of shape (nodes above + 1,), None for a dense level.
        indices: int64 of shape (nodes,), None for a dense level.
    """

    extent: int
    stride: int
    segments: npt.NDArray[np.int64] | None
    indices: npt.NDArray[np.int64] | None


def read_sparsity(table: Table, tensor: Tensor) -> list[Level]:
    """Decode the SparsityParameters of a tensor, level by level.

    Raises:
        InvalidModelError: if they don't fit each other or the tensor's shape.
    """
    rank = len(tensor.shape)
    order = table.values("traversal_order")
    block_map = table.values("block_map")
    metadata = table.tables("dim_metadata")
    total = rank + len(block_map)
    if len(metadata) != total or len(order) != total:
        raise tensor.fail(
            f"its sparse form has {plural(len(metadata), 'dimension')} and orders "
            f"{len(order)}: a tensor "
            f"of rank {rank} with {len(block_map)} blocked dimensions needs {total}"
        )
    if sorted(order[:rank]) != list(range(rank)) or sorted(order[rank:]) != list(
        range(rank, total)
    ):
        raise tensor.fail(f"its traversal order {list(order)} is impossible")
    if len(set(block_map)) != len(block_map) or any(not 0 <= axis < rank for axis in block_map):
        raise tensor.fail(f"its block map {list(block_map)} is impossible for rank {rank}")

    sizes = [1] * rank
    for level, dimension in enumerate(order[rank:], rank):
        axis = block_map[dimension - rank]
        sizes[axis] = size = metadata[level].scalar("dense_size")
        if metadata[level].scalar("format") != DimensionType.DENSE:
            raise tensor.fail(f"the blocks of axis {axis} are sparse inside")
        if size < 1 or tensor.shape[axis] % size:
            raise tensor.fail(
                f"blocks of {size} don't divide the {tensor.shape[axis]} of axis {axis}"
            )
    levels = []
    for level, dimension in enumerate(order):
        axis = dimension if dimension < rank else block_map[dimension - rank]
        stride = prod(tensor.shape[axis + 1 :])
        extent = sizes[axis]
        if dimension < rank:
            stride, extent = stride * sizes[axis], tensor.shape[axis] // sizes[axis]
        levels.append(_read_level(metadata[level], tensor, level, extent=extent, stride=stride))
    return levels


def _read_level(table: Table, tensor: Tensor, level: int, *, extent: int, stride: int) -> Level:
    form = table.scalar("format")
    if form == DimensionType.DENSE:
        size = table.scalar("dense_size")
        if size != extent:
            raise tensor.fail(f"level {level} of its sparse form has extent {size}, not {extent}")
        return Level(extent, stride, None, None)
    if form != DimensionType.SPARSE_CSR:
        raise tensor.fail(f"level {level} of its sparse form has the unknown format {form}")
    segments, indices = (
        np.empty(0, np.int64) if vector is None else vector.array("values").astype(np.int64)
        for vector in (table.union("array_segments"), table.union("array_indices"))
    )
    if not len(segments) or segments[0] != 0 or segments[-1] != len(indices):
        raise tensor.fail(f"the segments of level {level} of its sparse form miss its indices")
    if (segments[1:] < segments[:-1]).any():
        raise tensor.fail(f"the segments of level {level} of its sparse form fall")
    if len(indices) and (indices.min() < 0 or indices.max() >= extent):
        raise tensor.fail(
            f"the indices of level {level} of its sparse form run from {indices.min()} to "
            f"{indices.max()}, beyond its extent {extent}"
        )
    return Level(extent, stride, segments, indices)


def stored_count(levels: list[Level], tensor: Tensor) -> int:
    """The number of values that a sparse tensor stores.

    Raises:
        InvalidModelError: if a level has more or fewer segments than the level above has nodes.
    """
    if not tensor.size:
        return 0
    nodes = 1
    for number, level in enumerate(levels):
        if level.segments is None or level.indices is None:
            nodes *= level.extent
        elif len(level.segments) != nodes + 1:
            raise tensor.fail(
                f"level {number} of its sparse form has "
                f"{plural(len(level.segments), 'segment bound')}, "
                f"where {plural(nodes, 'node')} above take {nodes + 1}"
            )
        else:
            nodes = len(level.indices)
    return nodes


def densify(values: npt.NDArray[Any], levels: list[Level], tensor: Tensor) -> npt.NDArray[Any]:
    """Make a sparse tensor dense, with 0 for what isn't stored.

    Args:
        values: the stored values, of shape (`stored_count`,).
        levels: from `read_sparsity`.
        tensor: the tensor.

    Returns:
        An array of the tensor's shape and the values' dtype.

    Raises:
        InvalidModelError: if the dense form would be absurdly large.
    """
    size = tensor.size
    if size > _FREE_SIZE + _LEAST_DENSITY * len(values):
        raise tensor.fail(
            f"its shape {list(tensor.shape)} has {plural(size, 'value')}, of which only "
            f"{len(values)} are "
            "stored"
        )
    dense = np.zeros(size, values.dtype)
    if len(values):
        # Where each node of the current level starts in the dense tensor.
        places = np.zeros(1, np.int64)
        for level in levels:
            if level.segments is None or level.indices is None:
                steps = np.arange(level.extent, dtype=np.int64) * level.stride
                places = (places[:, None] + steps).reshape(-1)
            else:
                places = np.repeat(places, np.diff(level.segments)) + level.indices * level.stride
        dense[places] = values
    return dense.reshape(tensor.shape)
