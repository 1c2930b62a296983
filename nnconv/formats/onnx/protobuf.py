"""The encoder of ONNX models: protobuf's wire format, written in one pass over the weights.

protobuf's own library builds the message and then its bytes, two copies of all weights, and takes
longer to import than most conversions last. Here a message becomes a list of parts: byte strings,
and for each big tensor the tensor itself, whose bytes are fetched when the file is written. A
length goes before what it measures, so a part is reserved for it and filled in afterwards; each
field is visited once however deep graphs nest.

The bytes are those that protobuf itself would write for the same message: fields by number,
repeated numbers unpacked (onnx.proto is proto2 and doesn't ask for packing where we write any),
every tensor in ``raw_data``. The same model gives the same bytes.

Source: https://protobuf.dev/programming-guides/encoding/ and onnx.proto.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import GraphError, InvalidModelError, plural
from nnconv.formats.atomic import behind_links, replacing
from nnconv.formats.onnx import external
from nnconv.formats.onnx.payload import tensor_bytes, tensor_chunks, tensor_nbytes
from nnconv.formats.onnx.wire import (
    Attribute,
    AttributeType,
    DataType,
    Graph,
    Model,
    Node,
    Tensor,
    ValueInfo,
)

Part: TypeAlias = bytes | Tensor
"""A piece of a message: ready bytes, or a tensor that stands for its elements' bytes."""

Location: TypeAlias = tuple[str, int]
"""Where a tensor's bytes lie outside the model: file name (relative to the model) and offset."""

MAX_BYTES = (1 << 31) - (1 << 20)
"""The largest model in one file: 2 GiB less a margin.

protobuf's C++ reader, and so onnxruntime, takes 17 bytes less than 2 GiB; the rest is for tools
that add to a model.
"""

_INLINE_BYTES = 4096
"""Tensors up to this size are copied among the ready bytes at once."""

_VARINTS = [bytes([value]) for value in range(128)]
_MASK64 = (1 << 64) - 1


def varint(value: int) -> bytes:
    """Encode an integer as protobuf's int64: seven bits a byte, lowest first.

    A negative one is encoded as its two's complement of 64 bits, ten bytes long.

    Raises:
        OverflowError: ``value`` doesn't fit in 64 bits with a sign.
    """
    if 0 <= value < 128:
        return _VARINTS[value]
    if not -(1 << 63) <= value < (1 << 63):
        raise OverflowError(f"{value} doesn't fit in 64 bits")
    value &= _MASK64
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def delimited(tag: bytes, content: bytes) -> bytes:
    """Encode a field whose content has a length: a string, bytes, or a message."""
    return b"".join((tag, varint(len(content)), content))


class _Texts(dict[str, bytes]):
    """Encoded texts with their lengths, by text: names come up again wherever a value is used."""

    def __missing__(self, text: str) -> bytes:
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidModelError(
                f"the name or text {text!r} has no UTF-8 form, which ONNX demands.",
                hint="Rename the value or node that bears it.",
            ) from error
        encoded = self[text] = varint(len(content)) + content
        return encoded


class _BadAttributeError(Exception):
    """An attribute's value isn't one that ONNX has; the node's name is added where it is known."""


_LIST_KINDS = {
    AttributeType.FLOAT: AttributeType.FLOATS,
    AttributeType.INT: AttributeType.INTS,
    AttributeType.STRING: AttributeType.STRINGS,
    AttributeType.TENSOR: AttributeType.TENSORS,
    AttributeType.GRAPH: AttributeType.GRAPHS,
}
_ITEM_KINDS = {many: one for one, many in _LIST_KINDS.items()}
_KIND_OF_TYPE: dict[type, AttributeType] = {
    int: AttributeType.INT,
    bool: AttributeType.INT,
    float: AttributeType.FLOAT,
    str: AttributeType.STRING,
    bytes: AttributeType.STRING,
    Tensor: AttributeType.TENSOR,
    Graph: AttributeType.GRAPH,
    np.integer: AttributeType.INT,
    np.bool_: AttributeType.INT,
    np.floating: AttributeType.FLOAT,
}
_PLAIN_FIELDS = {
    AttributeType.FLOAT: b"\x15",
    AttributeType.INT: b"\x18",
    AttributeType.STRING: b"\x22",
    AttributeType.FLOATS: b"\x3d",
    AttributeType.INTS: b"\x40",
    AttributeType.STRINGS: b"\x4a",
}
_NESTED_FIELDS = {
    AttributeType.TENSOR: b"\x2a",
    AttributeType.GRAPH: b"\x32",
    AttributeType.TENSORS: b"\x52",
    AttributeType.GRAPHS: b"\x5a",
}
_TYPE_FIELDS = {kind: b"\xa0\x01" + bytes([kind]) for kind in AttributeType}


def _kind_of(cls: type) -> AttributeType | None:
    kind = _KIND_OF_TYPE.get(cls)
    if kind is None:
        for base, kind_of_base in _KIND_OF_TYPE.items():
            if issubclass(cls, base):
                return kind_of_base
    return kind


def _classify(value: Any) -> tuple[AttributeType, Sequence[Any]]:
    """Return an attribute's kind and its items: one, unless the kind is a list's."""
    if isinstance(value, Attribute):
        kind, value = value.type, value.value
        items = value if kind in _ITEM_KINDS else (value,)
        wanted = _ITEM_KINDS.get(kind, kind)
        allowed = {wanted, AttributeType.INT} if wanted is AttributeType.FLOAT else {wanted}
        if not isinstance(items, (list, tuple)) or not allowed.issuperset(
            _kind_of(type(item)) for item in items
        ):
            raise _BadAttributeError(f"{value!r} is no value of the kind {kind.name}")
        return kind, items
    if not isinstance(value, (list, tuple)):
        scalar = _kind_of(type(value))
        if scalar is None:
            raise _BadAttributeError(f"{value!r} is of no kind that ONNX has")
        return scalar, (value,)
    if not value:
        raise _BadAttributeError("an empty list needs its kind; wrap it in an Attribute")
    kinds = set(map(_kind_of, set(map(type, value))))
    if kinds == {AttributeType.INT, AttributeType.FLOAT}:
        kinds = {AttributeType.FLOAT}
    common = kinds.pop()
    if common is None or kinds:
        raise _BadAttributeError(f"the items of {value!r} are not of one kind that ONNX has")
    return _LIST_KINDS[common], value


def _int_item(item: Any) -> bytes:
    return varint(int(item))


_FLOAT32 = struct.Struct("<f")


def _float_item(item: Any) -> bytes:
    return _FLOAT32.pack(float(item))


def _string_item(item: str | bytes) -> bytes:
    # The field is of bytes, so a text that stands for bytes beyond UTF-8 survives.
    content = item.encode(errors="surrogateescape") if isinstance(item, str) else item
    return varint(len(content)) + content


_ITEM_ENCODERS: dict[AttributeType, Callable[[Any], bytes]] = {
    AttributeType.FLOAT: _float_item,
    AttributeType.FLOATS: _float_item,
    AttributeType.INT: _int_item,
    AttributeType.INTS: _int_item,
    AttributeType.STRING: _string_item,
    AttributeType.STRINGS: _string_item,
}


def _repeats(value: Any) -> bool:
    """Whether other attributes may be equal to one, and then are encoded alike.

    Floats are left out: zeros of both signs are equal, and whole numbers to integers.
    """
    kind = type(value)
    return kind is int or kind is str or (kind is tuple and set(map(type, value)) == {int})


def _plain_attribute(name: bytes, kind: AttributeType, items: Sequence[Any]) -> bytes:
    """Encode an attribute of numbers or strings; ``name`` has its length before it."""
    tag = _PLAIN_FIELDS[kind]
    encode_item = _ITEM_ENCODERS[kind]
    pieces = [b"\x0a", name]
    for item in items:
        pieces.append(tag)
        try:
            pieces.append(encode_item(item))
        except (OverflowError, UnicodeEncodeError) as error:
            raise _BadAttributeError(f"{item!r} is out of the range of {kind.name}") from error
    pieces.append(_TYPE_FIELDS[kind])
    return delimited(b"\x2a", b"".join(pieces))


class Encoder:
    """Turns a model into parts.

    Attributes:
        parts: the message so far.
    """

    def __init__(self, elsewhere: Mapping[int, Location] | None = None) -> None:
        """Start an empty message; ``elsewhere`` says by ``id`` which tensors lie elsewhere."""
        self.parts: list[Part] = []
        self._elsewhere: Mapping[int, Location] = {} if elsewhere is None else elsewhere
        self._texts = _Texts()
        # Most nodes repeat the attributes, and most values the types, of others.
        self._attributes: dict[tuple[str, Any], bytes] = {}
        self._heads: dict[tuple[tuple[int, ...], DataType], bytes] = {}
        self._places: dict[tuple[Location, int], bytes] = {}
        self._types: dict[tuple[DataType | None, tuple[int | str | None, ...] | None], bytes] = {}

    def model(self, model: Model) -> int:
        """Append ``model`` (a ModelProto) and return its size in bytes.

        Raises:
            GraphError: a value is of a kind, or beyond the limits, that ONNX has.
            InvalidModelError: a name can't be written as UTF-8.
        """
        texts = self._texts
        head = [b"\x08", varint(model.ir_version)]
        for tag, text in (
            (b"\x12", model.producer_name),
            (b"\x1a", model.producer_version),
            (b"\x32", model.doc_string),
        ):
            if text:
                head += (tag, texts[text])
        size = self._append(b"".join(head))
        size += self._graph(b"\x3a", model.graph)
        tail = []
        for domain, version in {"": model.opset, **model.extra_opsets}.items():
            tail.append(delimited(b"\x42", b"\x0a" + texts[domain] + b"\x10" + varint(version)))
        for key, value in model.metadata.items():
            tail.append(delimited(b"\x72", self._entry(key, value)))
        return size + self._append(b"".join(tail))

    def _append(self, content: bytes) -> int:
        self.parts.append(content)
        return len(content)

    def _open(self) -> int:
        """Reserve the part that will hold a message's tag and length; return its index."""
        self.parts.append(b"")
        return len(self.parts) - 1

    def _close(self, slot: int, tag: bytes, size: int) -> int:
        """Fill the reserved part, now that the content's ``size`` is known; return the sum."""
        prefix = self.parts[slot] = tag + varint(size)
        return len(prefix) + size

    def _graph(self, tag: bytes, graph: Graph) -> int:
        slot = self._open()
        size = sum([self._node(node) for node in graph.nodes])
        size += self._append(b"\x12" + self._texts[graph.name])
        for tensor in graph.initializers:
            size += self._tensor(b"\x2a", tensor)
        values = [self._value_info(b"\x5a", value) for value in graph.inputs]
        values += [self._value_info(b"\x62", value) for value in graph.outputs]
        values += [self._value_info(b"\x6a", value) for value in graph.value_info]
        size += self._append(b"".join(values))
        return self._close(slot, tag, size)

    def _node(self, node: Node) -> int:
        """Append a node, as a single part where no graph or big tensor is within."""
        texts = self._texts
        pieces = [b"\x0a" + texts[name] for name in node.inputs]
        pieces += [b"\x12" + texts[name] for name in node.outputs]
        if node.name:
            pieces.append(b"\x1a" + texts[node.name])
        pieces.append(b"\x22" + texts[node.op_type])
        size = 0
        slot = self._open()
        for name, value in node.attributes.items():
            repeats = _repeats(value)
            known = self._attributes.get((name, value)) if repeats else None
            if known is not None:
                pieces.append(known)
                continue
            try:
                kind, items = _classify(value)
                if kind in _NESTED_FIELDS:
                    size += self._append(b"".join(pieces))
                    pieces.clear()
                    size += self._nested_attribute(name, kind, items)
                else:
                    encoded = _plain_attribute(texts[name], kind, items)
                    pieces.append(encoded)
                    if repeats:
                        self._attributes[name, value] = encoded
            except _BadAttributeError as error:
                raise GraphError(
                    f"ONNX node {node.op_type} (`{node.name}`), attribute {name}: {error}."
                ) from error
        if node.domain:
            pieces.append(b"\x3a" + texts[node.domain])
        rest = b"".join(pieces)
        size += len(rest)
        if len(self.parts) == slot + 1:
            whole = self.parts[slot] = b"".join((b"\x0a", varint(size), rest))
            return len(whole)
        self.parts.append(rest)
        return self._close(slot, b"\x0a", size)

    def _nested_attribute(self, name: str, kind: AttributeType, items: Sequence[Any]) -> int:
        """Append an attribute of tensors or graphs."""
        slot = self._open()
        size = self._append(b"\x0a" + self._texts[name])
        tag = _NESTED_FIELDS[kind]
        for item in items:
            size += self._graph(tag, item) if isinstance(item, Graph) else self._tensor(tag, item)
        size += self._append(_TYPE_FIELDS[kind])
        return self._close(slot, b"\x2a", size)

    def _tensor(self, tag: bytes, tensor: Tensor) -> int:
        nbytes = tensor_nbytes(tensor)
        head = [self._head(tuple(tensor.dims), tensor.dtype)]
        if tensor.name:
            head += (b"\x42", self._texts[tensor.name])
        location = self._elsewhere.get(id(tensor))
        if location is not None:
            head.append(self._place(location, nbytes))
        else:
            head.append(b"\x4a" + varint(nbytes))
            if nbytes <= _INLINE_BYTES:
                head.append(tensor_bytes(tensor))
        content = b"".join(head)
        if location is not None or nbytes <= _INLINE_BYTES:
            return self._append(delimited(tag, content))
        size = self._append(b"".join((tag, varint(len(content) + nbytes), content)))
        self.parts.append(tensor)
        return size + nbytes

    def _head(self, dims: tuple[int, ...], dtype: DataType) -> bytes:
        """Encode a tensor's extents and type."""
        encoded = self._heads.get((dims, dtype))
        if encoded is None:
            extents = [b"\x08" + varint(extent) for extent in dims]
            encoded = b"".join((*extents, b"\x10", varint(dtype)))
            self._heads[dims, dtype] = encoded
        return encoded

    def _place(self, location: Location, nbytes: int) -> bytes:
        """Encode where a tensor's bytes lie."""
        encoded = self._places.get((location, nbytes))
        if encoded is None:
            where = {"location": location[0], "offset": str(location[1]), "length": str(nbytes)}
            entries = [delimited(b"\x6a", self._entry(*entry)) for entry in where.items()]
            encoded = self._places[location, nbytes] = b"".join((*entries, b"\x70\x01"))
        return encoded

    def _entry(self, key: str, value: str) -> bytes:
        """Encode a StringStringEntryProto."""
        return b"".join((b"\x0a", self._texts[key], b"\x12", self._texts[value]))

    def _value_info(self, tag: bytes, value: ValueInfo) -> bytes:
        key = (value.dtype, None if value.dims is None else tuple(value.dims))
        value_type = self._types.get(key)
        if value_type is None:
            value_type = self._types[key] = self._value_type(value)
        return delimited(tag, b"".join((b"\x0a", self._texts[value.name], value_type)))

    def _value_type(self, value: ValueInfo) -> bytes:
        if value.dtype is None:
            raise GraphError(f"ONNX value {value.name!r}: it has no element type to be written.")
        tensor_type = b"\x08" + varint(value.dtype)
        if value.dims is not None:
            dims = [self._dim(value, dim) for dim in value.dims]
            tensor_type += delimited(b"\x12", b"".join(dims))
        return delimited(b"\x12", delimited(b"\x0a", tensor_type))

    def _dim(self, value: ValueInfo, dim: int | str | None) -> bytes:
        if dim is None:
            return b"\x0a\x00"
        if isinstance(dim, str):
            return delimited(b"\x0a", b"\x12" + self._texts[dim])
        if dim < 0:
            raise GraphError(
                f"ONNX value {value.name!r}: an extent of {tuple(value.dims or ())} is negative.",
                hint="None or a name stands for an unknown extent.",
            )
        return delimited(b"\x0a", b"\x08" + varint(dim))


def part_chunks(parts: Sequence[Part]) -> Iterator[bytes | memoryview]:
    """Yield a message's bytes in order; each piece is good until the next is asked for."""
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from tensor_chunks(part)


def encode(model: Model, elsewhere: Mapping[int, Location] | None = None) -> tuple[list[Part], int]:
    """Return ``model``'s parts and their total length; see :class:`Encoder`."""
    encoder = Encoder(elsewhere)
    size = encoder.model(model)
    return encoder.parts, size


def write(
    model: Model,
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    external_above: int = external.MIN_BYTES,
) -> tuple[Path, ...]:
    """Write ``model`` to ``path``, whole or not at all.

    Args:
        model: what to write.
        path: where; what is there is replaced. A link stays: the file that it leads to is written.
        max_bytes: a model that would be larger keeps its weights in a file named
            ``<path>.data`` beside it.
        external_above: initializers of more bytes than this are moved then.

    Returns:
        The files written, the model's first.

    Raises:
        GraphError: a value is of a kind, or beyond the limits, that ONNX has.
        InvalidModelError: a name isn't UTF-8, or the model is too large even without weights.
        UsageError: a file can't be written.
    """
    target = behind_links(Path(path))
    parts, size = encode(model)
    if size <= max_bytes:
        with replacing(target) as (file,):
            file.writelines(part_chunks(parts))
        return (target,)
    data_target = target.with_name(f"{target.name}.data")
    placed = external.external_tensors(model, external_above)
    parts, size = encode(
        model, {id(tensor): (data_target.name, offset) for tensor, offset in placed}
    )
    if size > max_bytes:
        raise InvalidModelError(
            (
                f"the model takes {plural(size, 'byte')} even without its weights; ONNX holds "
                f"{max_bytes}."
            ),
            path=str(target),
        )
    with replacing(data_target, target) as (data_file, file):
        external.write_external(placed, data_file)
        file.writelines(part_chunks(parts))
    return target, data_target
