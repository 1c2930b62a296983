"""Files of tensors in the safetensors format: a JSON header, then the tensors' bytes.

Reading maps a file into memory and gives views; no tensor is copied. Writing puts tensors of larger
elements first and the first of them at a multiple of 64, so that every view is aligned.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import InvalidModelError, plural
from nnconv.formats.json_schema import JsonError, compile_schema, parse_json
from nnconv.formats.stored import Storage, stored_chunks

MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""

ALIGNMENT = 64

CODES = {
    "BOOL": "u1",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
"""The numpy type of each element type that we use; a bool is a byte."""

Array: TypeAlias = "np.ndarray[Any, Any]"

_NATURAL = {"type": "integer", "minimum": 0, "maximum": (1 << 62)}
_READ_TENSOR = compile_schema(
    {
        "type": "object",
        "required": ["dtype", "shape", "data_offsets"],
        "additionalProperties": False,
        "properties": {
            "dtype": {"type": "string"},
            "shape": {"type": "array", "items": _NATURAL, "maxItems": 64},
            "data_offsets": {"type": "array", "items": _NATURAL, "minItems": 2, "maxItems": 2},
        },
    }
)


class Content:
    """What a file holds.

    Attributes:
        tensors: name to (element type as the file says it, the elements).
        metadata: texts by name.
    """

    __slots__ = ("metadata", "tensors")

    def __init__(
        self, tensors: Mapping[str, tuple[str, Array]], metadata: Mapping[str, str]
    ) -> None:
        self.tensors = tensors
        self.metadata = metadata


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """A file's bytes, mapped into memory.

    Raises:
        InvalidModelError: it can't be read.
    """
    try:
        with Path(path).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise InvalidModelError(
            f"it can't be read: {getattr(error, 'strerror', None) or error}", path=os.fspath(path)
        ) from error


def parse(data: memoryview | bytes, *, path: str = "") -> Content:
    """The content of a file's bytes; tensors are views of them.

    Raises:
        InvalidModelError: they aren't a safetensors file.
    """

    def fail(message: str) -> InvalidModelError:
        return InvalidModelError(message, path=path)

    view = memoryview(data).cast("B")
    size = int.from_bytes(view[:8], "little")
    if len(view) < 8 or size > min(len(view) - 8, MOST_HEADER_BYTES):
        raise fail(f"a header of {plural(size, 'byte')} in a file of {len(view)}")
    try:
        header = parse_json(bytes(view[8 : 8 + size]))
    except JsonError as error:
        raise fail(f"its header: {error}") from error
    if not isinstance(header, dict):
        raise fail("its header is no object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(t, str) for t in metadata.values()):
        raise fail("its metadata are no texts")
    body = view[8 + size :]
    tensors = {}
    for name, entry in header.items():
        try:
            described = _READ_TENSOR(entry)
            tensors[name] = (described["dtype"], _view(described, body))
        except JsonError as error:
            raise fail(f"tensor {name!r}: {error}") from error
    return Content(tensors, metadata)


def _view(entry: Mapping[str, Any], body: memoryview) -> Array:
    code, shape = entry["dtype"], tuple(entry["shape"])
    start, stop = entry["data_offsets"]
    if code not in CODES:
        raise JsonError(f"elements of {code[:20]!r} aren't known")
    dtype = np.dtype(CODES[code])
    if not start <= stop <= len(body):
        raise JsonError(f"its bytes {start} to {stop} are outside of the file's {len(body)}")
    if prod(shape) * dtype.itemsize != stop - start:
        raise JsonError(
            f"{plural(stop - start, 'byte')} for {plural(prod(shape), 'element')} of {code}"
        )
    flat = np.frombuffer(body[start:stop], dtype) if stop > start else np.zeros(0, dtype)
    try:
        return flat.reshape(shape)
    except ValueError as error:  # more dimensions, or larger ones beside a 0, than numpy has
        raise JsonError(f"its shape {list(shape)} isn't possible") from error


def chunks(
    tensors: Mapping[str, tuple[str, Array]], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """The bytes of a file, in pieces; each is good until the next is asked for.

    Args:
        tensors: name to (a key of ``CODES``, elements of that type).
        metadata: texts by name.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name][1].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name in order:
        code, array = tensors[name]
        end = offset + array.nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        code, array = tensors[name]
        yield from stored_chunks(
            array, Storage(CODES[code], array.itemsize * 8), fail=InvalidModelError
        )
