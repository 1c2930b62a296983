"""The .nnrt file and its .json twin; ``nnconv.formats.container`` says how both are made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from nnconv.formats.container import Container, parse_twin
from nnconv.formats.nnrt.jsonform import FORMAT, from_plain, to_plain
from nnconv.formats.nnrt.wire import Graph

_FILES = Container(FORMAT, leaves=("data_type", "op"))


def is_nnrt(head: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that starts with ``head`` is one of ours."""
    return _FILES.is_own(head, size)


def read(source: str | os.PathLike[str] | bytes, *, name: str = "") -> Graph:
    """Read a model; its larger constants stay in the file's memory map.

    Args:
        source: a path, or the bytes of a file.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: the file is broken.
    """
    plain, tensors, path = _FILES.read(source, name=name)
    return from_plain(plain, tensors, path=path)


def from_json(text: str | bytes, *, path: str = "") -> Graph:
    """The model of a .json twin.

    Raises:
        InvalidModelError: the text is broken.
    """
    return from_plain(parse_twin(text, path=path), {}, path=path)


def to_json(graph: Graph) -> str:
    """The text of a model's .json twin; a line for each tensor and operation."""
    return _FILES.twin(partial(to_plain, graph))


def file_chunks(graph: Graph) -> Iterator[bytes | memoryview]:
    """The bytes of a model's .nnrt file, in pieces; each is good until the next is asked for."""
    return _FILES.chunks(partial(to_plain, graph))


def to_bytes(graph: Graph) -> bytes:
    """The bytes of a model's .nnrt file."""
    return b"".join(file_chunks(graph))


def write(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a .nnrt file, or the twin where the name ends in .json.

    Raises:
        InvalidModelError: a tensor has data, but no type of elements.
        UsageError: the file can't be written.
    """
    _FILES.write(partial(to_plain, graph), path)
