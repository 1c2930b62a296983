"""Files mapped into memory: the model's own, and those in which its external data lie.

A model may name any file as the one that holds a tensor. It is followed only within the folder that
the model lies in, links included, so that a model from a stranger can't pull other files into what
is made of it.

Source: docs/ExternalData.md of https://github.com/onnx/onnx.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from nnconv.errors import InvalidModelError, plural

_MOST_DIGITS = 19
"""Of an offset or length: more than that isn't in 63 bits."""


def map_file(path: Path, name: str) -> memoryview:
    """Map a model's file into memory.

    Args:
        path: the file.
        name: what errors call it.

    Returns:
        A read-only view of its bytes.

    Raises:
        InvalidModelError: it can't be opened, or is no regular file.
    """
    try:
        return _map(path)
    except (OSError, ValueError) as error:
        raise InvalidModelError(_reason(error), path=name) from error


def _map(path: Path) -> memoryview:
    """Map a file; raises OSError, and ValueError for a name that no file can have."""
    # Opening a pipe would wait for whoever fills it.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    with path.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:  # an empty file can't be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class DataFiles:
    """The files beside a model that hold elements of its tensors, each mapped once."""

    def __init__(self, model: Path | None, name: str) -> None:
        """Start with none mapped.

        Args:
            model: the model's file; None for a model that is none.
            name: what errors call the model.
        """
        self._model = model
        self._name = name
        self._folder: Path | None = None
        self._maps: dict[Path, memoryview] = {}

    def fetch(self, entry: Mapping[str, str], nbytes: int, *, where: str) -> memoryview:
        """The elements of a tensor.

        Args:
            entry: what the model says of the place: ``location`` and perhaps ``offset`` and
                ``length``.
            nbytes: how many bytes the tensor needs.
            where: the tensor's place in the model, for errors.

        Returns:
            A read-only view of ``nbytes`` bytes.

        Raises:
            InvalidModelError: there is no such file, it isn't the model's own business, or it
                doesn't hold those bytes.
        """
        location = entry.get("location", "")
        if not location:
            raise self._fail("its data are in another file, of which no name is given", where)
        offset = self._number(entry, "offset", where) or 0
        length = self._number(entry, "length", where)
        if length is not None and length != nbytes:
            raise self._fail(
                f"its data in {location!r} have {plural(length, 'byte')}, {nbytes} are needed",
                where,
            )
        data = self._mapped(location, where)
        if offset + nbytes > len(data):
            raise self._fail(
                f"its data are bytes {offset} to {offset + nbytes} of {location!r}, which has "
                f"{len(data)}",
                where,
            )
        return data[offset : offset + nbytes]

    def _number(self, entry: Mapping[str, str], key: str, where: str) -> int | None:
        text = entry.get(key)
        if text is None:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise self._fail(f"the {key} of its data is {text[:40]!r}, must be a number", where)
        return int(text)

    def _mapped(self, location: str, where: str) -> memoryview:
        if self._model is None:
            raise self._fail(
                f"its data are in the file {location!r}, and a model in memory has no folder",
                where,
                hint="Give the model's path instead of its bytes.",
            )
        hint = f"Data are looked for in the model's folder, {self._model.parent}, alone."
        outside = self._fail(f"its data are in {location!r}, outside of the folder", where, hint)
        given = Path(location)
        if given.is_absolute() or ".." in given.parts:
            raise outside
        try:
            if self._folder is None:
                self._folder = self._model.parent.resolve()
            path = (self._folder / given).resolve()
            if not path.is_relative_to(self._folder):
                raise outside
            if path not in self._maps:
                self._maps[path] = _map(path)
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
            raise self._fail(
                f"its data's file {location[:200]!r} can't be read: {_reason(error)}", where, hint
            ) from error
        return self._maps[path]

    def _fail(self, message: str, where: str, hint: str = "") -> InvalidModelError:
        return InvalidModelError(message, path=self._name, where=where, hint=hint)
