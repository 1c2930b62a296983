"""The options of custom ops: FlexBuffers maps of numbers; in reading every offset is checked."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from nnconv.errors import plural

Entry = int | float | bool | str | None

_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _BOOL = 9, 26
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {2: "e", 4: "f", 8: "d"}
_LONGEST_KEY = 256


def read_map(data: bytes) -> dict[str, Entry]:
    """The entries of a map that are numbers, truth values, strings or null; others are left out.

    Raises:
        ValueError: when the bytes are no such map.
    """
    if len(data) < 3:
        raise ValueError("the buffer is too short")
    width, kind = data[-1], data[-2] >> 2
    buffer = _Buffer(data)
    if width not in _INTEGERS or kind != _MAP:
        raise ValueError("the buffer holds no map")
    root = len(data) - 2 - width
    return buffer.entries(buffer.target(root, width), 1 << (data[-2] & 3))


class _Buffer:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, place: int, width: int, kind: int) -> int | float:
        """A number of ``width`` bytes."""
        if place < 0 or place + width > len(self.data):
            raise ValueError(f"byte {place} is outside the buffer")
        if kind == _FLOAT:
            form = _FLOATS.get(width, "")
        else:
            form = _INTEGERS[width] if kind == _INT else _INTEGERS[width].upper()
        if not form:
            raise ValueError(f"a float of {plural(width, 'byte')}")
        found = struct.unpack_from(f"<{form}", self.data, place)[0]
        return float(found) if kind == _FLOAT else int(found)

    def unsigned(self, place: int, width: int) -> int:
        """An unsigned integer."""
        return int(self.number(place, width, _UINT))

    def target(self, place: int, width: int) -> int:
        """Where the offset at ``place`` leads: backwards."""
        return place - self.unsigned(place, width)

    def entries(self, place: int, width: int) -> dict[str, Entry]:
        """The entries of the map at ``place``."""
        keys = self.target(place - 3 * width, width)
        key_width = self.unsigned(place - 2 * width, width)
        count = self.unsigned(place - width, width)
        if key_width not in _INTEGERS or count > len(self.data):
            raise ValueError("the map's keys are broken")
        found: dict[str, Entry] = {}
        for index in range(count):
            key = self.text(self.target(keys + index * key_width, key_width))
            kinds = self.unsigned(place + count * width + index, 1)
            entry, known = self.entry(place + index * width, width, kinds)
            if known:
                found[key] = entry
        return found

    def entry(self, place: int, width: int, kinds: int) -> tuple[Entry, bool]:
        """A value, and whether it is of a kind that is read here."""
        kind, own_width = kinds >> 2, 1 << (kinds & 3)
        if kind == _NULL:
            return None, True
        if kind in (_INT, _UINT, _FLOAT):
            return self.number(place, width, kind), True
        if kind == _BOOL:
            return bool(self.unsigned(place, width)), True
        if kind in _INDIRECT:
            return self.number(self.target(place, width), own_width, _INDIRECT[kind]), True
        if kind == _KEY:
            return self.text(self.target(place, width)), True
        if kind == _STRING:
            start = self.target(place, width)
            length = self.unsigned(start - own_width, own_width)
            if start + length > len(self.data):
                raise ValueError("a string reaches beyond the buffer")
            return self.data[start : start + length].decode("utf-8", "replace"), True
        return None, False

    def text(self, place: int) -> str:
        """A key, which ends with a zero byte."""
        end = self.data.find(b"\0", place, place + _LONGEST_KEY) if place >= 0 else -1
        if end < 0:
            raise ValueError(f"no key is at byte {place}")
        return self.data[place:end].decode("utf-8", "replace")


def write_map(entries: Mapping[str, bool | int | float]) -> bytes:
    """A map of numbers and truth values; integers have 32 bits."""
    names = sorted(entries, key=lambda name: name.encode())
    data = bytearray()
    places = []
    for name in names:
        places.append(len(data))
        data += name.encode() + b"\0"
    data += bytes(-len(data) % 4)
    data += struct.pack("<I", len(names))
    keys = len(data)
    for place in places:
        data += struct.pack("<I", len(data) - place)
    data += struct.pack("<III", len(data) - keys, 4, len(names))
    start = len(data)
    kinds = bytearray()
    for name in names:
        value = entries[name]
        if isinstance(value, bool):
            kinds.append(_BOOL << 2 | 2)
            data += struct.pack("<I", value)
        elif isinstance(value, int):
            kinds.append(_INT << 2 | 2)
            data += struct.pack("<i", value)
        else:
            kinds.append(_FLOAT << 2 | 2)
            data += struct.pack("<f", value)
    data += kinds
    data += bytes(-len(data) % 4)
    return bytes(data + struct.pack("<I", len(data) - start) + bytes([_MAP << 2 | 2, 4]))
