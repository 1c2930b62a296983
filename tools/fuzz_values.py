"""Changes of the values in a .tflite file that leave its structure sound.

Broken offsets rarely get past the reader. These do: options, extents, types, the operands of
operators, quantization parameters and the contents of small constants become others, in place.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

from nnconv.formats.tflite._gen.schema import TABLES
from nnconv.formats.tflite.flatbuffer import Reader, Table

MOST_TABLES = 20_000
"""How many tables of a file are looked at."""

SMALL = 256
"""Bytes of a constant that may well be indices."""

FORMS = {
    "bool": "<?",
    "int8": "<b",
    "uint8": "<B",
    "int16": "<h",
    "uint16": "<H",
    "int32": "<i",
    "uint32": "<I",
    "int64": "<q",
    "uint64": "<Q",
    "float32": "<f",
}

_KEPT = {"Model.version", "Buffer.offset", "Buffer.size", "OperatorCode.deprecated_builtin_code"}
"""Fields whose change is no use: the file is refused at once."""


@dataclass
class Spot:
    """A scalar, or the items of a vector.

    Attributes:
        at: byte where it starts.
        form: of `struct`, for one item.
        count: of items.
        length: byte where a vector's length stands; None for a scalar.
    """

    at: int
    form: str
    count: int = 1
    length: int | None = None


@dataclass
class Values:
    """Where the values of a file stand.

    Attributes:
        groups: spots by kind: options, operands, extents, types, quantization, contents, others.
        tensors: how many tensors there are.
    """

    groups: dict[str, list[Spot]] = field(default_factory=dict)
    tensors: int = 0


_WEIGHTS = {
    "options": 5,
    "operands": 3,
    "extents": 3,
    "types": 1,
    "quantization": 2,
    "contents": 4,
    "others": 1,
}


def _group(table: str, name: str) -> str:
    if table.endswith("Options"):
        return "options"
    if table in ("Operator", "SubGraph") and name in ("inputs", "outputs", "intermediates"):
        return "operands"
    if name in ("shape", "shape_signature"):
        return "extents"
    if (table, name) in {("Tensor", "type"), ("OperatorCode", "builtin_code")}:
        return "types"
    return "quantization" if "Quantization" in table else "others"


def find_values(data: bytes) -> Values:
    """Find the values of a sound file."""
    found = Values()
    todo = [Reader(memoryview(data)).root("Model")]
    for _ in range(MOST_TABLES):
        if not todo:
            break
        table = todo.pop()
        found.tensors += table.name == "Tensor"
        vtable = table.pos - struct.unpack_from("<i", data, table.pos)[0]
        for name, (slot, kind, type_name, _) in TABLES[table.name].items():
            if not table.has(name) or f"{table.name}.{name}" in _KEPT:
                continue
            at = table.pos + struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
            if kind in ("scalar", "vector"):
                _note(found, data, table, name, at=at, kind=kind, type_name=type_name)
            elif kind == "tables":
                todo += table.tables(name)
            elif kind in ("table", "union"):
                child = table.table(name) if kind == "table" else table.union(name)
                todo += [child] if child is not None else []
    return found


def _note(
    found: Values, data: bytes, table: Table, name: str, *, at: int, kind: str, type_name: str
) -> None:
    group, form = _group(table.name, name), FORMS[type_name]
    if kind == "scalar":
        found.groups.setdefault(group, []).append(Spot(at, form))
        return
    start = at + struct.unpack_from("<I", data, at)[0]
    count = struct.unpack_from("<I", data, start)[0]
    if table.name == "Buffer":
        if not 0 < count <= SMALL:
            return
        # Small constants are mostly indices, and most of those have 32 bits.
        group, form = ("contents", "<i") if count % 4 == 0 else ("contents", "<B")
        spot = Spot(start + 4, form, count // struct.calcsize(form))
    else:
        spot = Spot(start + 4, form, count, start)
    found.groups.setdefault(group, []).append(spot)


def change(data: bytes, values: Values, rng: random.Random) -> bytes:
    """Change one to four values of a file."""
    changed = bytearray(data)
    groups = [name for name in _WEIGHTS if values.groups.get(name)]
    weights = [_WEIGHTS[name] for name in groups]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        group = rng.choices(groups, weights)[0]
        spot = rng.choice(values.groups[group])
        if spot.length is not None and spot.count and rng.random() < 0.15:
            struct.pack_into("<I", changed, spot.length, rng.randrange(spot.count))
            continue
        if not spot.count:
            continue
        at = spot.at + struct.calcsize(spot.form) * rng.randrange(spot.count)
        old = struct.unpack_from(spot.form, data, at)[0]
        struct.pack_into(spot.form, changed, at, _other(spot.form, old, group, values, rng))
    return bytes(changed)


def _other(form: str, old: Any, group: str, values: Values, rng: random.Random) -> Any:
    if form == "<?":
        return not old
    if form == "<f":
        numbers = (0.0, -0.0, 1.0, -1.0, 1e-30, -1e30, 3e38, float("inf"), float("nan"), old * 2)
        return _as_float(rng.choice(numbers))
    bits = 8 * struct.calcsize(form)
    low, high = (
        (0, (1 << bits) - 1) if form.isupper() else (-(1 << (bits - 1)), (1 << bits - 1) - 1)
    )
    if group == "operands" and rng.random() < 0.8:
        wanted = rng.randrange(-1, values.tensors + 1)
    elif group == "types":
        wanted = rng.randrange(25 if bits == 8 else 210)
    else:
        wanted = rng.choice(
            (
                rng.randrange(-3, 10),
                rng.randrange(-3, 10),
                rng.choice((old + 1, old - 1, -old, 2 * old, old * 1000)),
                rng.choice((100, 1000, 65536, 10**6, 2**31 - 1, -(2**31), low, high)),
                rng.randrange(low, high + 1),
            )
        )
    return min(max(wanted, low), high)


def _as_float(number: float) -> float:
    try:
        struct.pack("<f", number)
    except OverflowError:
        return float("inf")
    return number
