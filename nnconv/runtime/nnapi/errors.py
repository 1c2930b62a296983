"""What goes wrong in a call: an exception with the result code that the C function would give."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from nnconv.errors import NnconvError
from nnconv.formats.nnapi.types import ResultCode

Self = TypeVar("Self")
Args = ParamSpec("Args")
Result = TypeVar("Result")
Item = TypeVar("Item")


class Error(NnconvError):
    """A call failed.

    Attributes:
        code: the result code of the C function.
        rank, dimensions: of an output whose buffer was too small, where a call asked for them
            (OUTPUT_INSUFFICIENT_SIZE); else None.
    """

    def __init__(
        self,
        code: ResultCode,
        message: str,
        *,
        rank: int | None = None,
        dimensions: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.rank = rank
        self.dimensions = dimensions


def null(what: str) -> Error:
    """The error for something that must be given."""
    return Error(ResultCode.UNEXPECTED_NULL, f"{what} is None")


def expect(value: object, kind: type[object], what: str) -> None:
    """See that an argument is an object of a class.

    Raises:
        Error: UNEXPECTED_NULL for None, BAD_DATA for anything else.
    """
    if value is None:
        raise null(what)
    if not isinstance(value, kind):
        raise bad_data(f"{what} is {value!r}, must be a {kind.__name__}")


def listed(values: Iterable[Item], what: str) -> tuple[Item, ...]:
    """The entries of a list.

    Raises:
        Error: UNEXPECTED_NULL for None, BAD_DATA for what is no list.
    """
    if values is None:
        raise null(what)
    try:
        return tuple(values)
    except TypeError as error:
        raise bad_data(f"{what}: {values!r} is no list") from error


def bad_data(message: str) -> Error:
    """The error for an argument that breaks a rule."""
    return Error(ResultCode.BAD_DATA, message)


def bad_state(message: str) -> Error:
    """The error for a call at the wrong time."""
    return Error(ResultCode.BAD_STATE, message)


def call(
    method: Callable[Concatenate[Self, Args], Result],
) -> Callable[Concatenate[Self, Args], Result]:
    """Have a method refuse None as its object, and tell of memory that can't be had."""

    @wraps(method)
    def checked(self: Self, /, *args: Args.args, **options: Args.kwargs) -> Result:
        if self is None:
            raise null(method.__qualname__.partition(".")[0].lower())
        try:
            return method(self, *args, **options)
        except MemoryError as error:
            raise Error(
                ResultCode.OUT_OF_MEMORY, str(error) or "there is no memory left"
            ) from error

    return checked


def index_of(value: Any, count: int, what: str) -> int:
    """An index below ``count``.

    Raises:
        Error: BAD_DATA for anything else.
    """
    found = integer(value, what)
    if not 0 <= found < count:
        raise bad_data(f"{what} {found}, there are {count}")
    return found


def integer(value: Any, what: str, *, low: int | None = None, high: int | None = None) -> int:
    """An integer, between bounds where they are given.

    Raises:
        Error: BAD_DATA for anything else.
    """
    try:
        found = operator.index(value)
    except TypeError as error:
        raise bad_data(f"{what} is {value!r}, must be an integer") from error
    if (low is not None and found < low) or (high is not None and found > high):
        raise bad_data(f"{what} is {found}, must be {low} to {high}")
    return found


def flag(value: Any, what: str) -> bool:
    """A truth value.

    Raises:
        Error: BAD_DATA for what is neither a bool nor a number.
    """
    if not isinstance(value, bool | int | np.bool_):
        raise bad_data(f"{what} is {value!r}, must be true or false")
    return bool(value)
