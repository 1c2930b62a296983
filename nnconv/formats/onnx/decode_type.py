"""Texts, pairs of texts, and the types of values, as an ONNX file has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnconv.errors import plural
from nnconv.formats.onnx.content import MOST_AXES
from nnconv.formats.onnx.protobuf_reader import (
    BrokenMessageError,
    Bytes,
    Span,
    fields,
    merged,
    signed,
    signed32,
    text_of,
)
from nnconv.formats.onnx.wire import DataType, ValueInfo

MAX_DEPTH = 32
"""How deep graphs or types may nest; protobuf's own readers stop at 33 graphs."""

_MOST_CACHED = 256
"""The largest type, in bytes, that is kept to be found again."""

_DATA_TYPES = {int(code): code for code in DataType}
_SPELT = {DataType.FLOAT: "float", DataType.DOUBLE: "double"}


class ValueType(NamedTuple):
    """What a TypeProto says; the fields are those of :class:`ValueInfo`."""

    dtype: DataType | None
    dims: Sequence[int | str | None] | None
    other: str


UNTYPED = ValueType(None, None, "")


class Texts(dict[Bytes, str]):
    """Texts by their bytes: names come up again wherever a value is used."""

    def __missing__(self, raw: Bytes) -> str:
        kept = bytes(raw)
        text = self[kept] = str(kept, "utf-8", "backslashreplace")  # as `text_of`
        return text


def data_type(number: int) -> DataType | None:
    """The element type of a number; None for 0, which leaves it open.

    Raises:
        BrokenMessageError: there is none of that number.
    """
    code = _DATA_TYPES.get(signed32(number))
    if code is None and signed32(number):
        raise BrokenMessageError(f"the element type {signed32(number)} is unknown")
    return code


def add_entry(found: dict[str, str], data: Bytes, start: int, stop: int) -> None:
    """Add what a StringStringEntryProto says."""
    name = value = ""
    for key, _, first, last in fields(data, start, stop):
        if key == 0x0A:
            name = text_of(data, first, last)
        elif key == 0x12:
            value = text_of(data, first, last)
    found[name] = value


class TypeDecoder:
    """Decodes the types of values; equal ones are decoded once."""

    def __init__(self, texts: Texts) -> None:
        """Start with no type known; ``texts`` are shared with others who decode the file."""
        self._texts = texts
        self._known: dict[Bytes, ValueType] = {}

    def value_info(self, data: Bytes, start: int, stop: int) -> ValueInfo:
        """Decode a ValueInfoProto.

        Raises:
            BrokenMessageError: it is broken.
        """
        if stop - start <= _MOST_CACHED and not isinstance(data, bytes):
            data = bytes(data[start:stop])  # quicker to look at than a view
            start, stop = 0, len(data)
        name = ""
        spans: list[Span] = []
        for key, _, first, last in fields(data, start, stop):
            if key == 0x0A:
                name = self._texts[data[first:last]]
            elif key == 0x12:
                spans.append((data, first, last))
        try:
            found = self.value_type(*merged(spans)) if spans else UNTYPED
        except BrokenMessageError as error:
            raise error.at(f"`{name}`") from None
        return ValueInfo(name, found.dtype, found.dims, other=found.other)

    def unnamed(self, data: Bytes, start: int, stop: int) -> ValueInfo:
        """Decode a TypeProto that is no value's.

        Raises:
            BrokenMessageError: it is broken.
        """
        found = self.value_type(data, start, stop)
        return ValueInfo("", found.dtype, found.dims, other=found.other)

    def value_type(self, data: Bytes, start: int, stop: int) -> ValueType:
        """Decode a TypeProto.

        Raises:
            BrokenMessageError: it is broken.
        """
        if stop - start > _MOST_CACHED:
            return self._value_type((data, start, stop), 0)
        found = self._known.get(data[start:stop])
        if found is None:
            raw = bytes(data[start:stop])
            found = self._known[raw] = self._value_type((raw, 0, len(raw)), 0)
        return found

    def _value_type(self, span: Span, depth: int) -> ValueType:
        if depth > MAX_DEPTH:
            raise BrokenMessageError(f"types nest more than {MAX_DEPTH} deep")
        member, spans = 0, list[Span]()
        for key, _, first, last in fields(*span):
            if key in _MEMBERS:
                if key != member:  # the last one given stands, alone
                    member, spans = key, []
                spans.append((span[0], first, last))
        if not member:
            return UNTYPED
        content = merged(spans)
        if member == _TENSOR:
            return self._tensor(content)
        if member == _SPARSE:
            return ValueType(None, None, f"sparse_{_spell(self._tensor(content))}")
        return ValueType(None, None, self._compound(member, content, depth))

    def _tensor(self, span: Span) -> ValueType:
        dtype: DataType | None = None
        shapes: list[Span] = []
        for key, value, first, last in fields(*span):
            if key == 0x08:
                dtype = data_type(value)
            elif key == 0x12:
                shapes.append((span[0], first, last))
        if not shapes:
            return ValueType(dtype, None, "")
        data, start, stop = merged(shapes)
        dims = [
            self._dim(data, first, last)
            for key, _, first, last in fields(data, start, stop)
            if key == 0x0A
        ]
        if len(dims) > MOST_AXES:
            raise BrokenMessageError(
                f"it has {plural(len(dims), 'axis', 'axes')}, allowed are {MOST_AXES}"
            )
        return ValueType(dtype, tuple(dims), "")

    def _dim(self, data: Bytes, start: int, stop: int) -> int | str | None:
        """An extent or a symbol; what writers mean by a negative extent is that it is unknown."""
        dim: int | str | None = None
        for key, value, first, last in fields(data, start, stop):
            if key == 0x08:
                dim = signed(value)
                if dim < 0:
                    dim = None
            elif key == 0x12:
                dim = self._texts[data[first:last]] or None
        return dim

    def _compound(self, member: int, span: Span, depth: int) -> str:
        """The name of a type that is made of others."""
        data = span[0]
        key_type, texts, inner = "", ["", ""], list[Span]()
        for key, value, first, last in fields(*span):
            if member == _OPAQUE:
                if key in {0x0A, 0x12}:
                    texts[key >> 4] = text_of(data, first, last)
            elif member == _MAP and key == 0x08:
                key_type = _spell_code(data_type(value))
            elif key == (0x12 if member == _MAP else 0x0A):
                inner.append((data, first, last))
        if member == _OPAQUE:
            return f"opaque({','.join(filter(None, texts))})"
        content = _spell(self._value_type(merged(inner), depth + 1)) if inner else "?"
        return f"map({key_type},{content})" if member == _MAP else f"{_MEMBERS[member]}({content})"


_TENSOR, _SEQUENCE, _MAP, _OPAQUE, _SPARSE, _OPTIONAL = 0x0A, 0x22, 0x2A, 0x3A, 0x42, 0x4A
_MEMBERS = {
    _TENSOR: "tensor",
    _SEQUENCE: "seq",
    _MAP: "map",
    _OPAQUE: "opaque",
    _SPARSE: "sparse_tensor",
    _OPTIONAL: "optional",
}


def _spell_code(code: DataType | None) -> str:
    return "?" if code is None else _SPELT.get(code, code.name.lower())


def _spell(kind: ValueType) -> str:
    return kind.other or f"tensor({_spell_code(kind.dtype)})"
