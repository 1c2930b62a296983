"""A FlatBuffers writer driven by the schema tables, laid out front to back.

A table is written before what it refers to, so every offset to a string, vector or table points
forward, as the format demands, and is filled in when its target is written. Vtables stand before
the first table that uses them and are shared by all others of the same layout. The same values
give the same bytes.

Scalars that have the schema's default are left out, as FlatBuffers' own builders do.

Source: https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite._gen.schema import TABLES, UNIONS
from nnconv.formats.tflite.flatbuffer import CODES

Fields: TypeAlias = "Mapping[str, Any]"

_WIDE = frozenset(name for name, code in CODES.items() if struct.calcsize(f"<{code}") == 8)
"""The types whose vectors start at a multiple of 8 bytes."""

_SHORT = 64
"""Up to this length an array is packed faster as a list."""

_PACK_ERRORS = (struct.error, OverflowError, TypeError, ValueError)

_U32 = struct.Struct("<I").pack
_SET_U32 = struct.Struct("<I").pack_into
_TAGS = {
    union: {member: tag for tag, member in members.items()} for union, members in UNIONS.items()
}
"""A union's members with their tags, by the union's name."""


class BadFieldError(Exception):
    """A value doesn't suit its field; whoever knows the table's place turns it into an error."""


def union_tag(union: str, member: str) -> int:
    """Return the number of the table ``member`` in a union.

    Raises:
        BadFieldError: the union has no such member.
    """
    tag = _TAGS[union].get(member)
    if tag is None:
        raise BadFieldError(f"{member} isn't a table that {union} can be")
    return tag


class _Layout:
    """How tables of one type that have the same fields lie in the file."""

    __slots__ = ("children", "mask", "offsets", "pack", "pick", "vtable")

    def __init__(self, name: str, present: tuple[str, ...]) -> None:
        schema = TABLES[name]
        fields = []
        for field in present:
            entry = schema.get(field)
            if entry is None:
                raise BadFieldError(f"{name} has no field {field}")
            slot, kind, type_name, _ = entry
            code = CODES[type_name] if kind == "scalar" else "I"
            fields.append((-struct.calcsize(f"<{code}"), slot, field, kind, type_name, code))
        fields.sort()
        vtable = [0] * (1 + max((field[1] for field in fields), default=-1))
        offsets = []
        layout, end, align = ["<i"], 4, 4
        scalars, children = [], []
        for negative_width, slot, field, kind, type_name, code in fields:
            width = -negative_width
            align = max(align, width)
            offset = end + -end % width
            layout.append(f"{offset - end}x")
            if kind == "scalar":
                layout.append(code)
                scalars.append(field)
            else:
                layout.append("4x")
                children.append((field, offset, kind, type_name))
            vtable[slot] = offset
            offsets.append((field, offset))
            end = offset + width
        self.mask = align - 1
        self.pack = struct.Struct("".join(layout)).pack
        self.pick = _picker(scalars)
        self.children = tuple(children)
        self.offsets = tuple(offsets)
        self.vtable = struct.pack(f"<{2 + len(vtable)}H", 4 + 2 * len(vtable), end, *vtable)


def _picker(names: list[str]) -> Callable[[Fields], tuple[Any, ...]]:
    """Return what takes the values of ``names`` out of a table's fields."""
    if len(names) > 1:
        return itemgetter(*names)
    if names:
        (name,) = names
        return lambda fields: (fields[name],)
    return lambda _: ()


@functools.cache
def _layout(name: str, present: tuple[str, ...]) -> _Layout:
    return _Layout(name, present)


@functools.cache
def _vector_packer(count: int, type_name: str) -> Callable[..., bytes]:
    return struct.Struct(f"<I{count}{CODES[type_name]}").pack


def present_fields(name: str, fields: Fields) -> Fields:
    """Return ``fields`` without those that are None or have the schema's default.

    Raises:
        BadFieldError: a field isn't one of the table ``name``.
    """
    schema = TABLES[name]
    kept = {}
    for field, value in fields.items():
        entry = schema.get(field)
        if entry is None:
            raise BadFieldError(f"{name} has no field {field}")
        if value is None or (entry[1] == "scalar" and _is_default(value, entry[3])):
            continue
        kept[field] = value
    return kept


def _is_default(value: Any, default: Any) -> bool:
    if value != default:
        return False
    # Zeros of both signs are equal, but not the same.
    return not isinstance(default, float) or struct.pack("<d", value) == struct.pack("<d", default)


class TableWriter:
    """A FlatBuffers buffer that grows as tables are written.

    Methods that write something for an offset take ``slot``, the offset's place, and fill it in.

    Attributes:
        data: the bytes so far.
    """

    __slots__ = ("_vtables", "data")

    def __init__(self, identifier: bytes) -> None:
        """Start a file; the offset at byte 0 is the root table's slot."""
        self.data = bytearray(4) + identifier
        self._vtables: dict[bytes, int] = {}

    def pad(self, align: int) -> None:
        """Fill up to the next multiple of ``align``, a power of two."""
        gap = -len(self.data) & (align - 1)
        if gap:
            self.data += bytes(gap)

    def inline(self, name: str, fields: Fields, slot: int) -> dict[str, int]:
        """Write a table without what it refers to, and return where each of its fields is.

        Args:
            name: the table's type.
            fields: what the table has, less its defaults; values of offset fields are ignored.
            slot: where the offset to the table is.

        Raises:
            BadFieldError: a field isn't one of the table, or a number out of its range.
        """
        pos, layout = self._inline(name, fields, slot)
        return {field: pos + offset for field, offset in layout.offsets}

    def _inline(self, name: str, fields: Fields, slot: int) -> tuple[int, _Layout]:
        layout = _layout(name, tuple(fields))
        data = self.data
        vtable = self._vtables.get(layout.vtable)
        if vtable is None:
            self.pad(2)
            vtable = self._vtables[layout.vtable] = len(data)
            data += layout.vtable
        pos = len(data)
        gap = -pos & layout.mask
        if gap:
            data += bytes(gap)
            pos += gap
        try:
            data += layout.pack(pos - vtable, *layout.pick(fields))
        except _PACK_ERRORS as error:
            raise BadFieldError(f"the numbers of {name} don't fit: {error}") from error
        _SET_U32(data, slot, pos - slot)
        return pos, layout

    def table(self, name: str, fields: Fields, slot: int) -> None:
        """Write a table and what it refers to.

        Args:
            name: the table's type.
            fields: what the table has, less its defaults (see :func:`present_fields`). A vector is
                a sequence or array of numbers, or bytes; tables are fields in turn, a union is
                (the member's name, its fields).
            slot: where the offset to the table is.

        Raises:
            BadFieldError: a field isn't one of the table, or its value doesn't suit it.
            InvalidModelError: a text has no UTF-8 form.
        """
        pos, layout = self._inline(name, fields, slot)
        for field, offset, kind, type_name in layout.children:
            value = fields[field]
            if kind == "vector":
                self.vector(value, type_name, pos + offset)
            elif kind == "string":
                self.text(value, pos + offset)
            elif kind == "table":
                self.table(type_name, value, pos + offset)
            elif kind == "union":
                self.table(value[0], value[1], pos + offset)
            elif kind == "tables":
                for entry, place in zip(value, self.slots(len(value), pos + offset), strict=True):
                    self.table(type_name, entry, place)
            else:
                raise BadFieldError(f"the {kind} {field} of {name} can't be written")

    def slots(self, count: int, slot: int) -> range:
        """Write a vector of ``count`` offsets to tables and return their slots."""
        self.pad(4)
        data = self.data
        start = len(data)
        data += _U32(count)
        data += bytes(4 * count)
        _SET_U32(data, slot, start - slot)
        return range(start + 4, start + 4 + 4 * count, 4)

    def vector(
        self, values: Sequence[Any] | np.ndarray[Any, Any], type_name: str, slot: int
    ) -> None:
        """Write a vector of numbers or bools.

        Raises:
            BadFieldError: a value is out of the type's range.
        """
        data = self.data
        try:
            if isinstance(values, bytes):
                packed = _U32(len(values)) + values
            elif not isinstance(values, np.ndarray):
                packed = _vector_packer(len(values), type_name)(len(values), *values)
            elif len(values) <= _SHORT:
                packed = _vector_packer(len(values), type_name)(len(values), *values.tolist())
            else:
                dtype = np.dtype(type_name).newbyteorder("<")
                packed = _U32(len(values)) + values.astype(dtype, casting="same_kind").tobytes()
        except _PACK_ERRORS as error:
            raise BadFieldError(f"{values!r} can't be a vector of {type_name}: {error}") from error
        start = len(data)
        # The items are aligned to their size, and so is the count before them to its own.
        gap = (-start - 4) & 7 if type_name in _WIDE else -start & 3
        if gap:
            data += bytes(gap)
            start += gap
        _SET_U32(data, slot, start - slot)
        data += packed

    def text(self, text: str, slot: int) -> None:
        """Write a string.

        Raises:
            InvalidModelError: it has no UTF-8 form.
        """
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidModelError(
                f"the name or text {text!r} has no UTF-8 form, which TFLite demands.",
                hint="Rename what bears it.",
            ) from error
        data = self.data
        start = len(data)
        gap = -start & 3
        if gap:
            data += bytes(gap)
            start += gap
        _SET_U32(data, slot, start - slot)
        data += b"%b%b\0" % (_U32(len(content)), content)
