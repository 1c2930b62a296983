"""Feed broken .tflite files to nnconv: nothing but clean errors may come of them.

    python tools/fuzz_tflite.py MODEL_OR_FOLDER... [--cases 20000] [--target wire|convert|...]
        [--changes bytes|values]

Each case changes one of the files in a few places and hands the result to the target, a function of
a path. Changed are bytes (bits flipped, offsets, lengths and vtable slots rewritten, spans cut,
moved or zeroed) or values within a sound structure (see `fuzz_values`). What a failure is, and how
to repeat a case, is said in `fuzzing`.

Exits 1 if a case failed. ``--keep FOLDER`` saves the files of those.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnconv.formats.tflite import wire
from nnconv.formats.tflite._gen.schema import TABLES
from nnconv.formats.tflite.flatbuffer import Reader, Table

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzz_values
import fuzzing

MOST_TABLES = 20_000
"""How many tables of a file `find_places` looks at."""

# ------------------------------------------------------------------------------------- mutations


@dataclass
class Places:
    """Where the structure of a file lies, so that changes hit it and not the weights.

    Attributes:
        offsets: bytes where an offset stands, to a table, a vector or a string.
        lengths: bytes where the length of a vector or string stands.
        slots: bytes where a vtable has a slot.
        scalars: bytes where a scalar field stands.
        tables: bytes where a table starts.
    """

    offsets: list[int]
    lengths: list[int]
    slots: list[int]
    scalars: list[int]
    tables: list[int]

    def groups(self) -> fuzzing.Groups:
        """All of them."""
        return self.offsets, self.lengths, self.slots, self.scalars, self.tables


def find_places(data: bytes) -> Places:
    """Find the structure of a sound file."""
    places = Places([0], [], [], [], [])
    vtables: set[int] = set()
    reader = Reader(memoryview(data))
    todo = [reader.root("Model")]
    while todo and len(places.tables) < MOST_TABLES:
        table = todo.pop()
        places.tables.append(table.pos)
        places.offsets.append(table.pos)  # to the vtable
        vtable = table.pos - struct.unpack_from("<i", data, table.pos)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        if vtable not in vtables:
            vtables.add(vtable)
            places.slots += range(vtable, vtable + size, 2)
        for name, (slot, kind, _, _) in TABLES[table.name].items():
            if not table.has(name):
                continue
            at = table.pos + struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
            if kind == "scalar":
                places.scalars.append(at)
                continue
            places.offsets.append(at)
            if kind in ("table", "union"):
                child = table.table(name) if kind == "table" else table.union(name)
                todo += [child] if child is not None else []
                continue
            start = at + struct.unpack_from("<I", data, at)[0]
            places.lengths.append(start)
            if kind == "tables":
                children: list[Table] = table.tables(name)
                places.offsets += range(start + 4, start + 4 + 4 * len(children), 4)
                todo += children
    return places


def mutate(data: bytes, places: Places, rng: random.Random) -> bytes:
    """Break a file in one to four places."""
    broken = bytearray(data)
    groups = places.groups()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        number = rng.randrange(len(_MUTATIONS) + len(_PLAIN_MUTATIONS))
        if number < len(_MUTATIONS):
            _MUTATIONS[number](broken, places, rng)
        else:
            _PLAIN_MUTATIONS[number - len(_MUTATIONS)](broken, groups, rng)
    return bytes(broken)


def _put(broken: bytearray, at: int, form: str, value: int) -> None:
    if at + struct.calcsize(form) <= len(broken):
        struct.pack_into(form, broken, at, value & (256 ** struct.calcsize(form) - 1))


def _set_offset(broken: bytearray, places: Places, rng: random.Random) -> None:
    at = rng.choice(places.offsets)
    size = len(broken)
    _put(
        broken,
        at,
        "<I",
        rng.choice(
            (
                rng.choice((0, 1, 2, 4, 8, size, size - at, size - at - 4)),
                rng.choice((2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4)),
                rng.choice(places.tables) - at,
                rng.choice(places.lengths or [0]) - at,
                rng.randrange(size + 1),
            )
        ),
    )


def _set_length(broken: bytearray, places: Places, rng: random.Random) -> None:
    if not places.lengths:
        return
    at = rng.choice(places.lengths)
    room = max(len(broken) - at - 4, 0)
    length = struct.unpack_from("<I", broken.ljust(at + 4, b"\0"), at)[0]
    _put(
        broken,
        at,
        "<I",
        rng.choice(
            (
                rng.choice((0, 1, 255, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1)),
                rng.choice((room, room // 2, room // 4, room // 8, room // 4 + 1)),
                rng.choice((length - 1, length + 1, 2 * length, length // 2)),
            )
        ),
    )


def _set_slot(broken: bytearray, places: Places, rng: random.Random) -> None:
    value = rng.choice((0, 2, 3, 4, 6, 8, 12, 40, 2**15, 2**16 - 1, rng.randrange(2**16)))
    _put(broken, rng.choice(places.slots), "<H", value)


def _set_scalar(broken: bytearray, places: Places, rng: random.Random) -> None:
    value = rng.choice((0, 1, -1, 2, 127, 128, 255, 2**31 - 1, -(2**31), rng.randrange(2**32)))
    _put(broken, rng.choice(places.scalars or [0]), rng.choice(("<B", "<I", "<Q")), value)


def _set_item(broken: bytearray, places: Places, rng: random.Random) -> None:
    """Change what stands in a vector: an index, an extent, a scale, a character."""
    at = rng.choice(places.lengths or [0]) + 4 + 4 * rng.randrange(6)
    value = rng.choice((0, 1, -1, -2, 3, 10**6, 2**31 - 1, -(2**31), rng.randrange(2**32)))
    _put(broken, at, rng.choice(("<B", "<I", "<Q")), value)


_MUTATIONS: Sequence[Callable[[bytearray, Places, random.Random], None]] = (
    _set_offset,
    _set_offset,
    _set_length,
    _set_length,
    _set_slot,
    _set_scalar,
    _set_scalar,
    _set_item,
    _set_item,
)
_PLAIN_MUTATIONS = fuzzing.PLAIN_CHANGES

# --------------------------------------------------------------------------------------- targets


def read_all(path: Path) -> None:
    """Read a file and everything in it."""
    file = wire.read(path)
    for subgraph in file.subgraphs:
        for tensor in subgraph.tensors:
            wire.tensor_data(file, tensor)
            _ = tensor.quantization, tensor.variant
        for op in subgraph.operators:
            _ = op.calls, op.intermediates, op.mutating_variable_inputs, op.custom_options
            options = op.options
            for field, (_slot, kind, type_name, _default) in TABLES.get(options.name, {}).items():
                if kind == "scalar":
                    _ = options.float(field) if type_name == "float32" else options.int(field)
                else:
                    _ = options.ints(field) if kind == "vector" else options.text(field)
    _ = [content.sum() for content in file.metadata.values()]


def convert(path: Path) -> None:
    """Convert a file to ONNX."""
    import nnconv

    nnconv.convert(path, path.with_suffix(".onnx"))


FUZZER = fuzzing.Fuzzer(
    module="fuzz_tflite",
    suffix=".tflite",
    targets={"wire": read_all, "convert": convert},
    changes={
        "bytes": (find_places, mutate),
        "values": (fuzz_values.find_values, fuzz_values.change),
    },
)

if __name__ == "__main__":
    sys.exit(fuzzing.main(FUZZER, __doc__.splitlines()[0]))
