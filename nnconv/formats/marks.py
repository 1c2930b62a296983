"""Marks of files and models; apart from what reads them, since every load looks for them."""

from __future__ import annotations

KEYS = {"nnapi": "nnconv.nnapi", "nnrt": "nnconv.nnrt"}
"""What a file of ``nnconv.formats.container`` says of its format, for each that is kept so."""

RELAXED = "nnconv.relaxed"
"""The key of a model's metadata that says that float32 may be computed as coarsely as float16."""


def is_container(key: str, head: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that starts with ``head`` holds a model under ``key``."""
    name = f'"{key}"'.encode()
    if head[:1] in (b"{", b" ", b"\n"):
        return name in head
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and length <= size - 8 and name in head
