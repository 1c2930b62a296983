"""The command line's arguments: common options, and what shapes and files of arrays mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nnconv.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

Value = TypeVar("Value")

MOST_LETTERS = 60
"""Of a file's name: up to four bytes each, of the 255 that file systems allow."""


class InputShape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """``NAME=1,224,224,3``; a scalar is ``NAME=``."""

    name = "NAME=DIMS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """Split at the last equals sign: names may hold others, extents can't."""
        if isinstance(value, tuple):
            return value
        name, equals, dims = value.rpartition("=")
        try:
            shape = tuple(int(dim) for dim in dims.split(",")) if dims else ()
        except ValueError:
            equals = ""
        if not equals or not name or min(shape, default=0) < 0:
            self.fail(f"{value!r} is not NAME=EXTENT,EXTENT,... such as x=1,224,224,3", param, ctx)
        return name, shape


class FileName(click.Path):
    """The name of a file or folder; no system has any with a NUL byte."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what the system would choke on, then do what ``click.Path`` does."""
        if "\0" in os.fspath(value):
            self.fail(f"{os.fspath(value)!r} has a NUL byte", param, ctx)
        return super().convert(value, param, ctx)


MODEL_FILE = FileName(exists=True, dir_okay=False, path_type=Path)
TARGET_FILE = FileName(dir_okay=False, path_type=Path)
TARGET_FOLDER = FileName(file_okay=False, path_type=Path)
SEED = click.IntRange(min=0)
THREADS = click.IntRange(min=0, max=1024)
LEVEL_OPTION = click.option(
    "--feature-level", type=click.IntRange(1, 8), help="NNAPI feature level. [default: the newest]"
)
API_OPTION = click.option(
    "--api",
    type=click.Choice(["v1", "v2"]),
    callback=lambda _, __, value: value and int(value[1:]),
    help="Version of NNRt's API. [default: v2]",
)
INPUTS_OPTION = click.option(
    "--input",
    "inputs",
    metavar="NAME=FILE.npy",
    multiple=True,
    help="An input's data. May be repeated; inputs not given are random.",
)
SHAPES_OPTION = click.option(
    "--input-shape",
    "input_shapes",
    type=InputShape(),
    multiple=True,
    help="Fix an input's shape, such as x=1,224,224,3. May be repeated.",
)


def choice_option(
    name: str, choices: Sequence[str], text: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option of a few values, the first of which is the default."""
    return click.option(
        name, type=click.Choice(choices), default=choices[0], show_default=True, help=text
    )


def by_name(option: str, pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """What ``option`` was given for each name.

    Raises:
        UsageError: a name is there twice.
    """
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} was given twice for {name!r}")
        found[name] = value
    return found


def name_and_file(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """Split ``NAME=FILE``, whichever of the equals signs ends a name that the model has.

    Raises:
        UsageError: none does.
    """
    ends = [i for i, letter in enumerate(text) if letter == "="]
    for end in reversed(ends):
        if text[:end] in names:
            return text[:end], Path(text[end + 1 :])
    raise UsageError(
        f"--input {text}: want NAME=FILE.npy with the name of an input of the model; "
        f"its inputs are {', '.join(names) or 'none'}."
    )


def read_array(name: str, path: Path) -> np.ndarray:
    """Read the .npy file ``path`` for the input ``name``; pickles are refused.

    Raises:
        UsageError: there is no array to be had from it.
    """
    from nnconv import npy

    try:
        return npy.read(path)
    except OSError as error:
        why = error.strerror or str(error)
    except (npy.WrongFileError, ValueError) as error:  # of a name that no file can have
        why = str(error)
    raise UsageError(
        f"--input {name}: {path} can't be read as .npy: {why}",
        hint="Save one array of numbers with np.save.",
    )


def save_arrays(arrays: Mapping[str, np.ndarray], folder: Path) -> dict[str, Path]:
    """Save each array under its name, less what file names can't have.

    Raises:
        UsageError: ``folder`` can't be written.
    """
    import numpy as np

    from nnconv.ir.dtype import as_stored

    files: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            stem = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).strip(".") or "_"
            stem = stem[:MOST_LETTERS]
            path = folder / f"{stem}.npy"
            number = 1
            while path in files.values():
                number += 1
                path = folder / f"{stem}-{number}.npy"
            np.save(path, as_stored(array), allow_pickle=False)
            files[name] = path
    except OSError as error:
        raise UsageError(f"--output-dir {folder}: can't write there: {error}") from error
    return files
