"""From the bytes of an ONNX file to plain objects, without protobuf's library.

The structure is decoded at once; elements of tensors stay where they are: views of the memory map
or of the bytes given. What runs once per node works on a copy of the node's bytes, since bytes are
quicker to look at than views, and shares what nodes have in common (names, attributes, types).

What the file may do to the reader is bounded: graphs nest only so deep, what becomes much larger in
memory than it is in the file is paid from a budget, and each fault ends in an error that says where
it is. What the graph means (that names are known, that nodes don't wait for one another) is looked
at by who walks it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nnconv.errors import InvalidModelError
from nnconv.formats.onnx.decode_tensor import TensorDecoder
from nnconv.formats.onnx.decode_type import MAX_DEPTH, Texts, TypeDecoder, add_entry
from nnconv.formats.onnx.mapped import DataFiles, map_file
from nnconv.formats.onnx.protobuf_reader import (
    BrokenMessageError,
    Bytes,
    Span,
    fields,
    merged,
    packed_ints,
    signed,
    signed32,
    text_of,
)
from nnconv.formats.onnx.wire import (
    Attribute,
    AttributeType,
    Function,
    Graph,
    Model,
    Node,
    Tensor,
    ValueInfo,
)

if TYPE_CHECKING:
    from collections.abc import Buffer

Decoded = TypeVar("Decoded")

STANDARD_NAMES = frozenset({"", "ai.onnx"})
"""What files call the standard operator set."""

_SMALL_NODE = 4096
_MOST_CACHED = 64
"""The largest node, in bytes, that is copied; and the largest attribute that is found again."""

_FLOAT = struct.Struct("<f").unpack_from
_KINDS = {int(kind): kind for kind in AttributeType}
_SINGLE = {
    0x2A: AttributeType.TENSOR,
    0x32: AttributeType.GRAPH,
    0x72: AttributeType.TYPE_PROTO,
    0xB2: AttributeType.SPARSE_TENSOR,
}
_REPEATED = {
    0x52: AttributeType.TENSORS,
    0x5A: AttributeType.GRAPHS,
    0x7A: AttributeType.TYPE_PROTOS,
    0xBA: AttributeType.SPARSE_TENSORS,
}
"""The fields of attributes that hold messages, by key."""

_DEFAULTS: dict[AttributeType, Any] = {
    AttributeType.FLOAT: 0.0,
    AttributeType.INT: 0,
    AttributeType.STRING: "",
}
"""What protobuf takes for a field that is left out, as some writers do with zeros."""


def read(source: str | os.PathLike[str] | Buffer, name: str = "") -> Model:
    """Read an ONNX file.

    Args:
        source: a path, whose file is mapped into memory, or the bytes of a file; they are copied
            where they aren't ``bytes``.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: if the file can't be read, is no ONNX file or breaks the format.
    """
    path = None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        name = name or os.fspath(source)
        data = map_file(path, name)
    else:
        # What can change has no hash, by which texts are found again; hence a copy of it.
        data = memoryview(source if isinstance(source, bytes) else bytes(source))
    try:
        return Decoder(data, path, name).model()
    except BrokenMessageError as error:
        if error.places:
            where = ", ".join(reversed(error.places))
            raise InvalidModelError(error.message, path=name, where=where) from None
        raise InvalidModelError(
            f"it is no ONNX model, or a damaged one: {error.message}", path=name, hint=_hint(data)
        ) from None


def _hint(data: memoryview) -> str:
    head = bytes(data[:24])
    if head.startswith(b"version https://git-lfs"):
        return "It is a pointer of Git LFS: fetch the model itself (git lfs pull)."
    if head[4:8] == b"TFL3":
        return "It is a TensorFlow Lite model."
    return ""


class Decoder:
    """Decodes one file."""

    def __init__(self, data: memoryview, path: Path | None, name: str) -> None:
        """Start on the bytes ``data`` of the file ``path``, which errors call ``name``."""
        self._data = data
        self._name = name
        self._texts = Texts()
        self._types = TypeDecoder(self._texts)
        files = DataFiles(path, name)
        self._tensors = TensorDecoder(self._texts, files, name=name, size=len(data))
        self._attributes: dict[Bytes, tuple[str, Attribute]] = {}

    def model(self) -> Model:
        """Decode the whole file.

        Raises:
            BrokenMessageError: it is broken.
        """
        data = self._data
        texts = dict.fromkeys((0x12, 0x1A, 0x22, 0x32), "")
        ir_version = model_version = 0
        graphs: list[Span] = []
        function_spans: list[tuple[int, int]] = []
        opsets: dict[str, int] = {}
        metadata: dict[str, str] = {}
        for key, value, start, stop in fields(data, 0, len(data)):
            if key == 0x08:
                ir_version = signed(value)
            elif key in texts:
                texts[key] = text_of(data, start, stop)
            elif key == 0x28:
                model_version = signed(value)
            elif key == 0x3A:
                if start < stop or not graphs:  # an empty one would add nothing
                    graphs.append((data, start, stop))
            elif key == 0x42:
                _at("operator sets", _add_opset, opsets, data, start, stop)
            elif key == 0x72:
                _at("metadata", add_entry, metadata, data, start, stop)
            elif key == 0xCA:
                function_spans.append((start, stop))
        if not graphs:
            raise BrokenMessageError("it has no graph")
        if ir_version < 1:
            raise BrokenMessageError(f"its IR version is {ir_version or 'missing'}")
        graph = self._graph(*merged(graphs), depth=0)
        functions = [
            _at(f"function #{index}", self._function, data, *span)
            for index, span in enumerate(function_spans)
        ]
        opset = opsets.pop("", 0 if opsets else 1)  # files of before opsets are of the first
        return Model(
            graph,
            opset,
            ir_version=ir_version,
            producer_name=texts[0x12],
            producer_version=texts[0x1A],
            metadata=metadata,
            doc_string=texts[0x32],
            extra_opsets=opsets,
            functions=functions,
            domain=texts[0x22],
            model_version=model_version,
            path=self._name,
        )

    def _graph(self, data: Bytes, start: int, stop: int, *, depth: int) -> Graph:
        if depth > MAX_DEPTH:
            raise BrokenMessageError(f"graphs nest more than {MAX_DEPTH} deep")
        name = doc_string = ""
        nodes: list[Node] = []
        tensors: list[Tensor] = []
        sparse: list[Tensor] = []
        values: dict[int, list[ValueInfo]] = {0x5A: [], 0x62: [], 0x6A: []}
        for key, _, first, last in fields(data, start, stop):
            if key == 0x0A:
                try:  # `_at` would cost a call per node
                    nodes.append(self._node(data, first, last, depth))
                except BrokenMessageError as error:
                    raise error.at(f"node #{len(nodes)}") from None
            elif key == 0x2A:
                label = f"initializer #{len(tensors)}"
                tensors.append(_at(label, self._tensors.tensor, data, first, last))
            elif key in values:
                label = f"{_VALUES[key]} #{len(values[key])}"
                values[key].append(_at(label, self._types.value_info, data, first, last))
            elif key == 0x7A:
                label = f"sparse initializer #{len(sparse)}"
                sparse.append(_at(label, self._tensors.sparse, data, first, last))
            elif key == 0x12:
                name = text_of(data, first, last)
            elif key == 0x52:
                doc_string = text_of(data, first, last)
        return Graph(
            name,
            nodes or (),  # lists are large for what holds nothing
            values[0x5A] or (),
            values[0x62] or (),
            tensors + sparse or (),
            value_info=values[0x6A] or (),
            doc_string=doc_string,
        )

    def _node(self, data: Bytes, start: int, stop: int, depth: int) -> Node:
        if stop - start <= _SMALL_NODE and not isinstance(data, bytes):
            data = bytes(data[start:stop])
            start, stop = 0, len(data)
        texts = self._texts
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: dict[str, Attribute] = {}
        op_type = name = domain = overload = ""
        for key, _, first, last in fields(data, start, stop):
            if key == 0x0A:
                inputs.append(texts[data[first:last]])
            elif key == 0x12:
                outputs.append(texts[data[first:last]])
            elif key == 0x2A:
                label, attribute = self._attribute(data, first, last, depth)
                if label in attributes:
                    raise BrokenMessageError(f"attribute `{label}` is given twice")
                attributes[label] = attribute
            elif key == 0x22:
                op_type = texts[data[first:last]]
            elif key == 0x1A:
                name = texts[data[first:last]]
            elif key == 0x3A:
                domain = _domain(texts[data[first:last]])
            elif key == 0x42:
                overload = texts[data[first:last]]
        if not op_type:
            raise BrokenMessageError("it has no op type")
        return Node(
            op_type,
            inputs or (),
            outputs or (),
            attributes or _NO_ATTRIBUTES,
            name=name,
            domain=domain,
            overload=overload,
        )

    def _attribute(self, data: Bytes, start: int, stop: int, depth: int) -> tuple[str, Attribute]:
        """Decode an AttributeProto; small ones of plain values are decoded once."""
        small = stop - start <= _MOST_CACHED
        found = self._attributes.get(data[start:stop]) if small else None
        if found is not None:
            return found
        label = [""]
        try:
            attribute = self._new_attribute(data, start, stop, depth=depth, label=label)
        except BrokenMessageError as error:
            raise error.at(f"attribute `{label[0]}`") from None
        if not label[0]:
            raise BrokenMessageError("an attribute has no name")
        found = label[0], attribute
        if small and attribute.type not in _MESSAGES:
            self._attributes[bytes(data[start:stop])] = found
        return found

    def _new_attribute(
        self, data: Bytes, start: int, stop: int, *, depth: int, label: list[str]
    ) -> Attribute:
        """Decode an AttributeProto; its name is put in ``label`` when it is known."""
        number, reference = 0, ""
        got: dict[AttributeType, Any] = {}
        for key, value, first, last in fields(data, start, stop):
            if key == 0x0A:
                label[0] = self._texts[data[first:last]]
            elif key == 0xA0:
                number = signed32(value)
            elif key == 0xAA:
                reference = text_of(data, first, last)
            elif key in _ONE:
                kind_of_field, decode = _ONE[key]
                got[kind_of_field] = decode(data, value, first, last)
            elif key in _MANY:
                kind_of_field, decode_items = _MANY[key]
                got.setdefault(kind_of_field, []).extend(decode_items(data, value, first, last))
            elif key in _SINGLE:
                spans = got.setdefault(_SINGLE[key], [])
                if first < last or not spans:
                    spans.append((data, first, last))
            elif key in _REPEATED:
                items = got.setdefault(_REPEATED[key], [])
                decode_item = self._decoder(_REPEATED[key], depth)
                items.append(_at(f"#{len(items)}", decode_item, data, first, last))
        return self._chosen(number, got, reference=reference, depth=depth)

    def _chosen(
        self, number: int, got: dict[AttributeType, Any], *, reference: str, depth: int
    ) -> Attribute:
        """The attribute of the kind that its number names, of what its fields say."""
        if not number and len(got) == 1:  # files of the first IR version don't say
            number = next(iter(got))
        kind = _KINDS.get(number)
        if kind is None:
            raise BrokenMessageError(f"its kind is {number or 'missing'}, which is unknown")
        if reference:
            return Attribute(kind, None, reference)
        if kind in _DEFAULTS:
            return Attribute(kind, got.get(kind, _DEFAULTS[kind]))
        if kind not in _SINGLE_KINDS:
            return Attribute(kind, tuple(got.get(kind, ())))
        if kind not in got:
            raise BrokenMessageError("it has no value")
        return Attribute(kind, self._decoder(kind, depth)(*merged(got[kind])))

    def _decoder(self, kind: AttributeType, depth: int) -> Callable[[Bytes, int, int], Any]:
        """What decodes an item of an attribute."""
        if kind in {AttributeType.TENSOR, AttributeType.TENSORS}:
            return self._tensors.tensor
        if kind in {AttributeType.SPARSE_TENSOR, AttributeType.SPARSE_TENSORS}:
            return self._tensors.sparse
        if kind in {AttributeType.GRAPH, AttributeType.GRAPHS}:
            return lambda data, start, stop: self._graph(data, start, stop, depth=depth + 1)
        return self._types.unnamed

    def _function(self, data: Bytes, start: int, stop: int) -> Function:
        names: dict[int, list[str]] = {0x22: [], 0x2A: [], 0x32: []}
        texts = dict.fromkeys((0x0A, 0x42, 0x52, 0x6A), "")
        nodes: list[Node] = []
        defaults: dict[str, Attribute] = {}
        opsets: dict[str, int] = {}
        value_info: list[ValueInfo] = []
        for key, _, first, last in fields(data, start, stop):
            if key in names:
                names[key].append(self._texts[data[first:last]])
            elif key in texts:
                texts[key] = text_of(data, first, last)
            elif key == 0x3A:
                nodes.append(_at(f"node #{len(nodes)}", self._node, data, first, last, 0))
            elif key == 0x4A:
                _at("operator sets", _add_opset, opsets, data, first, last)
            elif key == 0x5A:
                label, attribute = self._attribute(data, first, last, 0)
                defaults[label] = attribute
            elif key == 0x62:
                label = f"value_info #{len(value_info)}"
                value_info.append(_at(label, self._types.value_info, data, first, last))
        if not texts[0x0A]:
            raise BrokenMessageError("it has no name")
        return Function(
            _domain(texts[0x52]),
            texts[0x0A],
            nodes,
            names[0x22],
            names[0x2A],
            overload=texts[0x6A],
            attributes=names[0x32],
            defaults=defaults,
            opsets=opsets,
            value_info=value_info,
            doc_string=texts[0x42],
        )


_VALUES = {0x5A: "input", 0x62: "output", 0x6A: "value_info"}
_SINGLE_KINDS = frozenset(_SINGLE.values())
_MESSAGES = _SINGLE_KINDS.union(_REPEATED.values())
_NO_ATTRIBUTES: dict[str, Attribute] = {}


def _at(place: str, decode: Callable[..., Decoded], *args: Any) -> Decoded:
    """Call ``decode``; what is broken there is at ``place``."""
    try:
        return decode(*args)
    except BrokenMessageError as error:
        raise error.at(place) from None


def _domain(name: str) -> str:
    return "" if name in STANDARD_NAMES else name


def _add_opset(opsets: dict[str, int], data: Bytes, start: int, stop: int) -> None:
    """Add what an OperatorSetIdProto says."""
    domain, version = "", 0
    for key, value, first, last in fields(data, start, stop):
        if key == 0x0A:
            domain = _domain(text_of(data, first, last))
        elif key == 0x10:
            version = signed(value)
    if opsets.setdefault(domain, version) != version:
        raise BrokenMessageError(
            f"the set {domain or 'ai.onnx'!r} has the versions {opsets[domain]} and {version}"
        )


def _string(data: Bytes, start: int, stop: int) -> str:
    """A value that is a string; bytes that aren't UTF-8 survive, as they may mean something."""
    return str(data[start:stop], "utf-8", "surrogateescape")


def _floats(data: Bytes, start: int, stop: int) -> tuple[float, ...]:
    count, rest = divmod(stop - start, 4)
    if rest:
        raise BrokenMessageError("it ends within a number")
    return struct.unpack_from(f"<{count}f", data, start)


_ONE: dict[int, tuple[AttributeType, Callable[[Bytes, int, int, int], Any]]] = {
    0x15: (AttributeType.FLOAT, lambda data, _, first, __: _FLOAT(data, first)[0]),
    0x18: (AttributeType.INT, lambda _, value, __, ___: signed(value)),
    0x22: (AttributeType.STRING, lambda data, _, first, last: _string(data, first, last)),
}
"""The fields of attributes that hold one plain value, by key."""

_MANY: dict[int, tuple[AttributeType, Callable[[Bytes, int, int, int], Sequence[Any]]]] = {
    0x3A: (AttributeType.FLOATS, lambda data, _, first, last: _floats(data, first, last)),
    0x3D: (AttributeType.FLOATS, lambda data, _, first, last: _floats(data, first, last)),
    0x40: (AttributeType.INTS, lambda _, value, __, ___: (signed(value),)),
    0x42: (AttributeType.INTS, lambda data, _, first, last: packed_ints(data, first, last)),
    0x4A: (AttributeType.STRINGS, lambda data, _, first, last: (_string(data, first, last),)),
}
"""The fields of attributes that hold any number of plain values, by key."""
