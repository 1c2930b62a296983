"""Compiled models on disk: found again by token, in this process or in a later one.

An entry is a folder: files, and a note that says what they are. What doesn't agree with the note in
every respect is left aside, as if it weren't there: another token, another model, another version
of nnconv or of a device's runtime, a damaged or half-written file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nnconv import __version__
from nnconv.errors import NnconvError
from nnconv.formats.atomic import replacing
from nnconv.formats.safetensors import map_file

FORMAT = 5

NOTE = "entry"
"""The note lies beside a file of this name, which isn't there."""

KNOWN = "known.json"
"""The file that holds what is known of an entry."""

Note: TypeAlias = "dict[str, Any]"
"""What is noted of a file."""

_PAGE = 4096


class CacheSlot:
    """The place of one model's compiled forms.

    Attributes:
        folder: where the entries lie.
        token: what the application calls the model.
        fingerprint: what tells this model from others.
    """

    def __init__(self, folder: str | os.PathLike[str], token: bytes, fingerprint: bytes) -> None:
        self.folder = Path(folder)
        self.token = token
        self.fingerprint = fingerprint

    def path(self, versions: Mapping[str, str]) -> Path:
        """Where the entry for devices of these versions belongs.

        Other models under the same token have other places: while the files of an entry are read,
        another process can't put those of its model there.
        """
        return self.folder / f"{self._key(versions)}.{self.fingerprint.hex()[:16]}"

    def _key(self, versions: Mapping[str, str]) -> str:
        """What the names of the token's entries begin with."""
        devices = json.dumps(list(versions.items()))
        return hashlib.sha256(self.token + devices.encode()).hexdigest()

    def find(self, versions: Mapping[str, str]) -> tuple[Path, Any] | None:
        """The entry for devices of these versions and what is known of it, if it is sound."""
        path = self.path(versions)
        note = read_note(path / NOTE)
        sums = None if note is None else note["checksum"]
        if not isinstance(sums, dict) or note != self._note(versions, sums):
            return None
        if not all(sum_ and checksum_of(path / name) == sum_ for name, sum_ in sums.items()):
            return None
        known = _read_json(path / KNOWN)
        return None if known is None else (path, known)

    def begin(self) -> Path | None:
        """A new folder for the files of an entry; None where there can be none."""
        try:
            return Path(tempfile.mkdtemp(prefix=".", dir=self.folder))
        except (OSError, ValueError):  # a name that no folder can have is the latter
            return None

    def keep(
        self, draft: Path, files: Iterable[str], known: Any, versions: Mapping[str, str]
    ) -> None:
        """Make an entry of a new folder, in the place of the token's last one.

        Where the folder can't be written the model is compiled anew the next time.

        Args:
            draft: the folder.
            files: its files that are worth keeping.
            known: what else there is to know, as JSON can hold it.
            versions: the devices.
        """
        path = self.path(versions)
        kept = {KNOWN, *files}
        try:
            (draft / KNOWN).write_text(json.dumps(known), encoding="utf-8")
            for file in draft.iterdir():
                if file.name not in kept:
                    file.unlink()
            sums = {name: checksum_of(draft / name) for name in sorted(kept)}
            write_note(draft / NOTE, self._note(versions, sums))
            if path.exists():
                path.rename(draft / "old")
            draft.rename(path)
            shutil.rmtree(path / "old", ignore_errors=True)
            for other in self.folder.glob(f"{self._key(versions)}.*"):
                if other != path:
                    self.discard(other)
        except (NnconvError, OSError):
            self.discard(draft)

    def discard(self, draft: Path) -> None:
        """Do away with a new folder."""
        shutil.rmtree(draft, ignore_errors=True)

    def _note(self, versions: Mapping[str, str], sums: Mapping[str, str | None]) -> Note:
        return {
            "checksum": dict(sums),
            "format": FORMAT,
            "nnconv": __version__,
            "versions": dict(versions),
            "token": self.token.hex(),
            "fingerprint": self.fingerprint.hex(),
        }


def read_note(path: Path) -> Note | None:
    """What is noted of a file; None where there is no note that makes sense."""
    note = _read_json(_note_path(path))
    return note if isinstance(note, dict) and "checksum" in note else None


def _read_json(path: Path) -> Any:
    """What a file says; None where it can't be read, or is no JSON or too deep."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


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
    pages, rest = pages_of(data)
    total = zlib.crc32(rest, zlib.crc32(np.add.reduce(pages, axis=1)))
    return f"{len(data)}:{total:08x}"


def pages_of(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes as pages of 64-bit words, a page a row, and the bytes behind the last whole page."""
    whole = len(data) // _PAGE * _PAGE
    return data[:whole].view(np.uint64).reshape(-1, _PAGE // 8), data[whole:]
