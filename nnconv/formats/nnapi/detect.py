"""Telling files with NNAPI models by their content; imports little, since every load asks."""

from __future__ import annotations

import struct

from nnconv.formats.marks import KEYS, is_container

OWN, STREAM, ARCHIVE = "nnapi", "PyTorch stream", "PyTorch archive"
"""The kinds of files: ours and its .json twin; the two that PyTorch writes."""

STREAM_VERSION = 1
STREAM_HEADER = struct.Struct("<6i")
STREAM_OPERAND = struct.Struct("<iIfi")
MOST_COUNT = 1 << 24
"""PyTorch's loader takes no count that is larger."""

_BOOL = 6
"""``OperandCode.BOOL``."""


def kind_of(head: bytes, size: int) -> str:
    """Which kind of file it is, as far as its head tells; empty if it is none.

    A PyTorch archive is only known to be one of the containers that PyTorch saves modules in:
    whether an NNAPI module is inside shows when it is read.

    Args:
        head: its first bytes, 4096 or more if there are so many.
        size: the number of all its bytes.
    """
    if is_container(KEYS["nnapi"], head, size):
        return OWN
    if is_stream(head, size):
        return STREAM
    return ARCHIVE if is_archive(head) else ""


def is_nnapi(head: bytes, size: int) -> bool:
    """Whether a file is for the NNAPI reader, as far as its head tells."""
    return bool(kind_of(head, size))


def is_stream(head: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that starts with ``head`` is such a stream.

    Its first two operands are always the bools false and true.
    """
    if len(head) < STREAM_HEADER.size + 2 * STREAM_OPERAND.size:
        return False
    version, operands, values, operations, inputs, outputs = STREAM_HEADER.unpack_from(head)
    counts = (operands, values, operations, inputs, outputs)
    if version != STREAM_VERSION or any(not 0 <= count < MOST_COUNT for count in counts):
        return False
    least = 16 * operands + 12 * (values + operations) + 4 * (inputs + outputs)
    bools = STREAM_OPERAND.pack(_BOOL, 0, 0.0, 0) * 2
    return size >= STREAM_HEADER.size + least and head[STREAM_HEADER.size :].startswith(bools)


def is_archive(head: bytes) -> bool:
    """Whether a file that starts with ``head`` is a zip archive, or PyTorch's other container."""
    return head.startswith(b"PK\x03\x04") or head[4:8] == b"PTMF"
