"""Files of arrays as numpy saves them: pickles are refused, what is wrong is told in plain words.

numpy's own words speak of options that users of a command don't have.
"""

from __future__ import annotations

import contextlib
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy_format

_UNREADABLE = (SyntaxError, TokenError, RecursionError)
"""What Python raises on a header that isn't such a text, or one nested too deeply."""

_BROKEN = (*_UNREADABLE, ValueError, EOFError, TypeError, LookupError, ArithmeticError)
_BROKEN_ARCHIVE = (*_BROKEN, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What numpy raises on files that aren't sound."""

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


class WrongFileError(Exception):
    """The text says what a file is instead of arrays of numbers."""


def read(path: Path) -> np.ndarray:
    """The array in an .npy file.

    Raises:
        OSError, ValueError: the file can't be read, or none can have its name.
        WrongFileError: it holds no array of numbers.
    """
    with path.open("rb") as file, _quiet():
        try:
            return _numbers(_array_of(file))
        except MemoryError as error:
            raise WrongFileError("memory can't hold as many elements as it states") from error
        except _BROKEN as error:
            raise WrongFileError("it is broken, or ends before its last element") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep numpy's advice to itself that files of Python 2 be saved again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _numbers(array: np.ndarray) -> np.ndarray:
    """An array as the machine has it, if it is one of numbers (or texts, which models take too)."""
    if array.dtype.names is not None:
        raise WrongFileError(f"it holds records of {', '.join(array.dtype.names)}, not numbers")
    if array.dtype.kind in "mM":
        raise WrongFileError(f"it holds times ({array.dtype.name}), not numbers")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _array_of(file: BinaryIO) -> np.ndarray:
    start = file.read(len(npy_format.MAGIC_PREFIX))
    if start.startswith(b"PK"):
        raise WrongFileError("it is an archive, such as .npz files are")
    if start != npy_format.MAGIC_PREFIX:
        raise WrongFileError("it doesn't begin as .npy files do")
    file.seek(0)
    read_header = _HEADERS.get(npy_format.read_magic(file))
    if read_header is not None and read_header(file)[2].hasobject:
        raise WrongFileError("it holds Python objects, not numbers")
    file.seek(0)
    return npy_format.read_array(file, allow_pickle=False)


def read_numbered(path: Path, stem: str) -> list[np.ndarray]:
    """The arrays of an .npz file that are called ``stem`` and 0, 1, ..., up to the first gap.

    Raises:
        OSError: the file can't be read.
        WrongFileError: one of them is no array of numbers, or the file no archive.
    """
    try:
        with path.open("rb") as opened, _quiet(), np.load(opened, allow_pickle=False) as arrays:
            names = set(arrays.files)
            count = next(i for i in range(len(names) + 1) if f"{stem}{i}" not in names)
            found = [arrays[f"{stem}{i}"] for i in range(count)]
    except MemoryError as error:
        raise WrongFileError("memory can't hold as many elements as it states") from error
    except _BROKEN_ARCHIVE as error:
        raise WrongFileError("it is no archive of arrays of numbers") from error
    if not all(isinstance(array, np.ndarray) for array in found):  # but a member's bytes
        raise WrongFileError("it is no archive of arrays of numbers")
    return [_numbers(array) for array in found]
