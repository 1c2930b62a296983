"""Memory that a program lends to models and executions: arrays, and parts of files."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO

import numpy as np

from nnconv.errors import plural


class MapError(Exception):
    """A part of a file can't be mapped; the text says why."""


class FileDescriptorError(Exception):
    """A file descriptor isn't open."""


READ, WRITE = 1, 2
"""What may be done with a mapping: the values of PROT_READ and PROT_WRITE."""


class Region:
    """Bytes in memory of our own.

    Attributes:
        size: how many.
    """

    def __init__(self, size: int) -> None:
        """Make ``size`` bytes, all 0."""
        self.size = size
        self._bytes = np.zeros(size, np.uint8)

    def view(self, *, writable: bool = False) -> np.ndarray:
        """The bytes themselves, as uint8.

        Raises:
            MapError: they can't be had.
        """
        return self._bytes


class FileRegion(Region):
    """A part of a file, shared with whoever else has it mapped. It is mapped when first used."""

    def __init__(self, size: int, protection: int, descriptor: int, offset: int) -> None:
        """Take ``size`` bytes from ``offset`` on of an open file; the descriptor is duplicated.

        Raises:
            FileDescriptorError: the descriptor isn't open.
        """
        self.size = size
        self._protection = protection
        self._offset = offset
        self._mapped: np.ndarray | None = None
        self._descriptor = -1
        try:
            self._descriptor = os.dup(descriptor)
        except (OSError, OverflowError) as error:
            raise FileDescriptorError(f"file descriptor {descriptor}: {error}") from error

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    @property
    def descriptor(self) -> int:
        """The file's descriptor; it is closed when the region goes."""
        return self._descriptor

    def view(self, *, writable: bool = False) -> np.ndarray:
        """The bytes as they are in the file.

        Raises:
            MapError: size, offset or protection don't allow it.
        """
        if self._mapped is None:
            self._mapped = self._map()
        if writable and not self._mapped.flags.writeable:
            raise MapError("the memory may only be read")
        return self._mapped

    def _map(self) -> np.ndarray:
        if not self._protection & (READ | WRITE):
            raise MapError(f"protection {self._protection} allows neither reading nor writing")
        if self.size <= 0:
            raise MapError(f"{plural(self.size, 'byte')} can't be mapped")
        access = mmap.ACCESS_WRITE if self._protection & WRITE else mmap.ACCESS_READ
        try:
            found = mmap.mmap(self._descriptor, self.size, access=access, offset=self._offset)
        except (OSError, ValueError, OverflowError) as error:
            raise MapError(
                f"{plural(self.size, 'byte')} from {self._offset} on: {error}"
            ) from error
        return np.frombuffer(found, np.uint8)


def _unnamed_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("nnconv"), "r+b")  # noqa: PTH123 - it has no path
    return tempfile.TemporaryFile()


def shared(size: int) -> FileRegion:
    """Bytes, all 0, in a file without a name: whoever has the descriptor can map them too.

    Raises:
        MapError: they can't be had.
    """
    try:
        with _unnamed_file() as file:
            file.truncate(size)
            region = FileRegion(size, READ | WRITE, file.fileno(), 0)
    except (OSError, FileDescriptorError) as error:
        raise MapError(f"{plural(size, 'byte')} can't be had: {error}") from error
    region.view(writable=True)
    return region
