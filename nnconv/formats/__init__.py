"""The model formats, a folder each; none knows another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nnconv.errors import InvalidModelError, UsageError

if TYPE_CHECKING:
    from nnconv.formats.summary import Summary
    from nnconv.ir.graph import Model
    from nnconv.ir.types import Shape

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


def read_model(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
) -> Model:
    """Read a model file; ``nnconv.load`` says more.

    Raises:
        InvalidModelError: the file is broken.
        UnsupportedError: it has nodes that can't be imported.
        UsageError: the format can't be read, or an input has no such name.
    """
    _readable(format or detect(path))
    from nnconv.formats.tflite.reader import read

    return read(path, input_shapes=input_shapes)


def summarize(path: str | os.PathLike[str], format: str | None = None) -> Summary:
    """Tell what a file holds; ops that nnconv can't convert don't hinder it.

    Raises:
        InvalidModelError: the file is broken.
        UsageError: the format can't be read.
    """
    _readable(format or detect(path))
    from nnconv.formats.tflite.summary import summarize as of_tflite

    return of_tflite(path)


def _readable(kind: str) -> None:
    if kind not in READABLE:
        raise UsageError(f"format {kind} can't be read; formats that can: {', '.join(READABLE)}")
