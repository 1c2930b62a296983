"""A reader of protobuf's wire format that trusts nothing.

A message is a span of a buffer. `fields` walks the fields of one, and checks each length against
the span before anything is made of it. What a field means is its caller's business: the caller
compares keys, so fields that it doesn't know, and known ones of a wire type that they can't have,
are passed over, as protobuf's own readers do.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nnconv.errors import plural

if TYPE_CHECKING:
    import numpy.typing as npt

Bytes: TypeAlias = bytes | memoryview
"""What a message lies in: for a view, of unsigned bytes and read-only."""

Span: TypeAlias = tuple[Bytes, int, int]
"""A buffer, and where in it a message starts and stops."""

_BLOCK = 1 << 20
_SIGN = 1 << 63
_MASK64 = (1 << 64) - 1


class BrokenMessageError(Exception):
    """A message breaks the rules.

    Attributes:
        message: what is wrong.
        places: where, from the innermost message to the outermost.
    """

    def __init__(self, message: str, *places: str) -> None:
        super().__init__(message)
        self.message = message
        self.places = list(places)

    def at(self, place: str) -> BrokenMessageError:
        """Add the place that encloses those known so far."""
        self.places.append(place)
        return self


def fields(data: Bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Walk the fields of a message.

    Yields:
        The key (field number times 8 plus wire type), the value of a varint (unsigned; else 0),
        and where in ``data`` the content starts and stops.

    Raises:
        BrokenMessageError: bytes that are no message.
    """
    pos = start
    while pos < stop:
        key = data[pos]
        pos += 1
        if key > 127:
            key, pos = _long_varint(data, pos - 1, stop)
        if key < 8 or key >= 1 << 32:
            raise BrokenMessageError(f"the field number {key >> 3} is impossible")
        kind = key & 7
        first = pos
        if kind == 2:
            if pos >= stop:
                raise BrokenMessageError("it ends within a field")
            size = data[pos]
            pos += 1
            if size > 127:
                size, pos = _long_varint(data, first, stop)
            first, pos = pos, pos + size
            if pos > stop:
                raise BrokenMessageError(
                    f"field {key >> 3} has {plural(size, 'byte')}, there is room for {stop - first}"
                )
            yield key, 0, first, pos
        elif kind == 0:
            if pos >= stop:
                raise BrokenMessageError("it ends within a field")
            value = data[pos]
            pos += 1
            if value > 127:
                value, pos = _long_varint(data, first, stop)
            yield key, value, first, pos
        elif kind in {1, 5}:
            pos += 8 if kind == 1 else 4
            if pos > stop:
                raise BrokenMessageError("it ends within a field")
            yield key, 0, first, pos
        else:
            raise BrokenMessageError(f"field {key >> 3} has the impossible wire type {kind}")


def _long_varint(data: Bytes, pos: int, stop: int) -> tuple[int, int]:
    """The varint at ``pos``, less what exceeds 64 bits, and where it stops."""
    value = shift = 0
    for at in range(pos, min(pos + 10, stop)):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK64, at + 1
        shift += 7
    if pos + 10 > stop:
        raise BrokenMessageError("it ends within a number")
    raise BrokenMessageError("a number has more than ten bytes")


def signed(value: int) -> int:
    """The int64 that a varint stands for."""
    return value - (1 << 64) if value >= _SIGN else value


def signed32(value: int) -> int:
    """The int32 or enum that a varint stands for: protobuf takes its lowest 32 bits."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def text_of(data: Bytes, start: int, stop: int) -> str:
    r"""A string. Bytes that aren't UTF-8 appear as ``\xNN``, so that any name can be printed."""
    return str(data[start:stop], "utf-8", "backslashreplace")


def merged(spans: Sequence[Span]) -> Span:
    """One span that says what the spans of a message say together.

    protobuf merges what a field that isn't repeated has more than once; to put the bytes in a row
    comes to the same.
    """
    if len(spans) == 1:
        return spans[0]
    whole = b"".join([data[start:stop] for data, start, stop in spans])
    return whole, 0, len(whole)


def packed_ints(data: Bytes, start: int, stop: int) -> list[int]:
    """The int64s of a packed field, as Python has them.

    Raises:
        BrokenMessageError: the last one isn't complete.
    """
    found: list[int] = []
    pos = start
    while pos < stop:
        value = data[pos]
        pos += 1
        if value > 127:
            value, pos = _long_varint(data, pos - 1, stop)
        found.append(value - (1 << 64) if value >= _SIGN else value)
    return found


def packed_varints(data: Bytes) -> npt.NDArray[np.uint64]:
    """The varints of a packed field.

    Returns:
        uint64 of shape (n,).

    Raises:
        BrokenMessageError: one has more than ten bytes, or the last isn't complete.
    """
    raw = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(raw < 128)
    if len(raw) and (not len(last) or last[-1] != len(raw) - 1):
        raise BrokenMessageError("it ends within a number")
    if len(last) == len(raw):
        return raw.astype(np.uint64)
    values = np.empty(len(last), np.uint64)
    first = 0
    for done in range(0, len(last), _BLOCK // 8):
        stops = last[done : done + _BLOCK // 8] + 1
        starts = np.concatenate(([first], stops[:-1]))
        sizes = stops - starts
        if sizes.max() > 10:
            raise BrokenMessageError("a number has more than ten bytes")
        block = raw[first : stops[-1]]
        shifts = (np.arange(len(block)) - np.repeat(starts - first, sizes)) * 7
        parts = (block & 127).astype(np.uint64) << shifts.astype(np.uint64)
        values[done : done + len(stops)] = np.bitwise_or.reduceat(parts, starts - first)
        first = int(stops[-1])
    return values
