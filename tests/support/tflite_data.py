"""How TFLite stores the elements of a tensor: dtype names, packing, strings, sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

TENSOR_TYPES: dict[str, int] = {
    name.lower(): code for name, code in vars(schema.TensorType).items() if name.isupper()
}
"""TFLite's tensor types by lower-case name: ``float32``, ``int4``, ``resource``, ..."""

_BITS_PER_ELEMENT = {"int4": 4, "uint4": 4, "int2": 2}


def dtype_name(array: np.ndarray) -> str:
    """Name the TFLite type that holds the elements of ``array``."""
    if array.dtype.kind in "USO":
        return "string"
    name = array.dtype.name
    if name not in TENSOR_TYPES:
        raise ValueError(f"TFLite has no type for numpy's {name}; it has {', '.join(TENSOR_TYPES)}")
    return name


def encode(array: np.ndarray, dtype: str) -> bytes:
    """Turn ``array`` into the bytes of a TFLite buffer of type ``dtype``.

    Elements are cast to the type. ``int4``, ``uint4`` and ``int2`` are packed, the first element in
    the lowest bits; ``bfloat16`` is rounded to even from float32; strings get TFLite's table of
    offsets in front.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype == "string":
        return _encode_strings(flat.tolist())
    if dtype in _BITS_PER_ELEMENT:
        return _pack(flat.astype(np.int16), _BITS_PER_ELEMENT[dtype])
    if dtype.startswith("float8") or flat.dtype.name == dtype:
        return flat.tobytes()
    if dtype == "bfloat16":
        bits = flat.astype(np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return flat.astype(np.dtype(dtype)).tobytes()


def _pack(values: np.ndarray, bits: int) -> bytes:
    per_byte = 8 // bits
    padded = np.zeros(-(-values.size // per_byte) * per_byte, np.uint8)
    padded[: values.size] = values & ((1 << bits) - 1)
    columns = padded.reshape(-1, per_byte)
    packed = np.zeros(len(columns), np.uint8)
    for position in range(per_byte):
        packed |= columns[:, position] << (bits * position)
    return packed.tobytes()


def _encode_strings(strings: Sequence[str | bytes]) -> bytes:
    blobs = [text.encode() if isinstance(text, str) else text for text in strings]
    start = 4 * (len(blobs) + 2)
    offsets = np.cumsum([start, *map(len, blobs)])
    return np.array([len(blobs), *offsets], np.int32).tobytes() + b"".join(blobs)


def encode_sparse(
    dense: np.ndarray,
    formats: Sequence[str],
    *,
    block: dict[int, int] | None = None,
    traversal: Sequence[int] | None = None,
    index_type: str = "int32",
) -> tuple[np.ndarray, Any]:
    """Encode a dense array as TFLite's sparse values and their metadata.

    Args:
        dense: the array, of any rank.
        formats: ``dense`` or ``csr`` for each level, in traversal order, blocks included.
        block: block size by dimension, in the order of the block levels.
        traversal: a permutation of the levels: dimensions first (0 to rank - 1), then blocks
            (rank, ...). The default is the natural order.
        index_type: ``int32``, ``uint16`` or ``uint8``, for segments and indices alike.

    Returns:
        The values that are stored, flat, and a ``SparsityParametersT``.
    """
    block = block or {}
    rank = dense.ndim
    outer = [size // block.get(axis, 1) for axis, size in enumerate(dense.shape)]
    split: list[int] = []
    position: dict[int, int] = {}
    for axis in range(rank):
        position[axis] = len(split)
        split.append(outer[axis])
        if axis in block:
            position[rank + list(block).index(axis)] = len(split)
            split.append(block[axis])
    order = list(traversal) if traversal is not None else list(range(len(split)))
    levels = dense.reshape(split).transpose([position[level] for level in order])

    parameters = schema.SparsityParametersT(
        traversalOrder=order, blockMap=list(block) or None, dimMetadata=[]
    )
    paths = levels[np.newaxis]
    for name in formats:
        children = paths.reshape(-1, *paths.shape[2:])
        metadata = schema.DimensionMetadataT()
        if name == "dense":
            metadata.format = schema.DimensionType.DENSE
            metadata.denseSize = paths.shape[1]
        else:
            used = paths.reshape(*paths.shape[:2], -1).any(axis=2)
            metadata.format = schema.DimensionType.SPARSE_CSR
            segments = [0, *np.cumsum(used.sum(axis=1)).tolist()]
            metadata.arraySegmentsType, metadata.arraySegments = _indices(segments, index_type)
            metadata.arrayIndicesType, metadata.arrayIndices = _indices(
                np.nonzero(used)[1].tolist(), index_type
            )
            children = children[used.reshape(-1)]
        parameters.dimMetadata.append(metadata)
        paths = children
    return paths.reshape(-1), parameters


def _indices(values: list[int], index_type: str) -> tuple[int, Any]:
    table = {
        "int32": (schema.SparseIndexVector.Int32Vector, schema.Int32VectorT),
        "uint16": (schema.SparseIndexVector.Uint16Vector, schema.Uint16VectorT),
        "uint8": (schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT),
    }
    code, vector = table[index_type]
    return code, vector(values=values)
