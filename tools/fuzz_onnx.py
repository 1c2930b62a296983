"""Feed broken .onnx files to nnconv: nothing but clean errors may come of them.

    python tools/fuzz_onnx.py MODEL_OR_FOLDER... [--cases 20000] [--target decode|convert|...]
        [--changes bytes|fields]

Each case changes one of the files in a few places and hands the result to the target, a function of
a path. Changed are bytes (bits flipped, tags, lengths and numbers rewritten, spans cut, moved or
zeroed) or the fields of messages, whose lengths are right afterwards (values changed, fields left
out, doubled, moved, renumbered, put where another message belongs). What a failure is, and how to
repeat a case, is said in `fuzzing`.

Exits 1 if a case failed. ``--keep FOLDER`` saves the files of those.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.decode import read
from nnconv.formats.onnx.protobuf import varint
from nnconv.formats.onnx.protobuf_reader import fields
from nnconv.formats.onnx.summary import summarize

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzzing

_MESSAGES = {
    "Model": {7: "Graph", 8: "Opset", 14: "Entry", 25: "Function"},
    "Function": {7: "Node", 9: "Opset", 11: "Attribute", 12: "Value"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Value", 12: "Value", 13: "Value", 15: "Sparse"},
    "Node": {5: "Attribute"},
    "Attribute": {
        5: "Tensor",
        6: "Graph",
        10: "Tensor",
        11: "Graph",
        14: "Type",
        15: "Type",
        22: "Sparse",
        23: "Sparse",
    },
    "Tensor": {13: "Entry"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Value": {2: "Type"},
    "Type": {1: "TensorType", 4: "Holder", 5: "MapType", 8: "TensorType", 9: "Holder"},
    "Holder": {1: "Type"},
    "MapType": {2: "Type"},
    "TensorType": {2: "Shape"},
    "Shape": {1: "Dim"},
    "Dim": {},
    "Opset": {},
    "Entry": {},
}
"""The messages within a message, by field number."""

NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1)

# ------------------------------------------------------------------------------ changes of bytes


@dataclass
class Places:
    """Where the structure of a file lies.

    Attributes:
        tags: bytes where a field starts.
        lengths: bytes where the length of a field stands.
        numbers: bytes where a number stands.
        texts: bytes where a field starts that holds no message.
    """

    tags: list[int] = field(default_factory=lambda: [0])
    lengths: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)

    def groups(self) -> fuzzing.Groups:
        """All of them."""
        return self.tags, self.lengths, self.numbers, self.texts


def find_places(data: bytes) -> Places:
    """Find the structure of a sound file."""
    places = Places()
    todo = [("Model", 0, len(data))]
    while todo:
        name, start, stop = todo.pop()
        at = start
        for key, _, first, last in fields(data, start, stop):
            places.tags.append(at)
            if key & 7 == 2:
                places.lengths.append(first - len(varint(last - first)))
                inner = _MESSAGES[name].get(key >> 3)
                if inner is not None:
                    todo.append((inner, first, last))
                else:
                    places.texts.append(first)
            else:
                places.numbers.append(first)
            at = last
    return places


def mutate(data: bytes, places: Places, rng: random.Random) -> bytes:
    """Break a file in one to four places."""
    broken, groups = bytearray(data), places.groups()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        rng.choice((*fuzzing.PLAIN_CHANGES, _set_tag, _set_number, _set_number))(
            broken, groups, rng
        )
    return bytes(broken)


def _set_tag(broken: bytearray, groups: fuzzing.Groups, rng: random.Random) -> None:
    at = rng.choice(groups[0])
    if at < len(broken):
        tag = (broken[at] & 0xF8) | rng.randrange(8) if rng.random() < 0.5 else rng.randrange(256)
        broken[at] = tag


def _set_number(broken: bytearray, groups: fuzzing.Groups, rng: random.Random) -> None:
    at = rng.choice(rng.choice(groups[1:3]) or groups[0])
    if at >= len(broken):
        return
    stop = at
    while stop < len(broken) - 1 and broken[stop] > 127:
        stop += 1
    number = rng.choice((*NUMBERS, broken[at] + 1, max(broken[at] - 1, 0), len(broken) - at, -1))
    broken[at : stop + 1] = varint(number) if rng.random() < 0.9 else b"\xff" * rng.randrange(12)


# ----------------------------------------------------------------------------- changes of fields


@dataclass
class Message:
    """A message.

    Attributes:
        name: what it is, in the terms of `_MESSAGES`.
        fields: (key, content) pairs; the content is a number, bytes or a message.
    """

    name: str
    fields: list[tuple[int, Any]]


def find_fields(data: bytes) -> list[Message]:
    """Take a sound file apart: all its messages, the whole first."""
    found: list[Message] = []

    def take(name: str, start: int, stop: int) -> Message:
        message = Message(name, [])
        found.append(message)
        for key, value, first, last in fields(data, start, stop):
            inner = _MESSAGES[name].get(key >> 3) if key & 7 == 2 else None
            if key & 7 == 0:
                message.fields.append((key, value))
            elif inner is not None:
                message.fields.append((key, take(inner, first, last)))
            else:
                message.fields.append((key, data[first:last]))
        return message

    take("Model", 0, len(data))
    return found


def joined(message: Message) -> bytes:
    """The bytes of a message."""
    pieces: list[bytes] = []
    for key, content in message.fields:
        pieces.append(varint(key))
        if isinstance(content, int):
            pieces.append(varint(content - (content >> 63 << 64)))
            continue
        raw = joined(content) if isinstance(content, Message) else content
        if key & 7 == 2:
            pieces.append(varint(len(raw)))
        pieces.append(raw)
    return b"".join(pieces)


def change(data: bytes, messages: list[Message], rng: random.Random) -> bytes:  # noqa: ARG001
    """Change one to four fields of a file."""
    before: list[tuple[Message, list[tuple[int, Any]]]] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        # A kind of message first, since most are nodes and types.
        kind = rng.choice(sorted({message.name for message in messages}))
        message = rng.choice([m for m in messages if m.name == kind])
        if message.fields:
            before.append((message, list(message.fields)))
            if rng.random() < 0.5:
                rng.choice((_set_value, _set_value, _set_value, _borrow))(message, messages, rng)
            else:
                rng.choice(_CHANGES)(message, rng)
    broken = joined(messages[0])
    for message, known in reversed(before):
        message.fields[:] = known
    return broken


def _set_value(message: Message, messages: list[Message], rng: random.Random) -> None:
    at = rng.randrange(len(message.fields))
    key, content = message.fields[at]
    if isinstance(content, int):
        content = rng.choice((*NUMBERS, content + 1, content ^ 1, (1 << 64) - 1, (1 << 64) - 2))
        content &= (1 << 64) - 1
    elif isinstance(content, Message):
        others = [m for m in messages if m.name == content.name]
        content = joined(rng.choice(others))  # not itself, lest a message be in itself
    else:
        content = _changed_bytes(content, message, messages, rng)
    message.fields[at] = key, content


def _changed_bytes(
    content: bytes, message: Message, messages: list[Message], rng: random.Random
) -> bytes:
    """Other bytes of a text or tensor: spoilt ones, or those of a like field elsewhere."""
    draw = rng.random()
    if draw < 0.3:
        others = [m for m in messages if m.name == message.name]
        texts = [c for _, c in rng.choice(others).fields if isinstance(c, bytes)]
        return rng.choice(texts) if texts else content
    if draw < 0.5:
        return content[: rng.randrange(len(content) + 1)]
    if draw < 0.6:
        return content + rng.randbytes(rng.choice((1, 3, 4, 8)))
    if draw < 0.7:
        return rng.choice((b"", b"\xff", b"\0", b"/etc/hostname", b"../x", b"-1", b"9" * 30))
    spoilt = bytearray(content or b"\0")
    for _ in range(rng.randint(1, 4)):
        spoilt[rng.randrange(len(spoilt))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(spoilt)


def _leave_out(message: Message, rng: random.Random) -> None:
    del message.fields[rng.randrange(len(message.fields))]


def _double(message: Message, rng: random.Random) -> None:
    pair = rng.choice(message.fields)
    small = len(joined(Message("", [pair]))) < 1000
    message.fields += [pair] * rng.choice((1, 1, 2, 70) if small else (1,))


def _shuffle(message: Message, rng: random.Random) -> None:
    rng.shuffle(message.fields)


def _renumber(message: Message, rng: random.Random) -> None:
    at = rng.randrange(len(message.fields))
    key, content = message.fields[at]
    if rng.random() < 0.7:
        key = rng.randrange(1, 26) << 3 | key & 7
    else:  # another wire type, whatever becomes of the content
        key = key & ~7 | rng.choice((0, 1, 2, 5))
        if key & 7 == 2 and isinstance(content, int):
            content = b"\x01"
    message.fields[at] = key, content


def _borrow(message: Message, messages: list[Message], rng: random.Random) -> None:
    """Take a field from any other message, of the same kind or not."""
    others = rng.choice(messages).fields
    if others:
        key, content = rng.choice(others)
        content = joined(content) if isinstance(content, Message) else content
        message.fields.insert(rng.randrange(len(message.fields) + 1), (key, content))


def _nest(message: Message, rng: random.Random) -> None:
    """Put a copy of a message into an attribute or type of its own, many times over."""
    inner = b"".join(joined(Message("", [pair])) for pair in message.fields[:5])[:2000]
    for _ in range(rng.choice((1, 5, 40, 200))):
        if message.name == "Type":
            inner = _wrapped(0x22, _wrapped(0x0A, inner))
        else:
            attribute = b"\x0a\x01b" + _wrapped(0x32, inner) + b"\xa0\x01\x05"
            inner = _wrapped(0x0A, b"\x22\x02If" + _wrapped(0x2A, attribute))
    message.fields.append((0x0A if message.name == "Type" else 0x32, inner))


def _wrapped(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + varint(len(content)) + content


_CHANGES: Sequence[Callable[[Message, random.Random], None]] = (
    _leave_out,
    _leave_out,
    _double,
    _shuffle,
    _renumber,
    _nest,
)

# --------------------------------------------------------------------------------------- targets


def read_all(path: Path) -> None:
    """Read a file and everything in it."""
    model = read(path)
    repr(model)
    todo: list[Any] = [model.graph, *model.functions]
    while todo:
        graph = todo.pop()
        tensors = list(graph.initializers) if isinstance(graph, wire.Graph) else []
        for node in graph.nodes:
            repr(node)
            for attribute in node.attributes.values():
                many = isinstance(attribute.value, tuple)
                for item in attribute.value if many else (attribute.value,):
                    if isinstance(item, wire.Graph):
                        todo.append(item)
                    elif isinstance(item, wire.Tensor):
                        tensors.append(item)
        for tensor in tensors:
            repr(tensor)
            tensor.array()
    summarize(path)


def convert(path: Path) -> None:
    """Convert a file to TFLite."""
    import nnconv

    nnconv.convert(path, path.with_suffix(".tflite"))


FUZZER = fuzzing.Fuzzer(
    module="fuzz_onnx",
    suffix=".onnx",
    targets={"decode": read_all, "convert": convert},
    changes={"bytes": (find_places, mutate), "fields": (find_fields, change)},
)

if __name__ == "__main__":
    sys.exit(fuzzing.main(FUZZER, __doc__.splitlines()[0]))
