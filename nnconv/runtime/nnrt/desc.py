"""NN_TensorDesc: what a tensor is, apart from its content."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nnconv.errors import plural
from nnconv.formats.nnrt.types import NUMPY, DataType, Format, ReturnCode
from nnconv.runtime.core.checks import shown
from nnconv.runtime.nnrt.errors import Error, Handle, call, integer, invalid, listed, null, pointer
from nnconv.runtime.nnrt.quant import MOST_INT32

MOST_DIMS = 10
"""How many dimensions a description may have."""

MOST_SIZE = (1 << 64) - 1


class TensorDesc(Handle):
    """Name, element type, shape and format of a tensor.

    Attributes:
        name: for people.
        data_type: of the elements.
        shape: the extents, -1 for one that isn't known; empty where none was set.
        format: of the dimensions.
    """

    def __init__(self) -> None:
        self.name = ""
        self.data_type: DataType = DataType.UNKNOWN
        self.shape: tuple[int, ...] = ()
        self.format: Format = Format.NONE

    @classmethod
    @pointer
    def create(cls) -> TensorDesc:
        """The same as the constructor.

        Raises:
            Error: NULL_PTR, there is no memory left.
        """
        return cls()

    @call
    def destroy(self) -> None:
        """End it.

        Raises:
            Error: INVALID_PARAMETER.
        """
        self.destroyed = True

    @call
    def set_name(self, name: str) -> None:
        """Name the tensor.

        Raises:
            Error: INVALID_PARAMETER.
        """
        if name is None:
            raise null("name")
        if not isinstance(name, str):
            raise invalid(f"name is {shown(name)}, must be a text")
        self.name = name

    @call
    def get_name(self) -> str:
        """The name.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self.name

    @call
    def set_data_type(self, data_type: int) -> None:
        """Say what the elements are.

        Raises:
            Error: INVALID_PARAMETER.
        """
        self.data_type = data_type_of(data_type)

    @call
    def get_data_type(self) -> DataType:
        """What the elements are.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self.data_type

    @call
    def set_shape(self, shape: Iterable[int]) -> None:
        """Give the extents, -1 for one that isn't known.

        Raises:
            Error: INVALID_PARAMETER: there are none or more than 10.
        """
        extents = extents_of(shape, "shape")
        if not 1 <= len(extents) <= MOST_DIMS:
            raise invalid(f"{plural(len(extents), 'dimension')}, must be 1 to {MOST_DIMS}")
        self.shape = extents

    @call
    def get_shape(self) -> tuple[int, ...]:
        """The extents; empty where none were set.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self.shape

    @call
    def set_format(self, format: int) -> None:
        """Say in which order the dimensions are. Models leave it aside: they are NHWC.

        Raises:
            Error: INVALID_PARAMETER.
        """
        code = integer(format, "the format")
        if code not in Format.__members__.values():
            raise invalid(f"there is no format {code}")
        self.format = Format(code)

    @call
    def get_format(self) -> Format:
        """In which order the dimensions are.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self.format

    @call
    def get_element_count(self) -> int:
        """How many elements there are.

        Raises:
            Error: DYNAMIC_SHAPE where an extent isn't known; INVALID_PARAMETER.
        """
        self._demand_shape()
        if self.is_dynamic:
            text = f"the shape {list(self.shape)} isn't known"
            raise Error(ReturnCode.DYNAMIC_SHAPE, text)
        return self._sized(math.prod(self.shape))

    @call
    def get_byte_size(self) -> int:
        """How many bytes the elements take; 0 where an extent isn't known.

        Raises:
            Error: INVALID_PARAMETER.
        """
        self._demand_shape()
        if self.is_dynamic:
            return 0
        if self.data_type is DataType.UNKNOWN:
            raise invalid("the data type isn't known")
        return self._sized(math.prod(self.shape) * NUMPY[self.data_type].itemsize)

    # ---------------------------------------------------------------- for the runtime

    @property
    def is_dynamic(self) -> bool:
        """Whether an extent isn't known."""
        return any(extent <= 0 for extent in self.shape)

    def copy(self) -> TensorDesc:
        """Another one that says the same."""
        made = type(self)()
        made.name, made.data_type = self.name, self.data_type
        made.shape, made.format = self.shape, self.format
        return made

    def _demand_shape(self) -> None:
        if not self.shape:
            raise invalid("the shape isn't set")

    def _sized(self, size: int) -> int:
        if size > MOST_SIZE:
            raise invalid(f"the shape {list(self.shape)} is too large")
        return size

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"<TensorDesc{name} {self.data_type.name} {list(self.shape)}>"


def data_type_of(value: Any) -> DataType:
    """An element type.

    Raises:
        Error: INVALID_PARAMETER, it is none.
    """
    code = integer(value, "the data type")
    if code not in DataType.__members__.values():
        raise invalid(f"there is no data type {code}")
    return DataType(code)


def extents_of(values: Any, what: str) -> tuple[int, ...]:
    """Extents, each of which fits into 32 bits.

    Raises:
        Error: INVALID_PARAMETER, they are something else.
    """
    return tuple(
        integer(extent, f"{what} {i}", low=-MOST_INT32 - 1, high=MOST_INT32)
        for i, extent in enumerate(listed(values, what))
    )
