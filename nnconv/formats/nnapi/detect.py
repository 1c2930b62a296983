"""Telling files with NNAPI models by their content."""

from __future__ import annotations

from nnconv.formats.nnapi.file import is_nnapi as is_own
from nnconv.formats.nnapi.pytorch import is_stream
from nnconv.formats.nnapi.pytorch_archive import is_archive

OWN, STREAM, ARCHIVE = "nnapi", "PyTorch stream", "PyTorch archive"
"""The kinds of files: ours and its .json twin; the two that PyTorch writes."""


def kind_of(head: bytes, size: int) -> str:
    """Which kind of file it is, as far as its head tells; empty if it is none.

    A PyTorch archive is only known to be one of the containers that PyTorch saves modules in:
    whether an NNAPI module is inside shows when it is read.

    Args:
        head: its first bytes, 4096 or more if there are so many.
        size: the number of all its bytes.
    """
    if is_own(head, size):
        return OWN
    if is_stream(head, size):
        return STREAM
    return ARCHIVE if is_archive(head) else ""


def is_nnapi(head: bytes, size: int) -> bool:
    """Whether a file is for the NNAPI reader, as far as its head tells."""
    return bool(kind_of(head, size))
