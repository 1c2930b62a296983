"""Models as JSON in a safetensors file, whose tensors are the larger constants; or as JSON alone.

Formats of which the runtime knows no file are kept so. A metadata key holds the model, and the
``.json`` twin, for models written by hand, is that JSON with its constants inside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from nnconv.errors import InvalidModelError
from nnconv.formats.atomic import replacing
from nnconv.formats.constants import Array, Place, Tensors, in_base64
from nnconv.formats.json_check import JsonError, parse_json
from nnconv.formats.marks import is_container
from nnconv.formats.safetensors import chunks, map_file, parse

TWIN_SUFFIX = ".json"

Spell: TypeAlias = "Callable[[Place], dict[str, Any]]"
"""Gives a model's JSON data; larger constants go to the place."""


class Container:
    """The files of one format.

    Attributes:
        key: the metadata key, which the JSON data have as their ``format``.
        leaves: entries that tell an object which stands in one line of a twin.
    """

    __slots__ = ("key", "leaves")

    def __init__(self, key: str, *, leaves: tuple[str, ...]) -> None:
        self.key = key
        self.leaves = frozenset(leaves)

    def is_own(self, head: bytes, size: int) -> bool:
        """Whether a file of ``size`` bytes that starts with ``head`` is one of this format."""
        return is_container(self.key, head, size)

    def read(
        self, source: str | os.PathLike[str] | bytes, *, name: str = ""
    ) -> tuple[Any, Tensors, str]:
        """The JSON data of a file, the tensors in its memory map, and what errors call it.

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
            return parse_twin(bytes(data), path=path), {}, path
        content = parse(data, path=path)
        text = content.metadata.get(self.key)
        if text is None:
            raise InvalidModelError(f"its metadata have no key {self.key}", path=path)
        try:
            return parse_json(text), content.tensors, path
        except JsonError as error:
            raise InvalidModelError(f"its metadata {self.key}: {error}", path=path) from error

    def twin(self, spell: Spell) -> str:
        """The text of a twin; a line for each object that is a leaf."""
        return self._lines(spell(in_base64), 0) + "\n"

    def _lines(self, plain: Any, depth: int) -> str:
        """JSON with line breaks down to the leaves."""
        is_leaf = isinstance(plain, dict) and not self.leaves.isdisjoint(plain)
        flat = is_leaf or not isinstance(plain, dict | list) or not plain
        if flat or (isinstance(plain, list) and not isinstance(plain[0], dict)):
            return json.dumps(plain)
        pad = " " * (depth + 1)
        if isinstance(plain, dict):
            rows = [f"{pad}{json.dumps(k)}: {self._lines(v, depth + 1)}" for k, v in plain.items()]
            return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"
        rows = [pad + self._lines(entry, depth + 1) for entry in plain]
        return "[\n" + ",\n".join(rows) + "\n" + " " * depth + "]"

    def chunks(self, spell: Spell) -> Iterator[bytes | memoryview]:
        """The bytes of a file, in pieces; each is good until the next is asked for."""
        tensors: dict[str, tuple[str, Array]] = {}
        names: dict[int, str] = {}

        def place(data: Array, code: str) -> dict[str, Any]:
            name = names.get(id(data))
            if name is None or tensors[name][0] != code:
                name = names[id(data)] = f"constant{len(tensors)}"
                tensors[name] = (code, data)
            return {"tensor": name}

        text = json.dumps(spell(place), separators=(",", ":"))
        yield from chunks(tensors, {self.key: text})

    def write(self, spell: Spell, path: str | os.PathLike[str]) -> None:
        """Write a file, or the twin where the name ends in .json.

        Raises:
            InvalidModelError: a constant has no value.
            UsageError: the file can't be written.
        """
        target = Path(path)
        pieces: Iterator[bytes | memoryview]
        if target.suffix == TWIN_SUFFIX:
            pieces = iter([self.twin(spell).encode("ascii")])
        else:
            pieces = self.chunks(spell)
        first = next(pieces)  # what is wrong with the model comes up before a file is opened
        with replacing(target) as (file,):
            file.write(first)
            for piece in pieces:
                file.write(piece)


def parse_twin(text: str | bytes, *, path: str = "") -> Any:
    """The JSON data of a twin.

    Raises:
        InvalidModelError: the text is broken.
    """
    try:
        return parse_json(text)
    except JsonError as error:
        raise InvalidModelError(str(error), path=path) from error
