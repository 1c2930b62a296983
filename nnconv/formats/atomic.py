"""Output files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nnconv.errors import UsageError


@contextlib.contextmanager
def replacing(*targets: Path) -> Iterator[list[BinaryIO]]:
    """Open a new file for each of ``targets``; they take their places when the block ends well.

    The new files are written under temporary names in the targets' folders and renamed together
    at the end, the last target last. When the block raises, or anything can't be written, they
    are removed, and what was at ``targets`` is as it was. A file that is being replaced can be
    read, or stay mapped into memory, until then.

    The block must do no file work besides, as its OSErrors are taken for failures to write.

    Raises:
        UsageError: a target can't be written; it names the target (the last, if that is unclear).
    """
    staged: list[tuple[Path, BinaryIO]] = []
    placed = False
    try:
        for target in targets:
            mode = _mode_of(target)
            staged.append(_create_beside(target))
            if mode is not None:
                staged[-1][0].chmod(mode)
        yield [file for _, file in staged]
        for _, file in staged:
            file.close()
        _rename_all([temporary for temporary, _ in staged], targets)
        placed = True
    except OSError as error:
        raise UsageError(f"{targets[-1]} can't be written: {error.strerror or error}.") from error
    finally:
        for temporary, file in staged:
            # Closing may fail again for what made the write fail; the file is closed even so.
            with contextlib.suppress(OSError):
                file.close()
            if not placed:  # else the name may be another writer's by now
                temporary.unlink(missing_ok=True)


_NUMBERS = itertools.count()
"""No name is used twice: threads may write into one folder."""


def _mode_of(target: Path) -> int | None:
    """Return the access rights of the file at ``target``, if there is one that can be replaced."""
    if not target.parent.is_dir():
        raise UsageError(f"{target} can't be written: there is no folder {target.parent}.")
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    # A rename would put a plain file in the place of a device or pipe.
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a plain file"
        raise UsageError(f"{target} can't be written: it is {what}.")
    if not os.access(target, os.W_OK):
        raise UsageError(f"{target} can't be written: it is read-only.")
    return stat.S_IMODE(mode)


def _create_beside(target: Path) -> tuple[Path, BinaryIO]:
    for number in _NUMBERS:
        # Not made of the target's name, which may be as long as names can get.
        temporary = target.parent / f".nnconv-{os.getpid()}-{number}.tmp"
        with contextlib.suppress(FileExistsError):
            return temporary, temporary.open("xb")
    raise AssertionError("count() has no end")


def _rename_all(temporaries: list[Path], targets: tuple[Path, ...]) -> None:
    """Put every file in its place, or, when a rename fails, bring back what was there."""
    done: list[tuple[Path, Path | None]] = []
    try:
        for temporary, target in zip(temporaries, targets, strict=True):
            kept = None
            if target is not targets[-1] and target.exists():
                kept = temporary.with_suffix(".old")
                target.replace(kept)
            done.append((target, kept))
            temporary.replace(target)
    except OSError:
        for target, kept in reversed(done):
            if kept is not None:
                kept.replace(target)
            elif target is not targets[-1]:
                target.unlink(missing_ok=True)
        raise
    for _, kept in done:
        if kept is not None:
            kept.unlink()


def behind_links(path: Path) -> Path:
    """The file that a link leads to; ``path`` itself where it is none, or leads in a circle."""
    try:
        return path.resolve(strict=False) if path.is_symlink() else path
    except (OSError, RuntimeError):
        return path
