"""The .nnapi file and its .json twin; ``nnconv.formats.container`` says how both are made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from nnconv.formats.container import Container, parse_twin
from nnconv.formats.nnapi.jsonform import FORMAT, from_plain, to_plain
from nnconv.formats.nnapi.wire import Model

_FILES = Container(FORMAT, leaves=("lifetime", "type"))


def is_nnapi(head: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that starts with ``head`` is one of ours."""
    return _FILES.is_own(head, size)


def read(source: str | os.PathLike[str] | bytes, *, name: str = "") -> Model:
    """Read a model; its larger constants stay in the file's memory map.

    Args:
        source: a path, or the bytes of a file.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken.
    """
    plain, tensors, path = _FILES.read(source, name=name)
    return from_plain(plain, tensors, path=path)


def from_json(text: str | bytes, *, path: str = "") -> Model:
    """The model of a .json twin.

    Raises:
        InvalidModelError: the text is broken.
    """
    return from_plain(parse_twin(text, path=path), {}, path=path)


def to_json(model: Model) -> str:
    """The text of a model's .json twin; a line for each operand and operation."""
    return _FILES.twin(partial(to_plain, model))


def file_chunks(model: Model) -> Iterator[bytes | memoryview]:
    """The bytes of a model's .nnapi file, in pieces; each is good until the next is asked for."""
    return _FILES.chunks(partial(to_plain, model))


def to_bytes(model: Model) -> bytes:
    """The bytes of a model's .nnapi file."""
    return b"".join(file_chunks(model))


def write(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a .nnapi file, or the twin where the name ends in .json.

    Raises:
        InvalidModelError: a constant has no value.
        UsageError: the file can't be written.
    """
    _FILES.write(partial(to_plain, model), path)
