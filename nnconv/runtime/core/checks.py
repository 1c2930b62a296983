"""What calls demand of their arguments, for any programming model."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from nnconv.errors import NnconvError

Item = TypeVar("Item")

_SWAPPED = (">", "!") if sys.byteorder == "little" else ("<",)
"""What the formats of buffers in another byte order start with."""

_MOST = 1 << 64
"""No integer of C is as large."""

_MOST_TEXT = 100
"""Of a wrong argument so many characters are shown."""


class Checks:
    """Checks that raise a programming model's own errors."""

    def __init__(
        self, null: Callable[[str], NnconvError], wrong: Callable[[str], NnconvError]
    ) -> None:
        """Take what makes the errors.

        Args:
            null: for what must be given and isn't; it gets what that is.
            wrong: for what breaks a rule; it gets a message.
        """
        self._null = null
        self._wrong = wrong

    def expect(self, value: object, kind: type[object], what: str) -> None:
        """See that an argument is an object of a class."""
        if value is None:
            raise self._null(what)
        if not isinstance(value, kind):
            raise self._wrong(f"{what} is {shown(value)}, must be a {kind.__name__}")

    def listed(self, values: Iterable[Item], what: str) -> tuple[Item, ...]:
        """The entries of a list."""
        if values is None:
            raise self._null(what)
        try:
            return tuple(values)
        except (TypeError, ValueError, NotImplementedError) as error:  # also odd memoryviews
            raise self._wrong(f"{what}: {shown(values)} is no list") from error

    def index_of(self, value: Any, count: int, what: str) -> int:
        """An index below ``count``."""
        found = self.integer(value, what)
        if not 0 <= found < count:
            raise self._wrong(f"{what} {found}, there are {count}")
        return found

    def integer(
        self, value: Any, what: str, *, low: int | None = None, high: int | None = None
    ) -> int:
        """An integer, between bounds where they are given."""
        try:
            found = operator.index(value)
        except TypeError as error:
            raise self._wrong(f"{what} is {shown(value)}, must be an integer") from error
        if abs(found) >= _MOST:
            raise self._wrong(f"{what} is {shown(found)}, which takes more than 64 bits")
        if (low is not None and found < low) or (high is not None and found > high):
            raise self._wrong(f"{what} is {found}, must be {low} to {high}")
        return found

    def flag(self, value: Any, what: str) -> bool:
        """A truth value: a bool or an integer."""
        if not isinstance(value, bool | int | np.bool_):
            raise self._wrong(f"{what} is {shown(value)}, must be true or false")
        return bool(value)

    def number(self, value: Any, what: str) -> float:
        """A number."""
        if isinstance(value, str | bytes | complex):
            raise self._no_number(value, what)
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._no_number(value, what) from error

    def _no_number(self, value: Any, what: str) -> NnconvError:
        return self._wrong(f"{what} is {shown(value)}, must be a number")

    def float32(self, value: Any, what: str) -> float:
        """A number as a C float holds it."""
        with np.errstate(over="ignore"):
            return float(np.float32(self.number(value, what)))

    def bytes_of(self, buffer: Any, what: str, *, writable: bool = False) -> np.ndarray:
        """The bytes of a buffer, not copied: those of an array or of what has a buffer."""
        if isinstance(buffer, np.ndarray):
            if buffer.dtype.hasobject:
                raise self._wrong(f"{what} is an array of objects")
            if not buffer.flags.c_contiguous:
                raise self._wrong(f"{what} must be a C-contiguous array")
            swapped = not buffer.dtype.isnative
            found = buffer.reshape(-1).view(np.uint8)
        else:
            try:
                view = memoryview(buffer)
            except TypeError as error:
                raise self._wrong(f"{what} is {type(buffer).__name__}, must be a buffer") from error
            except (BufferError, ValueError) as error:  # it is closed, for one
                raise self._wrong(f"{what} gives no bytes: {error}") from error
            if view.format.endswith("O"):
                raise self._wrong(f"{what} is a buffer of objects")
            if not view.c_contiguous:
                raise self._wrong(f"{what} must be contiguous")
            swapped = view.format[:1] in _SWAPPED
            found = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
        if swapped:
            raise self._wrong(f"{what} must have the byte order of this machine")
        if writable and not found.flags.writeable:
            raise self._wrong(f"{what} must be writable")
        return found


def shown(value: object) -> str:
    """A wrong argument, as a message shows it."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a {type(value).__name__} that is too long to be shown"
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
