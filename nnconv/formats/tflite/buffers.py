"""The buffers of a .tflite file that is being written: what they hold, and where it lies."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from nnconv.errors import GraphError, InvalidModelError, plural
from nnconv.formats.stored import Data, Storage, stored_chunks
from nnconv.formats.tflite.tables import TableWriter

ALIGNMENT = 16
"""What the schema demands for the content of buffers."""

INLINE_BYTES = 4096
"""Content up to this size is copied among the tables, and stays there in large files."""

_ROOM = 64
"""More than a buffer takes besides its content: an offset, a table, a count, and padding."""

_SET_U32 = struct.Struct("<I").pack_into
_SET_U64 = struct.Struct("<Q").pack_into


class Content(NamedTuple):
    """What a buffer holds."""

    data: Data
    storage: Storage
    nbytes: int
    name: str
    """The tensor's, for messages."""
    is_metadata: bool = False

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes in order; each piece is good until the next is asked for."""
        return stored_chunks(
            self.data, self.storage, fail=lambda what: tensor_error(self.name, what)
        )


Part: TypeAlias = "bytes | bytearray | Content"
"""A piece of a file: ready bytes, or a content that is fetched when its turn comes."""


def tensor_error(name: str, what: str) -> GraphError:
    """Give the error to raise for what is wrong with a tensor."""
    return GraphError(f"TFLite tensor {name!r}: {what}.")


def place_buffers(
    writer: TableWriter,
    slot: int,
    contents: Sequence[Content],
    *,
    max_bytes: int,
    behind_above: int,
) -> list[Part]:
    """Write the tables of all buffers, the last of a file, and lay their contents out.

    Args:
        writer: all other tables.
        slot: where the offset to the vector of buffers is.
        contents: what buffers 1, 2, ... hold. Buffer 0 is empty.
        max_bytes: if the file would be larger, contents lie behind its FlatBuffers part.
        behind_above: contents of more bytes than this do so then.

    Returns:
        The parts of the whole file, in order.

    Raises:
        InvalidModelError: the FlatBuffers part is larger than ``max_bytes`` even so.
    """

    def room(those: Sequence[Content]) -> int:
        """At most what the FlatBuffers part takes when it holds ``those`` contents."""
        return len(writer.data) + 8 + _ROOM * len(contents) + sum(one.nbytes for one in those)

    behind = [False] * len(contents)
    if room(contents) > max_bytes:
        # LiteRT looks for metadata in the FlatBuffers part only.
        behind = [one.nbytes > behind_above and not one.is_metadata for one in contents]
        least = room([one for one, leaves in zip(contents, behind, strict=True) if not leaves])
        if least > max_bytes:
            raise InvalidModelError(
                f"the model takes {plural(least, 'byte')} even without its weights; TFLite "
                f"holds {max_bytes}."
            )
    slots = writer.slots(1 + len(contents), slot)
    writer.inline("Buffer", {}, slots[0])
    inside, outside = [], []
    for content, leaves, place in zip(contents, behind, slots[1:], strict=True):
        if leaves:
            fields = writer.inline("Buffer", {"offset": 0, "size": content.nbytes}, place)
            outside.append((content, fields["offset"]))
        elif content.nbytes:
            inside.append((content, writer.inline("Buffer", {"data": None}, place)["data"]))
        else:
            writer.inline("Buffer", {}, place)
    parts: list[Part] = [writer.data]
    end = _place_inside(writer.data, inside, parts)
    for content, slot_of_offset in outside:
        gap = -end % ALIGNMENT
        _SET_U64(writer.data, slot_of_offset, end + gap)
        parts += (bytes(gap), content)
        end += gap + content.nbytes
    return parts


def _place_inside(
    data: bytearray, contents: Sequence[tuple[Content, int]], parts: list[Part]
) -> int:
    """Place contents as vectors, given with the slots of their offsets; return where they end."""
    for content, slot in contents:
        if content.nbytes <= INLINE_BYTES:
            data += bytes(-(len(data) + 4) % ALIGNMENT)
            _SET_U32(data, slot, len(data) - slot)
            data += content.nbytes.to_bytes(4, "little")
            data += b"".join(content.chunks())
    end = len(data)
    for content, slot in contents:
        if content.nbytes > INLINE_BYTES:
            gap = -(end + 4) % ALIGNMENT
            _SET_U32(data, slot, end + gap - slot)
            parts += (bytes(gap) + content.nbytes.to_bytes(4, "little"), content)
            end += gap + 4 + content.nbytes
    return end


def part_chunks(parts: Sequence[Part]) -> Iterator[bytes | bytearray | memoryview]:
    """Yield a file's bytes in order; each piece is good until the next is asked for."""
    for part in parts:
        if isinstance(part, Content):
            yield from part.chunks()
        else:
            yield part
