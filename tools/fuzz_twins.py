"""Changes of files of `nnconv.formats.container`: of bytes, or of entries of their JSON twins.

What operands and operations are called there differs from format to format: `Twin` says it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import fuzzing

Graph: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Graph, random.Random], None]

EXTENTS = (0, 1, 2, 3, 4, 5, 7, 1000, 70000, (1 << 31) - 1)
NUMBERS = (-1, 0, 1, 2, 3, 4, 7, 100, -(1 << 31), (1 << 31) - 1)
SCALES = (0, -1, 1e-30, 1e30, 0.5)
POINTS = (0, 1, 128, 255, -128, 99999)


def find_places(data: bytes) -> list[list[int]]:
    """The header of a file, and where numbers and quotes stand in its JSON."""
    head = list(range(min(16, len(data))))
    marks = [i for i, byte in enumerate(data[: 1 << 16]) if byte in b'"[]{}:,']
    digits = [i for i, byte in enumerate(data[: 1 << 16]) if byte in b"0123456789.-"]
    return [head, marks, digits]


def change_bytes(data: bytes, places: list[list[int]], rng: random.Random) -> bytes:
    """Break a file in one to four places."""
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(fuzzing.PLAIN_CHANGES)(broken, places, rng)
    return bytes(broken)


@dataclass(frozen=True)
class Twin:
    """How a format's twin is changed.

    Attributes:
        to_json: the twin of a sound file's bytes.
        graphs: the graphs of a twin's data.
        operands: the entry with a graph's operands.
        kind, kinds: the entry with an operand's type of elements, and the names there.
        operation, operations: the entry with an operation's name, and the names there.
        lists: the entries of an operation that hold indices.
        is_constant: whether an operand has elements.
        changes: changes that the format alone has, of operands.
        extents: extents to put in.
    """

    to_json: Callable[[bytes], str]
    graphs: Callable[[Graph], list[Graph]]
    operands: str
    kind: str
    kinds: Sequence[str]
    operation: str
    operations: Sequence[str]
    lists: tuple[str, ...]
    is_constant: Callable[[dict[str, Any]], bool]
    changes: tuple[Callable[[dict[str, Any], random.Random], None], ...]
    extents: tuple[int, ...] = EXTENTS

    def find(self, data: bytes) -> dict[str, Any]:
        """A sound file as its twin's data."""
        plain: dict[str, Any] = json.loads(self.to_json(data))
        return plain

    def change(self, _: bytes, plain: dict[str, Any], rng: random.Random) -> bytes:
        """The twin with one to four entries changed."""
        broken = json.loads(json.dumps(plain))
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            graph = rng.choice(self.graphs(broken))
            if graph[self.operands] and graph["operations"]:
                rng.choice(self._changes())(graph, rng)
        return json.dumps(broken).encode("ascii")

    def _changes(self) -> list[Change]:
        own: list[Change] = [
            lambda graph, rng, change=change: change(rng.choice(graph[self.operands]), rng)  # type: ignore[misc]
            for change in self.changes
        ]
        return [
            *(self._extent, self._value, self._value, self._value, self._resize, self._type),
            *(self._operation, self._index, self._count, *own),
        ]

    def _extent(self, graph: Graph, rng: random.Random) -> None:
        dims = rng.choice(graph[self.operands]).get("dimensions")
        if dims:
            dims[rng.randrange(len(dims))] = rng.choice(self.extents)

    def _value(self, graph: Graph, rng: random.Random) -> None:
        constants = [operand for operand in graph[self.operands] if "value" in operand]
        if not constants:
            return
        operand = rng.choice(constants)
        number = rng.choice(NUMBERS if "FLOAT" not in operand[self.kind] else SCALES)
        if not isinstance(operand["value"], list):
            operand["value"] = number
        elif operand["value"]:
            operand["value"][rng.randrange(len(operand["value"]))] = number

    def _resize(self, graph: Graph, rng: random.Random) -> None:
        """Other dimensions; a constant gets as many elements."""
        operand = rng.choice(graph[self.operands])
        dims = operand["dimensions"] = [rng.choice(EXTENTS[:6]) for _ in range(rng.randrange(6))]
        if self.is_constant(operand):
            count = 1
            for extent in dims:
                count *= extent
            operand.pop("base64", None)
            operand["value"] = [rng.choice((0, 1, 2, 3)) for _ in range(count)]

    def _type(self, graph: Graph, rng: random.Random) -> None:
        rng.choice(graph[self.operands])[self.kind] = rng.choice(self.kinds)

    def _operation(self, graph: Graph, rng: random.Random) -> None:
        rng.choice(graph["operations"])[self.operation] = rng.choice(self.operations)

    def _index(self, graph: Graph, rng: random.Random) -> None:
        indices = rng.choice(graph["operations"]).get(rng.choice(self.lists))
        if indices:
            indices[rng.randrange(len(indices))] = rng.randrange(len(graph[self.operands]))

    def _count(self, graph: Graph, rng: random.Random) -> None:
        """One input or output more or less, of an operation or the graph."""
        operation = rng.choice(graph["operations"])
        lists = [
            *(operation.get(name, []) for name in self.lists),
            graph["inputs"],
            graph["outputs"],
        ]
        indices = rng.choice(lists)
        if indices and rng.random() < 0.5:
            indices.pop(rng.randrange(len(indices)))
        else:
            indices.append(rng.randrange(len(graph[self.operands])))


def changes_of(twin: Twin) -> dict[str, fuzzing.Changes]:
    """What a fuzzer of a format offers."""
    return {"entries": (twin.find, twin.change), "bytes": (find_places, change_bytes)}
