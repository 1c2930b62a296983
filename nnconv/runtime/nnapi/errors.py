"""What goes wrong in a call: an exception with the result code that the C function would give."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from nnconv.backends import DeadlineError
from nnconv.errors import NnconvError, on_one_line
from nnconv.formats.nnapi.types import ResultCode
from nnconv.runtime.core.checks import Checks

Self = TypeVar("Self")
Args = ParamSpec("Args")
Result = TypeVar("Result")


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
        super().__init__(f"{code.name}: {on_one_line(message)}")
        self.code = code
        self.rank = rank
        self.dimensions = dimensions


def null(what: str) -> Error:
    """The error for something that must be given."""
    return Error(ResultCode.UNEXPECTED_NULL, f"{what} is None")


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
            raise failure_of(error) from error

    return checked


def failure_of(error: NnconvError | MemoryError) -> Error:
    """What a computation's error is to NNAPI."""
    if isinstance(error, Error):
        return error
    if isinstance(error, MemoryError):
        return Error(ResultCode.OUT_OF_MEMORY, str(error) or "there is no memory left")
    is_late = isinstance(error, DeadlineError)
    code = ResultCode.MISSED_DEADLINE_TRANSIENT if is_late else ResultCode.OP_FAILED
    return Error(code, str(error))


def interrupted() -> Error:
    """The error of a computation that something else has ended."""
    return Error(ResultCode.OP_FAILED, "the computation was interrupted")


_checks = Checks(null, bad_data)
expect = _checks.expect
listed = _checks.listed
index_of = _checks.index_of
integer = _checks.integer
flag = _checks.flag
float32 = _checks.float32
bytes_of = _checks.bytes_of
"""What arguments must be: UNEXPECTED_NULL for what isn't given, BAD_DATA for what is wrong."""
