"""The model formats, a folder each; none knows another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnconv.errors import InvalidModelError, UsageError
from nnconv.formats.marks import KEYS, is_container

if TYPE_CHECKING:
    from nnconv.formats.summary import Summary
    from nnconv.ir.graph import Model
    from nnconv.ir.types import Shape

SUFFIXES = {
    ".tflite": "tflite",
    ".lite": "tflite",
    ".onnx": "onnx",
    ".nnapi": "nnapi",
    ".nnrt": "nnrt",
}
"""Format by file suffix. JSON twins and PyTorch's files are told by their content alone."""

FORMATS = ("tflite", "onnx", "nnapi", "nnrt")
READABLE = FORMATS
"""Formats whose folder has a ``reader`` and a ``summary``."""

WRITABLE = FORMATS

_HEAD_BYTES = 4096
"""How much of a file is looked at to tell its format."""


def detect(path: str | os.PathLike[str]) -> str:
    """The format of a file: by its content, then by its suffix.

    Raises:
        InvalidModelError: the file can't be read, or its format isn't known.
    """
    try:
        # Opening a pipe would wait for whoever fills it.
        if Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir():
            raise InvalidModelError("it is no regular file", path=os.fspath(path))
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InvalidModelError(error.strerror or str(error), path=os.fspath(path)) from error
    if head[4:8] == b"TFL3":
        return "tflite"
    if is_container(KEYS["nnrt"], head, size):
        return "nnrt"
    if import_module("nnconv.formats.nnapi.detect").is_nnapi(head, size):
        return "nnapi"
    by_suffix = SUFFIXES.get(Path(path).suffix.lower())
    if by_suffix != "onnx" and import_module("nnconv.formats.onnx.detect").is_onnx(head, size):
        return "onnx"
    if by_suffix is None:
        raise InvalidModelError(
            "the format can't be told from its content or suffix",
            path=os.fspath(path),
            hint="Give it the suffix of its format, or name that (`nnconv convert --from`, "
            f"`nnconv.load(format=...)`): {', '.join(READABLE)}.",
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
    from nnconv.ir.collector import no_collection

    reader = _module(detect(path) if format is None else format, "reader")
    with no_collection():
        model: Model = reader.read(path, input_shapes=input_shapes)
    return model


def summarize(path: str | os.PathLike[str], format: str | None = None) -> Summary:
    """Tell what a file holds; ops that nnconv can't convert don't hinder it.

    Raises:
        InvalidModelError: the file is broken.
        UsageError: the format can't be read.
    """
    summary: Summary = _module(detect(path) if format is None else format, "summary").summarize(
        path
    )
    return summary


def _module(kind: str, name: str) -> Any:
    """A module of a format that can be read."""
    if kind not in READABLE:
        raise UsageError(f"format {kind} can't be read; formats that can: {', '.join(READABLE)}")
    return import_module(f"nnconv.formats.{kind}.{name}")


def check_writable(kind: str) -> None:
    """See that a format can be written.

    Raises:
        UsageError: it can't.
    """
    if kind not in WRITABLE:
        raise UsageError(f"format {kind} can't be written; those that can: {', '.join(WRITABLE)}")
