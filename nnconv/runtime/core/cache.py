"""Compiled models on disk: found again by token, in this process or in a later one.

An entry is two files: the model in its device's own format, and a note that says what it is. What
doesn't agree with the note in every respect is left aside, as if it weren't there: another token,
another model, another version of nnconv or of the device's runtime, a damaged or half-written file.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nnconv import __version__
from nnconv.errors import NnconvError
from nnconv.formats.atomic import replacing
from nnconv.formats.safetensors import map_file

FORMAT = 2

Note: TypeAlias = "dict[str, Any]"
"""What is noted of a file."""

_PAGE = 4096


class CacheSlot:
    """The place of one model's compiled forms.

    Attributes:
        folder: where the files lie.
        token: what the application calls the model.
        fingerprint: what tells this model from others.
    """

    def __init__(self, folder: str | os.PathLike[str], token: bytes, fingerprint: bytes) -> None:
        self.folder = Path(folder)
        self.token = token
        self.fingerprint = fingerprint

    def path(self, device: str, version: str, suffix: str) -> Path:
        """Where the form for a device belongs."""
        key = hashlib.sha256(b"\0".join((self.token, device.encode(), version.encode())))
        return self.folder / f"{key.hexdigest()}{suffix}"

    def find(self, device: str, version: str, suffix: str) -> Path | None:
        """The form for a device, if it is there and sound."""
        path = self.path(device, version, suffix)
        note = read_note(path)
        if note is None or note != self._note(device, version, note["checksum"]):
            return None
        return path if is_sound(path, note) else None

    def keep(self, path: Path, device: str, version: str) -> None:
        """Note what a file is that has just been written at its ``path``.

        Where the folder can't be written the model is compiled anew the next time.
        """
        try:
            write_note(path, self._note(device, version, checksum_of(path)))
        except (NnconvError, OSError):
            return

    def _note(self, device: str, version: str, checksum: str | None) -> Note:
        return {
            "checksum": checksum,
            "format": FORMAT,
            "nnconv": __version__,
            "device": device,
            "version": version,
            "token": self.token.hex(),
            "fingerprint": self.fingerprint.hex(),
        }


def read_note(path: Path) -> Note | None:
    """What is noted of a file; None where there is no note that makes sense."""
    try:
        note = json.loads(_note_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) and "checksum" in note else None


def write_note(path: Path, note: Note) -> None:
    """Note something of a file; ``checksum`` among it is that of the file.

    Raises:
        NnconvError, OSError: the folder can't be written.
    """
    with replacing(_note_path(path)) as (file,):
        file.write(json.dumps(note, indent=1).encode())


def is_sound(path: Path, note: Note) -> bool:
    """Whether a file is still what it was when the note was written."""
    found = checksum_of(path)
    return found is not None and found == note["checksum"]


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def checksum_of(path: Path) -> str | None:
    """Size and checksum of a file; None where it can't be read.

    The CRC of its pages' sums: that of all bytes would take a tenth of the time that onnxruntime
    takes to load the file.
    """
    try:
        data = np.asarray(map_file(path))
    except (NnconvError, OSError, ValueError):
        return None
    words = len(data) // _PAGE * (_PAGE // 8)
    pages = data[: 8 * words].view(np.uint64).reshape(-1, _PAGE // 8)
    total = zlib.crc32(data[8 * words :], zlib.crc32(np.add.reduce(pages, axis=1)))
    return f"{len(data)}:{total:08x}"
