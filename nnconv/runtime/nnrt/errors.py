"""What goes wrong in a call: an exception with the return code that the C function would give."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from nnconv.errors import NnconvError, on_one_line
from nnconv.formats.nnrt.types import V1, ReturnCode
from nnconv.runtime.core.checks import Checks

Self = TypeVar("Self")
Args = ParamSpec("Args")
Result = TypeVar("Result")


class Error(NnconvError):
    """A call failed.

    Attributes:
        code: the return code of the C function; NULL_PTR where that gives a null pointer.
    """

    def __init__(self, code: ReturnCode, message: str) -> None:
        super().__init__(f"{code.name}: {on_one_line(message)}")
        self.code = code


def invalid(message: str) -> Error:
    """The error for an argument that breaks a rule."""
    return Error(ReturnCode.INVALID_PARAMETER, message)


def forbidden(message: str) -> Error:
    """The error for a call at the wrong time."""
    return Error(ReturnCode.OPERATION_FORBIDDEN, message)


def failed(message: str) -> Error:
    """The error for what didn't work."""
    return Error(ReturnCode.FAILED, message)


def unavailable(message: str, api: int) -> Error:
    """The error for a device that fails: API v1 has a code of its own."""
    code = ReturnCode.UNAVALIDABLE_DEVICE if api == V1 else ReturnCode.UNAVAILABLE_DEVICE
    return Error(code, message)


def null(what: str) -> Error:
    """The error for something that must be given."""
    return invalid(f"{what} is None")


class Handle:
    """What C programs have by a pointer, which becomes null when they destroy it.

    Attributes:
        destroyed: whether that has happened; every call on the object then fails.
    """

    destroyed = False


def call(
    method: Callable[Concatenate[Self, Args], Result],
) -> Callable[Concatenate[Self, Args], Result]:
    """Have a method refuse None and what is destroyed, and tell of memory that can't be had."""

    @wraps(method)
    def checked(self: Self, /, *args: Args.args, **options: Args.kwargs) -> Result:
        if self is None:
            raise null(method.__qualname__.partition(".")[0])
        if isinstance(self, Handle) and self.destroyed:
            raise invalid(f"the {type(self).__name__} is destroyed")
        try:
            return method(self, *args, **options)
        except MemoryError as error:
            text = str(error) or "there is no memory left"
            raise Error(ReturnCode.MEMORY_ERROR, text) from error

    return checked


def pointer(
    method: Callable[Concatenate[Self, Args], Result],
) -> Callable[Concatenate[Self, Args], Result]:
    """Have a method that gives a pointer in C fail with NULL_PTR, whatever the cause."""
    inner = call(method)

    @wraps(method)
    def checked(self: Self, /, *args: Args.args, **options: Args.kwargs) -> Result:
        try:
            return inner(self, *args, **options)
        except Error as error:
            raise Error(ReturnCode.NULL_PTR, error.message) from error

    return checked


def existing(value: object, kind: type[Handle], what: str) -> None:
    """See that an argument is an object of a class that isn't destroyed.

    Raises:
        Error: INVALID_PARAMETER.
    """
    expect(value, kind, what)
    assert isinstance(value, Handle)
    if value.destroyed:
        raise invalid(f"{what} is destroyed")


_checks = Checks(null, invalid)
expect = _checks.expect
listed = _checks.listed
index_of = _checks.index_of
integer = _checks.integer
flag = _checks.flag
number = _checks.number
bytes_of = _checks.bytes_of
"""What arguments must be: INVALID_PARAMETER for what isn't given, and for what is wrong."""
