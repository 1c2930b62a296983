"""The .nnapi file and its .json twin.

A .nnapi file is a safetensors file: the larger constants are its tensors, and the metadata key
``nnconv.nnapi`` holds the model as JSON. The twin, for models written by hand, is all JSON.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nnconv.errors import InvalidModelError
from nnconv.formats.atomic import replacing
from nnconv.formats.json_check import JsonError, parse_json
from nnconv.formats.nnapi.jsonform import FORMAT, from_plain, to_plain
from nnconv.formats.nnapi.types import OperandCode
from nnconv.formats.nnapi.wire import Model, Operand
from nnconv.formats.safetensors import chunks, map_file, parse

TENSOR_CODES = {
    OperandCode.TENSOR_FLOAT32: "F32",
    OperandCode.TENSOR_INT32: "I32",
    OperandCode.TENSOR_QUANT8_ASYMM: "U8",
    OperandCode.TENSOR_QUANT16_SYMM: "I16",
    OperandCode.TENSOR_FLOAT16: "F16",
    OperandCode.TENSOR_BOOL8: "BOOL",
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: "I8",
    OperandCode.TENSOR_QUANT16_ASYMM: "U16",
    OperandCode.TENSOR_QUANT8_SYMM: "I8",
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: "I8",
    OperandCode.FLOAT32: "F32",
    OperandCode.INT32: "I32",
    OperandCode.UINT32: "U32",
    OperandCode.BOOL: "BOOL",
    OperandCode.FLOAT16: "F16",
}
"""What a .nnapi file calls the elements of each type."""

SUFFIX, TWIN_SUFFIX = ".nnapi", ".json"


def is_nnapi(head: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that starts with ``head`` is one of ours."""
    if head[:1] in (b"{", b" ", b"\n"):
        return f'"{FORMAT}"'.encode() in head
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and length <= size - 8 and f'"{FORMAT}"'.encode() in head


def read(source: str | os.PathLike[str] | bytes, *, name: str = "") -> Model:
    """Read a model; its larger constants stay in the file's memory map.

    Args:
        source: a path, or the bytes of a file.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken.
    """
    if isinstance(source, bytes):
        data, path = memoryview(source), name
    else:
        path = name or os.fspath(source)
        data = map_file(source)
    if bytes(data[:64]).lstrip()[:1] == b"{":
        return from_json(bytes(data), path=path)
    content = parse(data, path=path)
    text = content.metadata.get(FORMAT)
    if text is None:
        raise InvalidModelError(f"its metadata have no key {FORMAT}", path=path)
    try:
        plain = parse_json(text)
    except JsonError as error:
        raise InvalidModelError(f"its metadata {FORMAT}: {error}", path=path) from error
    return from_plain(plain, content.tensors, path=path)


def from_json(text: str | bytes, *, path: str = "") -> Model:
    """The model of a .json twin.

    Raises:
        InvalidModelError: the text is broken.
    """
    try:
        plain = parse_json(text)
    except JsonError as error:
        raise InvalidModelError(str(error), path=path) from error
    return from_plain(plain, {}, path=path)


def to_json(model: Model) -> str:
    """The text of a model's .json twin; a line for each operand and operation."""

    def place(_: Operand, data: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"base64": base64.b64encode(np.ascontiguousarray(data).tobytes()).decode("ascii")}

    return _lines(to_plain(model, place), 0) + "\n"


def _lines(plain: Any, depth: int) -> str:
    """JSON with line breaks down to the entries of the lists of a graph."""
    is_entry = isinstance(plain, dict) and ("lifetime" in plain or "type" in plain)
    flat = is_entry or not isinstance(plain, dict | list) or not plain
    if flat or (isinstance(plain, list) and not isinstance(plain[0], dict)):
        return json.dumps(plain)
    pad = " " * (depth + 1)
    if isinstance(plain, dict):
        rows = [f"{pad}{json.dumps(key)}: {_lines(v, depth + 1)}" for key, v in plain.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"
    rows = [pad + _lines(entry, depth + 1) for entry in plain]
    return "[\n" + ",\n".join(rows) + "\n" + " " * depth + "]"


def file_chunks(model: Model) -> Iterator[bytes | memoryview]:
    """The bytes of a model's .nnapi file, in pieces; each is good until the next is asked for."""
    tensors: dict[str, tuple[str, np.ndarray[Any, Any]]] = {}
    names: dict[int, str] = {}

    def place(operand: Operand, data: np.ndarray[Any, Any]) -> dict[str, Any]:
        name = names.get(id(data))
        if name is None or tensors[name][0] != TENSOR_CODES[operand.type]:
            name = names[id(data)] = f"constant{len(tensors)}"
            tensors[name] = (TENSOR_CODES[operand.type], data)
        return {"tensor": name}

    text = json.dumps(to_plain(model, place), separators=(",", ":"))
    yield from chunks(tensors, {FORMAT: text})


def to_bytes(model: Model) -> bytes:
    """The bytes of a model's .nnapi file."""
    return b"".join(file_chunks(model))


def write(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a .nnapi file, or the twin where the name ends in .json.

    Raises:
        InvalidModelError: a constant has no value.
        UsageError: the file can't be written.
    """
    target = Path(path)
    if target.suffix == TWIN_SUFFIX:
        pieces: Iterator[bytes | memoryview] = iter([to_json(model).encode("ascii")])
    else:
        pieces = file_chunks(model)
    first = next(pieces)  # what is wrong with the model comes up before a file is opened
    with replacing(target) as (file,):
        file.write(first)
        for piece in pieces:
            file.write(piece)
