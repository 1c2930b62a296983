"""Feed broken .nnapi files, or their .json twins, to nnconv: nothing but clean errors may come.

    python tools/fuzz_nnapi.py MODEL_OR_FOLDER... [--cases 20000] [--target import|read]
        [--changes entries|bytes]

Each case changes one of the files in a few places and hands the result to the target, a function of
a path. Changed are entries of the JSON (dimensions, types, values, indices, scales, and what there
is of operands and operations), which is sound JSON afterwards; or bytes of the file. What a failure
is, and how to repeat a case, is said in `fuzzing`. `tools/cts_report.py --write FOLDER` gives files
to change.

Exits 1 if a case failed. ``--keep FOLDER`` saves the files of those.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from nnconv.formats.nnapi.file import read, to_json
from nnconv.formats.nnapi.reader import read as read_ir
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.ir.verifier import verify_model

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzzing

EXTENTS = (0, 1, 2, 3, 4, 5, 7, 1000, 70000, (1 << 32) - 1)
NUMBERS = (-1, 0, 1, 2, 3, 4, 7, 100, -(1 << 31), (1 << 31) - 1)
SCALES = (0, -1, 1e-30, 1e30, 0.5)
POINTS = (0, 1, 128, 255, -128, 99999)

# ------------------------------------------------------------------------------ changes of bytes


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


# ---------------------------------------------------------------------------- changes of entries


def find_entries(data: bytes) -> dict[str, Any]:
    """A sound file as its JSON twin's data."""
    plain: dict[str, Any] = json.loads(to_json(read(data)))
    return plain


def change_entries(_: bytes, plain: dict[str, Any], rng: random.Random) -> bytes:
    """The twin with one to four entries changed."""
    broken = json.loads(json.dumps(plain))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        graph = rng.choice([broken["main"], *broken.get("referenced", [])])
        if graph["operands"] and graph["operations"]:
            rng.choice(ENTRY_CHANGES)(graph, rng)
    return json.dumps(broken).encode("ascii")


def _extent(graph: dict[str, Any], rng: random.Random) -> None:
    dims = rng.choice(graph["operands"]).get("dimensions")
    if dims:
        dims[rng.randrange(len(dims))] = rng.choice(EXTENTS)


def _value(graph: dict[str, Any], rng: random.Random) -> None:
    constants = [operand for operand in graph["operands"] if "value" in operand]
    if not constants:
        return
    operand = rng.choice(constants)
    number = rng.choice(NUMBERS) if "FLOAT" not in operand["type"] else rng.choice(SCALES)
    if not isinstance(operand["value"], list):
        operand["value"] = number
    elif operand["value"]:
        operand["value"][rng.randrange(len(operand["value"]))] = number


def _resize(graph: dict[str, Any], rng: random.Random) -> None:
    """Other dimensions; a constant gets as many elements."""
    operand = rng.choice(graph["operands"])
    dims = operand["dimensions"] = [rng.choice(EXTENTS[:6]) for _ in range(rng.randrange(6))]
    if operand["lifetime"] == "constant":
        count = 1
        for extent in dims:
            count *= extent
        operand.pop("base64", None)
        operand["value"] = [rng.choice((0, 1, 2, 3)) for _ in range(count)]


def _type(graph: dict[str, Any], rng: random.Random) -> None:
    rng.choice(graph["operands"])["type"] = rng.choice(list(OperandCode)).name


def _operation(graph: dict[str, Any], rng: random.Random) -> None:
    rng.choice(graph["operations"])["type"] = rng.choice(list(OperationCode)).name


def _quant(graph: dict[str, Any], rng: random.Random) -> None:
    operand = rng.choice(graph["operands"])
    operand["scale"], operand["zero_point"] = rng.choice(SCALES), rng.choice(POINTS)


def _index(graph: dict[str, Any], rng: random.Random) -> None:
    operation = rng.choice(graph["operations"])
    indices = rng.choice((operation["inputs"], operation["outputs"]))
    if indices:
        indices[rng.randrange(len(indices))] = rng.randrange(len(graph["operands"]))


def _count(graph: dict[str, Any], rng: random.Random) -> None:
    """One input or output more or less, of an operation or the graph."""
    operation = rng.choice(graph["operations"])
    lists = (operation["inputs"], operation["outputs"], graph["inputs"], graph["outputs"])
    indices = rng.choice(lists)
    if indices and rng.random() < 0.5:
        indices.pop(rng.randrange(len(indices)))
    else:
        indices.append(rng.randrange(len(graph["operands"])))


def _lifetime(graph: dict[str, Any], rng: random.Random) -> None:
    operand = rng.choice(graph["operands"])
    for key in ("value", "base64", "model"):
        operand.pop(key, None)
    operand["lifetime"] = rng.choice(("temporary", "input", "output", "no_value"))


ENTRY_CHANGES = (
    *(_extent, _value, _value, _value, _resize, _type),
    *(_operation, _quant, _index, _count, _lifetime),
)


# ------------------------------------------------------------------------------------- targets


def read_file(path: Path) -> None:
    """Read a file, as far as its form goes."""
    read(path)


def import_file(path: Path) -> None:
    """Read a file into the IR, which must be sound."""
    verify_model(read_ir(path))


FUZZER = fuzzing.Fuzzer(
    module="fuzz_nnapi",
    suffix=".json",
    targets={"import": import_file, "read": read_file},
    changes={
        "entries": (find_entries, change_entries),
        "bytes": (find_places, change_bytes),
    },
)

if __name__ == "__main__":
    sys.exit(fuzzing.main(FUZZER, __doc__.splitlines()[0]))
