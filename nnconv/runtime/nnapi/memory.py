"""ANeuralNetworksMemory and ANeuralNetworksMemoryDesc."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnapi.types import NUMPY, ResultCode
from nnconv.formats.nnapi.wire import Operand
from nnconv.runtime.core.memory import FileDescriptorError, FileRegion, MapError, Region
from nnconv.runtime.nnapi.errors import (
    Error,
    bad_data,
    bad_state,
    call,
    expect,
    index_of,
    integer,
    listed,
)
from nnconv.runtime.nnapi.types import MOST_INDEX, float32

if TYPE_CHECKING:
    from nnconv.runtime.nnapi.compilation import Compilation

INPUT, OUTPUT = "input", "output"


class Role(NamedTuple):
    """A use of a memory: an input or output of a compilation."""

    compilation: Compilation
    kind: str
    place: int


def merged(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...] | None:
    """What two lists of dimensions say together; None where they contradict each other."""
    if not first or not second:
        return first or second
    if len(first) != len(second):
        return None
    if any(a and b and a != b for a, b in zip(first, second, strict=True)):
        return None
    return tuple(a or b for a, b in zip(first, second, strict=True))


class MemoryDesc:
    """What a memory will be used for, so that it can be made to suit."""

    def __init__(self) -> None:
        self.roles: list[Role] = []
        self.operand: Operand | None = None
        self.dimensions: tuple[int, ...] = ()
        self.finished = False

    @classmethod
    def create(cls) -> MemoryDesc:
        """The same as the constructor."""
        return cls()

    def free(self: MemoryDesc | None) -> None:
        """Do nothing: a descriptor goes when nothing refers to it any more."""

    @call
    def add_input_role(self, compilation: Compilation, index: int, frequency: float) -> None:
        """Say that the memory will be an input of a compilation's executions.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        self._add(compilation, INPUT, index, frequency)

    @call
    def add_output_role(self, compilation: Compilation, index: int, frequency: float) -> None:
        """Say that the memory will be an output of a compilation's executions.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        self._add(compilation, OUTPUT, index, frequency)

    def _add(self, compilation: Compilation, kind: str, index: int, freq: float) -> None:
        from nnconv.runtime.nnapi.compilation import Compilation

        expect(compilation, Compilation, "compilation")
        self._demand_open()
        role = Role(compilation, kind, integer(index, "the index"))
        if role in self.roles:
            raise bad_data(f"{kind} {index} of this compilation is a role already")
        if not compilation.is_usable:
            raise bad_data("the compilation isn't finished")
        graph = compilation.model.graph
        ends = graph.inputs if kind is INPUT else graph.outputs
        operand = graph.operands[ends[index_of(index, len(ends), kind)]]
        if self.operand is not None and not _same_kind(self.operand, operand):
            raise bad_data(f"{kind} {index} is {operand!r}, an earlier role {self.operand!r}")
        if operand.is_scalar and self.dimensions:
            raise bad_data(f"{kind} {index} is a scalar, the dimensions are {self.dimensions}")
        dimensions = merged(self.dimensions, operand.dimensions)
        if dimensions is None:
            raise bad_data(
                f"{kind} {index} has the dimensions {list(operand.dimensions)}, "
                f"those so far are {list(self.dimensions)}"
            )
        if not 0 < float32(freq, "the frequency") <= 1:
            raise bad_data(f"frequency {freq}, must be above 0 and at most 1")
        self.roles.append(role)
        self.operand = operand
        self.dimensions = dimensions

    @call
    def set_dimensions(self, dimensions: Iterable[int]) -> None:
        """Say what the roles leave open of the dimensions; 0 leaves one open.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        wanted = listed(dimensions, "dimensions")
        self._demand_open()
        given = tuple(
            integer(extent, f"dimension {i}", low=0, high=MOST_INDEX)
            for i, extent in enumerate(wanted)
        )
        if self.operand is not None and self.operand.is_scalar and given:
            raise bad_data(f"the dimensions are {list(given)}, a role is a scalar")
        found = merged(self.dimensions, given)
        if found is None:
            raise bad_data(
                f"the dimensions are {list(given)}, those so far {list(self.dimensions)}"
            )
        self.dimensions = found

    @call
    def finish(self) -> None:
        """End the description.

        Raises:
            Error: BAD_STATE or BAD_DATA.
        """
        self._demand_open()
        if not self.roles:
            raise bad_data("a descriptor needs at least one role")
        self.finished = True

    def _demand_open(self) -> None:
        if self.finished:
            raise bad_state("the descriptor is finished")


def _same_kind(first: Operand, second: Operand) -> bool:
    return (
        first.type is second.type
        and first.scale == second.scale
        and first.zero_point == second.zero_point
        and first.channel_quant == second.channel_quant
    )


class Memory:
    """Bytes that models and executions share with the program.

    Attributes:
        desc: what it was made from; None for a memory without roles.
        defined: whether it holds anything.
    """

    def __init__(self, region: Region, desc: MemoryDesc | None = None) -> None:
        """Take bytes; programs call one of the ``create`` methods instead."""
        self.region = region
        self.desc = desc
        self.defined = desc is None

    @classmethod
    def create_from_fd(cls, size: int, protect: int, fd: int, offset: int = 0) -> Memory:
        """Take a part of an open file.

        Args:
            size: how many bytes.
            protect: PROT_READ (1) and PROT_WRITE (2), added.
            fd: the file descriptor.
            offset: of the first byte; a multiple of ``mmap.ALLOCATIONGRANULARITY``.

        Raises:
            Error: OP_FAILED, there is no such descriptor. All else shows when the memory is used.
        """
        count = integer(size, "the size")
        descriptor = integer(fd, "the descriptor")
        try:
            region = FileRegion(
                count, integer(protect, "the protection"), descriptor, integer(offset, "the offset")
            )
        except FileDescriptorError as error:
            raise Error(ResultCode.OP_FAILED, str(error)) from error
        return cls(region)

    @classmethod
    def create_from_desc(cls, desc: MemoryDesc) -> Memory:
        """Make a memory for the roles of a descriptor; it holds nothing yet.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE, or OP_FAILED where the size isn't known.
        """
        expect(desc, MemoryDesc, "desc")
        if not desc.finished or desc.operand is None:
            raise bad_state("the descriptor isn't finished")
        operand = desc.operand
        if not operand.is_scalar and (not desc.dimensions or 0 in desc.dimensions):
            raise Error(
                ResultCode.OP_FAILED,
                f"the dimensions {list(desc.dimensions)} aren't all known",
            )
        size = math.prod(desc.dimensions) * NUMPY[operand.type].itemsize
        try:
            return cls(Region(size), desc)
        except MemoryError as error:
            raise Error(ResultCode.OP_FAILED, f"{plural(size, 'byte')} can't be had") from error

    @classmethod
    def create_from_a_hardware_buffer(cls, ahwb: Any) -> Memory:
        """Refuse: hardware buffers are Android's.

        Raises:
            Error: UNEXPECTED_NULL or OP_FAILED.
        """
        expect(ahwb, object, "ahwb")
        raise Error(ResultCode.OP_FAILED, "there are no hardware buffers but on Android")

    def free(self: Memory | None) -> None:
        """Do nothing: a memory goes when nothing refers to it any more."""

    @call
    def copy(self, dst: Memory) -> None:
        """Copy the content into another memory, which holds nothing if that fails.

        Raises:
            Error: UNEXPECTED_NULL, BAD_DATA or UNMAPPABLE.
        """
        expect(dst, Memory, "dst")
        if dst is self:
            return
        try:
            self._copy(dst)
        except Error:
            dst.lose()
            raise
        dst.defined = True

    def _copy(self, dst: Memory) -> None:
        if not self.defined:
            raise bad_data("the source holds nothing")
        first, second = self.desc, dst.desc
        if first is not None and second is not None:
            assert first.operand is not None
            assert second.operand is not None
            fits = first.dimensions == second.dimensions and _same_kind(
                first.operand, second.operand
            )
            if not fits:
                raise bad_data("the memories are of different types")
        if self.region.size != dst.region.size:
            raise bad_data(f"{plural(self.region.size, 'byte')} into {dst.region.size}")
        target = dst.bytes(writable=True)
        target[:] = self.bytes()

    # ---------------------------------------------------------------- for the runtime

    def lose(self) -> None:
        """Count the content of a memory made from a descriptor as lost."""
        self.defined = self.desc is None

    def bytes(self, *, writable: bool = False) -> np.ndarray:
        """The bytes themselves.

        Raises:
            Error: UNMAPPABLE.
        """
        try:
            return self.region.view(writable=writable)
        except MapError as error:
            raise Error(ResultCode.UNMAPPABLE, str(error)) from error

    def check_range(self, offset: Any, length: Any) -> tuple[int, int]:
        """A part of the memory: offset and length.

        Raises:
            Error: BAD_DATA, it isn't there.
        """
        start = integer(offset, "the offset", low=0)
        count = integer(length, "the length", low=0)
        if start + count > self.region.size:
            raise bad_data(f"{plural(count, 'byte')} from {start} on, there are {self.region.size}")
        if self.desc is None and not start and not count:
            raise bad_data("offset and length are both 0")
        return start, count

    def check_role(self, role: Role, offset: int, length: int, dimensions: tuple[int, ...]) -> None:
        """See that a memory made from a descriptor is used as that says.

        Raises:
            Error: BAD_DATA, it isn't.
        """
        if self.desc is None:
            return
        if offset or length:
            raise bad_data(
                f"offset {offset} and length {length}, must be 0 for a memory from a descriptor"
            )
        if role not in self.desc.roles:
            raise bad_data(f"the memory isn't meant for {role.kind} {role.place}")
        if merged(self.desc.dimensions, dimensions) is None:
            raise bad_data(
                f"the memory has the dimensions {list(self.desc.dimensions)}, "
                f"not {list(dimensions)}"
            )

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """See that an output is what a memory made from a descriptor is for.

        Raises:
            Error: OP_FAILED, it has other dimensions.
        """
        if self.desc is not None and shape != self.desc.dimensions:
            raise Error(
                ResultCode.OP_FAILED,
                f"an output has the dimensions {list(shape)}, "
                f"its memory {list(self.desc.dimensions)}",
            )
