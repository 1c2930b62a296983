"""Telling an ONNX file by its content.

The format has no mark of its own. It is told from other files by the fields that a ModelProto has
before its graph: an IR version, a graph that fits in the file, and none but fields of its own.
"""

from __future__ import annotations

from nnconv.formats.onnx.protobuf_reader import BrokenMessageError, fields

_MOST_IR_VERSION = 100
_KNOWN = frozenset({0x08, 0x12, 0x1A, 0x22, 0x28, 0x32, 0x42, 0x72, 0xA2, 0xCA, 0xD2})


def is_onnx(head: bytes, size: int) -> bool:
    """Whether a file is an ONNX model, as far as its head tells.

    Args:
        head: its first bytes.
        size: the number of all its bytes.
    """
    has_version = False
    try:
        for key, value, start, stop in fields(head, 0, size):
            if key == 0x3A:
                return has_version and stop > start
            if key not in _KNOWN or (key == 0x08 and not 0 < value <= _MOST_IR_VERSION):
                return False
            has_version = has_version or key == 0x08
    except (BrokenMessageError, IndexError):  # IndexError: no graph starts within the head
        return False
    return False
