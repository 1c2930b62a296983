"""OH_NN_QuantParam and NN_QuantParam: how a tensor's integers stand for real numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnconv.runtime.nnrt.errors import Handle, call, integer, invalid, listed, null, number, pointer

MOST_BITS = (1 << 32) - 1
MOST_INT32 = (1 << 31) - 1


class QuantParam(Handle):
    """The scale, zero point and number of bits of a tensor, or of each of its channels.

    It serves ``Model.add_tensor`` as the struct OH_NN_QuantParam, whose pointers may be null, and
    ``Model.set_tensor_quant_params`` as NN_QuantParam.

    Attributes:
        scale, zero_point, num_bits: one entry for the whole tensor or one per channel; None where
            none are given.
    """

    def __init__(
        self,
        scale: float | Iterable[float] | None = None,
        zero_point: int | Iterable[int] | None = None,
        num_bits: int | Iterable[int] | None = None,
    ) -> None:
        """Take numbers or lists of numbers.

        Raises:
            Error: INVALID_PARAMETER, they are something else.
        """
        self.scale = _numbers(scale, _scale, "scale")
        self.zero_point = _numbers(zero_point, _zero_point, "zero_point")
        self.num_bits = _numbers(num_bits, _bits, "num_bits")

    @classmethod
    @pointer
    def create(cls) -> QuantParam:
        """An object without any entries.

        Raises:
            Error: NULL_PTR, there is no memory left.
        """
        return cls()

    @call
    def destroy(self) -> None:
        """End it; tensors that were given it keep what it says.

        Raises:
            Error: INVALID_PARAMETER.
        """
        self.destroyed = True

    @call
    def set_scales(self, scales: Iterable[float]) -> None:
        """Take the scales; they are looked at when a tensor gets them.

        Raises:
            Error: INVALID_PARAMETER, there are none.
        """
        self.scale = _given(scales, _scale, "scales")

    @call
    def set_zero_points(self, zero_points: Iterable[int]) -> None:
        """Take the zero points; they are looked at when a tensor gets them.

        Raises:
            Error: INVALID_PARAMETER, there are none.
        """
        self.zero_point = _given(zero_points, _zero_point, "zero_points")

    @call
    def set_num_bits(self, num_bits: Iterable[int]) -> None:
        """Take the numbers of bits; they are looked at when a tensor gets them.

        Raises:
            Error: INVALID_PARAMETER, there are none.
        """
        self.num_bits = _given(num_bits, _bits, "num_bits")

    def __repr__(self) -> str:
        return f"QuantParam({self.scale}, {self.zero_point}, {self.num_bits})"


def _scale(value: Any) -> float:
    return number(value, "a scale")


def _zero_point(value: Any) -> int:
    return integer(value, "a zero point", low=-MOST_INT32 - 1, high=MOST_INT32)


def _bits(value: Any) -> int:
    return integer(value, "num_bits", low=0, high=MOST_BITS)


def _numbers(values: Any, read: Any, what: str) -> Any:
    if values is None:
        return None
    if hasattr(values, "__iter__"):
        return tuple(read(value) for value in listed(values, what))
    return (read(values),)


def _given(values: Any, read: Any, what: str) -> Any:
    if values is None:
        raise null(what)
    found = _numbers(values, read, what)
    if not found:
        raise invalid(f"{what} has no entries")
    return found
