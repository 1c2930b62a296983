"""The folder that ``Compilation.set_cache`` names: a model, and its compiled forms.

The model lies there as a .nnrt file, so that a compilation without a model can take it from there,
with a note that tells its version and device. The device's forms are ``core.cache``'s.
"""

from __future__ import annotations

import os
from pathlib import Path

from nnconv import __version__
from nnconv.errors import InvalidModelError, NnconvError
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.types import V1, ReturnCode
from nnconv.formats.nnrt.wire import Graph
from nnconv.runtime.core.cache import (
    CacheSlot,
    Note,
    checksum_of,
    is_sound,
    read_note,
    write_note,
)
from nnconv.runtime.nnrt.errors import Error, forbidden, invalid

NAME = "model.nnrt"

RESERVED = (1 << 32) - 1
"""The version that stands for none."""

MOST_BYTES = 200 << 20
"""How large the file of a model may be in API v1."""


class ModelCache:
    """What a folder keeps for a device.

    Attributes:
        folder: where.
        version: what the application calls this state of its model.
        device: the device's name.
    """

    def __init__(self, folder: str, version: int, device: str) -> None:
        self.folder = Path(folder)
        self.version = version
        self.device = device
        self._path = self.folder / NAME
        self._sound: bool | None = None

    def read(self, *, strict: bool = False, wanted: bool = True) -> Graph | None:
        """The model; None where there is none that can be used.

        Args:
            strict: whether that is an error, as in API v1, where the folder has one.
            wanted: whether more counts than that the folder has no newer one.

        Raises:
            Error: OPERATION_FORBIDDEN, it has a newer version. If strict: INVALID_PARAMETER or
                INVALID_FILE.
        """
        note = read_note(self._path)
        version = None if note is None else note.get("version")
        if note is None or not isinstance(version, int):
            return None
        if version > self.version:
            raise forbidden(f"the cache has version {version}, wanted is {self.version}")
        if note.get("device") != self.device:
            if strict:
                raise invalid(f"the cache is for {note.get('device')}, not for {self.device}")
            return None
        if not wanted or note != self._note(note.get("fingerprint"), note["checksum"]):
            return None
        try:
            if not self._is_sound(note) or (strict and self._path.stat().st_size > MOST_BYTES):
                raise InvalidModelError(f"{self._path} isn't what the cache had")
            return file.read(self._path)
        except (NnconvError, OSError) as error:
            if strict:
                raise Error(ReturnCode.INVALID_FILE, str(error)) from error
            return None

    def slot(self, fingerprint: bytes) -> CacheSlot | None:
        """Where compiled forms of the model belong; None where none can be kept."""
        if self.version == RESERVED:
            return None
        return CacheSlot(self.folder, b"nnrt", fingerprint)

    def save(self, graph: Graph, fingerprint: bytes) -> None:
        """Keep a model.

        Raises:
            Error: INVALID_PARAMETER, there is no folder or no version; SAVE_CACHE_EXCEPTION (in
                API v1 INVALID_FILE).
        """
        if not os.path.isdir(self.folder):  # noqa: PTH112 - of any name; Path's gives errors
            raise invalid(f"{str(self.folder)!r} is no folder")
        if self.version == RESERVED:
            raise invalid(f"version {RESERVED} stands for none")
        try:
            if self._is_kept(fingerprint):
                return
            file.write(graph, self._path)
            write_note(self._path, self._note(fingerprint.hex(), checksum_of(self._path)))
        except (NnconvError, OSError) as error:
            first = graph.api == V1
            code = ReturnCode.INVALID_FILE if first else ReturnCode.SAVE_CACHE_EXCEPTION
            raise Error(code, str(error)) from error

    def _is_kept(self, fingerprint: bytes) -> bool:
        note = read_note(self._path)
        return (
            note is not None
            and note == self._note(fingerprint.hex(), note["checksum"])
            and self._is_sound(note)
        )

    def _is_sound(self, note: Note) -> bool:
        """Whether the file is what the note says; it is looked at once."""
        if self._sound is None:
            self._sound = is_sound(self._path, note)
        return self._sound

    def _note(self, fingerprint: str | None, checksum: str | None) -> Note:
        return {
            "checksum": checksum,
            "nnconv": __version__,
            "device": self.device,
            "version": self.version,
            "fingerprint": fingerprint,
        }
