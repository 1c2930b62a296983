"""The model formats, a folder each; none knows another."""

from __future__ import annotations

import os
from pathlib import Path

from nnconv.errors import InvalidModelError, UsageError

SUFFIXES = {".tflite": "tflite", ".lite": "tflite", ".onnx": "onnx"}
"""Format by file suffix."""

READABLE = ("tflite",)
WRITABLE = ("onnx",)


def detect(path: str | os.PathLike[str]) -> str:
    """The format of a file: by its content, then by its suffix.

    Raises:
        InvalidModelError: the file can't be read, or its format isn't known.
    """
    try:
        with Path(path).open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InvalidModelError(error.strerror or str(error), path=os.fspath(path)) from error
    if head[4:8] == b"TFL3":
        return "tflite"
    by_suffix = SUFFIXES.get(Path(path).suffix.lower())
    if by_suffix is None:
        raise InvalidModelError(
            "the format can't be told from its content or suffix",
            path=os.fspath(path),
            hint=f"Name it; formats that can be read: {', '.join(READABLE)}.",
        )
    return by_suffix


def format_for(path: str | os.PathLike[str]) -> str:
    """The format that a file to be written should have, by its suffix.

    Raises:
        UsageError: no format has that suffix.
    """
    found = SUFFIXES.get(Path(path).suffix.lower())
    if found is None:
        raise UsageError(
            f"{os.fspath(path)}: the suffix names no format",
            hint=f"Suffixes: {', '.join(SUFFIXES)}; or name the format.",
        )
    return found
