"""What describes an operand in a call, and what gives its bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from nnconv.formats.nnapi.check import MOST_BYTES, type_faults
from nnconv.formats.nnapi.types import NUMPY, OperandCode
from nnconv.formats.nnapi.wire import Operand
from nnconv.runtime.core.checks import shown
from nnconv.runtime.nnapi.errors import bad_data, bytes_of, float32, integer, listed

MOST_INDEX = (1 << 32) - 1

DIMENSIONS = "the dimensions"

EXTENSION = 1 << 16
"""Codes from here on belong to extensions."""

Buffer: TypeAlias = Any
"""A numpy array or anything else with the buffer protocol."""


class OperandType:
    """ANeuralNetworksOperandType.

    Attributes:
        type: an ``OperandCode``.
        dimensions: the extents, 0 for one that isn't known; empty for a scalar, and for a tensor
            whose rank isn't known.
        scale, zero_point: how its numbers stand for real ones.
    """

    __slots__ = ("dimensions", "scale", "type", "zero_point")

    def __init__(
        self,
        type: int,
        dimensions: Iterable[int] | None = None,
        scale: float = 0.0,
        zero_point: int = 0,
    ) -> None:
        """Take what describes an operand; ``Model.add_operand`` looks at it.

        Raises:
            Error: BAD_DATA, the dimensions are no list.
        """
        self.type = type
        self.dimensions = () if dimensions is None else listed(dimensions, DIMENSIONS)
        self.scale = scale
        self.zero_point = zero_point

    def __repr__(self) -> str:
        name = self.type.name if isinstance(self.type, OperandCode) else self.type
        return f"OperandType({name}, {self.dimensions}, {self.scale}, {self.zero_point})"


class SymmPerChannelQuantParams:
    """ANeuralNetworksSymmPerChannelQuantParams.

    Attributes:
        channel_dim: the dimension of the channels.
        scales: a scale for each channel.
    """

    __slots__ = ("channel_dim", "scales")

    def __init__(self, channel_dim: int, scales: Iterable[float]) -> None:
        """Take what a model looks at when it gets it.

        Raises:
            Error: UNEXPECTED_NULL or BAD_DATA, the scales are no list.
        """
        self.channel_dim = channel_dim
        self.scales = listed(scales, "the scales")

    def __repr__(self) -> str:
        return f"SymmPerChannelQuantParams({self.channel_dim}, {self.scales})"


def operand_of(type: OperandType) -> Operand:
    """The operand that a type describes.

    Raises:
        Error: BAD_DATA, it breaks a rule of operand types.
    """
    if not isinstance(type, OperandType):
        raise bad_data(f"{shown(type)} is no OperandType")
    code = integer(type.type, "the type")
    if code >= EXTENSION:
        raise bad_data(f"operand type {code} belongs to an extension; there are none")
    dimensions = [
        integer(extent, f"dimension {i}", low=0, high=MOST_INDEX)
        for i, extent in enumerate(listed(type.dimensions, DIMENSIONS))
    ]
    if code not in OperandCode.__members__.values():
        raise bad_data(f"there is no operand type {code}")
    operand = Operand(
        OperandCode(code),
        dimensions,
        scale=float32(type.scale, "the scale"),
        zero_point=integer(type.zero_point, "the zero point"),
    )
    for fault in type_faults(operand):
        raise bad_data(fault)
    return operand


def typed(data: np.ndarray, operand: Operand, dimensions: tuple[int, ...]) -> np.ndarray:
    """Bytes as the elements of an operand; what lies behind the last one is left aside."""
    kind = NUMPY[operand.type]
    size = math.prod(dimensions) * kind.itemsize
    return data[:size].view(kind).reshape(dimensions)


__all__ = [
    "MOST_BYTES", "Buffer", "OperandType", "SymmPerChannelQuantParams", "bytes_of", "float32",
    "operand_of", "typed",
]  # fmt: skip
