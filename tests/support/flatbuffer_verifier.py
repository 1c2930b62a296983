"""Checks that a .tflite file is laid out as FlatBuffers and its schema demand.

It walks every table by the schema and looks at positions only: alignment, bounds, the direction of
offsets, the ends of strings, and fields that overlap. It shares no code with nnconv's reader.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field

from nnconv.formats.tflite._gen.schema import TABLES, UNIONS

_WIDTHS = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float32": 4,
    "float64": 8,
}


@dataclass
class Layout:
    """Where a file's parts lie."""

    vtables: set[int] = field(default_factory=set)
    vtable_bytes: set[bytes] = field(default_factory=set)
    tables: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Begin and end of everything but vtables."""
    buffers: list[tuple[int, int]] = field(default_factory=list)
    """Begin and end of the contents of buffers that have any."""


def verify(data: bytes) -> Layout:
    """Walk a file and return its layout; raise AssertionError where it is wrong."""
    assert data[4:8] == b"TFL3"
    layout = Layout(spans=[(0, 8)])
    _table(data, _target(data, 0), "Model", layout)
    spans = sorted(layout.spans)
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert end <= start, f"what begins at {start} overlaps what ends at {end}"
    assert len(layout.vtables) == len(layout.vtable_bytes), "equal vtables aren't shared"
    return layout


def _u32(data: bytes, pos: int) -> int:
    assert pos % 4 == 0
    assert pos + 4 <= len(data)
    return int(struct.unpack_from("<I", data, pos)[0])


def _target(data: bytes, pos: int) -> int:
    offset = _u32(data, pos)
    assert 0 < offset < 1 << 31, f"the offset at {pos} doesn't point forward"
    return pos + offset


def _table(data: bytes, pos: int, name: str, layout: Layout) -> None:
    assert pos % 4 == 0
    vtable = pos - struct.unpack_from("<i", data, pos)[0]
    assert vtable % 2 == 0
    assert 8 <= vtable <= len(data) - 4
    size, inline = struct.unpack_from("<HH", data, vtable)
    assert size % 2 == 0
    assert size >= 4
    layout.vtables.add(vtable)
    layout.vtable_bytes.add(data[vtable : vtable + size])
    layout.tables += 1
    layout.spans.append((pos, pos + inline))
    places = struct.unpack_from(f"<{(size - 4) // 2}H", data, vtable + 4)
    assert len(places) <= 1 + max((slot for slot, *_ in TABLES[name].values()), default=-1)
    taken = [(0, 4)]
    for key, (slot, kind, type_name, _) in TABLES[name].items():
        place = places[slot] if slot < len(places) else 0
        if not place:
            continue
        width = _WIDTHS[type_name] if kind == "scalar" else 4
        assert (pos + place) % width == 0, f"{name}.{key} isn't aligned"
        taken.append((place, place + width))
        if kind != "scalar":
            _follow(data, _target(data, pos + place), (name, key), layout)
        if kind == "union":
            tag = data[pos + places[slot - 1]]
            _table(data, _target(data, pos + place), UNIONS[type_name][tag], layout)
    taken.sort()
    assert taken[-1][1] <= inline
    for (_, end), (start, _) in itertools.pairwise(taken):
        assert end <= start, f"fields of {name} overlap"
    if name == "Buffer":
        _buffer(data, pos, places, layout)


def _follow(data: bytes, target: int, place: tuple[str, str], layout: Layout) -> None:
    """Check what the field ``place`` = (table, field) refers to, unions aside."""
    name, key = place
    _, kind, type_name, _ = TABLES[name][key]
    if kind == "table":
        _table(data, target, type_name, layout)
    elif kind == "tables":
        count = _u32(data, target)
        layout.spans.append((target, target + 4 + 4 * count))
        for item in range(count):
            _table(data, _target(data, target + 4 + 4 * item), type_name, layout)
    elif kind == "string":
        end = target + 4 + _u32(data, target)
        assert data[end] == 0
        data[target + 4 : end].decode()
        layout.spans.append((target, end + 1))
    elif kind == "vector":
        width = _WIDTHS[type_name]
        assert (target + 4) % width == 0, f"the items of {name}.{key} aren't aligned"
        end = target + 4 + width * _u32(data, target)
        assert end <= len(data)
        layout.spans.append((target, end))
    else:
        assert kind == "union", kind


def _buffer(data: bytes, pos: int, places: tuple[int, ...], layout: Layout) -> None:
    content, offset, size = (*places, 0, 0, 0)[:3]
    if content:
        start = _target(data, pos + content)
        begin, end = start + 4, start + 4 + _u32(data, start)
    elif offset:
        begin = struct.unpack_from("<Q", data, pos + offset)[0]
        end = begin + struct.unpack_from("<Q", data, pos + size)[0]
        layout.spans.append((begin, end))
    else:
        return
    assert begin < end <= len(data)
    assert begin % 16 == 0, "a buffer isn't aligned"
    layout.buffers.append((begin, end))
