"""Models as JSON in a safetensors file, whose tensors are the larger constants; or as JSON alone.

Formats of which the runtime knows no file are kept so. A metadata key holds the model, and the
``.json`` twin, for models written by hand, is that JSON with its constants inside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from nnconv.errors import InvalidModelError
from nnconv.formats.atomic import replacing
from nnconv.formats.constants import Array, Place, Tensors, in_base64
from nnconv.formats.json_schema import JsonError, compile_schema, parse_json
from nnconv.formats.safetensors import chunks, map_file, parse
from nnconv.schemas import read_schema

TWIN_SUFFIX = ".json"

Model = TypeVar("Model")

Spell: TypeAlias = "Callable[[Model, Place], dict[str, Any]]"
"""Gives a model's JSON data; larger constants go to the place."""

Build: TypeAlias = "Callable[[Any, Tensors], Model]"
"""Makes a model of JSON data that keep the schema, and of the tensors that they may name; raises
``JsonError`` where its parts don't fit together."""


class Container(Generic[Model]):
    """The files of one format.

    Attributes:
        key: the metadata key, which the JSON data have as their ``format``.
        schema: the file of schemas/ that defines the JSON data.
        leaves: entries that tell an object which stands in one line of a twin.
        spell: gives a model's JSON data.
        build: makes a model of them.
    """

    __slots__ = ("_by_schema", "build", "key", "leaves", "schema", "spell")

    def __init__(
        self,
        key: str,
        *,
        schema: str,
        leaves: tuple[str, ...],
        spell: Spell[Model],
        build: Build[Model],
    ) -> None:
        self.key = key
        self.schema = schema
        self.leaves = frozenset(leaves)
        self.spell = spell
        self.build = build
        self._by_schema: Callable[[Any], Any] | None = None

    def read(self, source: str | os.PathLike[str] | bytes, *, name: str = "") -> Model:
        """Read a file or a twin; larger constants stay in the file's memory map.

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
            return self.from_json(bytes(data), path=path)
        content = parse(data, path=path)
        text = content.metadata.get(self.key)
        if text is None:
            raise InvalidModelError(f"its metadata have no key {self.key}", path=path)
        try:
            plain = parse_json(text)
        except JsonError as error:
            raise InvalidModelError(f"its metadata {self.key}: {error}", path=path) from error
        return self._built(plain, content.tensors, path)

    def from_json(self, text: str | bytes, *, path: str = "") -> Model:
        """The model of a twin.

        Raises:
            InvalidModelError: the text is broken.
        """
        try:
            plain = parse_json(text)
        except JsonError as error:
            raise InvalidModelError(str(error), path=path) from error
        return self._built(plain, {}, path)

    def _built(self, plain: Any, tensors: Tensors, path: str) -> Model:
        if self._by_schema is None:
            self._by_schema = compile_schema(read_schema(self.schema))
        try:
            return self.build(self._by_schema(plain), tensors)
        except JsonError as error:
            raise InvalidModelError(str(error), path=path) from error

    def to_json(self, model: Model) -> str:
        """The text of a model's twin; a line for each object that is a leaf."""
        return self._lines(self.spell(model, in_base64), 0) + "\n"

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

    def chunks(self, model: Model) -> Iterator[bytes | memoryview]:
        """The bytes of a model's file, in pieces; each is good until the next is asked for."""
        tensors: dict[str, tuple[str, Array]] = {}
        names: dict[int, str] = {}

        def place(data: Array, code: str) -> dict[str, Any]:
            name = names.get(id(data))
            if name is None or tensors[name][0] != code:
                name = names[id(data)] = f"constant{len(tensors)}"
                tensors[name] = (code, data)
            return {"tensor": name}

        text = json.dumps(self.spell(model, place), separators=(",", ":"))
        yield from chunks(tensors, {self.key: text})

    def to_bytes(self, model: Model) -> bytes:
        """The bytes of a model's file."""
        return b"".join(self.chunks(model))

    def write(self, model: Model, path: str | os.PathLike[str]) -> None:
        """Write a file, or the twin where the name ends in .json.

        Raises:
            InvalidModelError: the model has a constant that can't be written.
            UsageError: the file can't be written.
        """
        target = Path(path)
        pieces: Iterator[bytes | memoryview]
        if target.suffix == TWIN_SUFFIX:
            pieces = iter([self.to_json(model).encode("ascii")])
        else:
            pieces = self.chunks(model)
        first = next(pieces)  # what is wrong with the model comes up before a file is opened
        with replacing(target) as (file,):
            file.write(first)
            for piece in pieces:
                file.write(piece)


def check_places(plain: dict[str, Any], what: str, count: int, place: str = "") -> None:
    """See that the operations of a graph, and its inputs and outputs, name what is there.

    Args:
        plain: the graph's JSON data.
        what: what they name: operands, tensors.
        count: how many of those there are.
        place: the graph's place, for messages.

    Raises:
        JsonError: one names more.
    """
    label = f"{place}." if place else ""
    for index, entry in enumerate(plain["operations"]):
        if any(i >= count for i in (*entry.get("params", ()), *entry["inputs"], *entry["outputs"])):
            raise JsonError(f"{label}operations[{index}]: {what} beyond the {count} there are")
    if any(i >= count for i in (*plain["inputs"], *plain["outputs"])):
        where = f"{place}: " if place else ""
        raise JsonError(f"{where}an input or output, {what} beyond the {count} there are")
