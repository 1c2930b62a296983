"""The inputs or outputs of an executor: what they are, and what they are set to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnrt import wire
from nnconv.formats.nnrt.types import V1, Format
from nnconv.runtime.nnrt.desc import TensorDesc
from nnconv.runtime.nnrt.device import RANGES, Device
from nnconv.runtime.nnrt.errors import index_of, integer, invalid
from nnconv.runtime.nnrt.tensor import MOST_BYTES, Memory


class Slot(NamedTuple):
    """What an input is read from or an output is written to.

    Attributes:
        data: the bytes.
        shape: of an input; empty for an output.
        memory: whose bytes they are, if they are a memory's.
    """

    data: np.ndarray
    shape: tuple[int, ...] = ()
    memory: Memory | None = None


class Ends:
    """All inputs or all outputs.

    Attributes:
        kind: what messages call one of them.
        tensors: those of the model.
    """

    def __init__(self, kind: str, tensors: list[wire.Tensor], device: Device) -> None:
        self.kind = kind
        self.tensors = tensors
        self._device = device
        self._slots: list[Slot | None] = [None] * len(tensors)
        self._memories: list[list[Memory]] = [[] for _ in tensors]

    def __len__(self) -> int:
        return len(self.tensors)

    def place(self, index: Any) -> int:
        """An index of one.

        Raises:
            Error: INVALID_PARAMETER, it is none.
        """
        return index_of(index, len(self.tensors), self.kind)

    def description(self, index: Any) -> TensorDesc:
        """What one is, as a new object.

        Raises:
            Error: INVALID_PARAMETER.
        """
        tensor = self.tensors[self.place(index)]
        made = TensorDesc()
        made.name, made.data_type = tensor.name, tensor.data_type
        made.shape, made.format = tensor.dimensions, Format.NHWC
        return made

    # ---------------------------------------------------------------- what fits

    def dim_range(self, index: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The least and the greatest extents that the device takes.

        Raises:
            Error: INVALID_PARAMETER.
        """
        tensor = self.tensors[self.place(index)]
        low, high = self._device.dim_range(tensor.dimensions)
        if len(low) != len(high):
            raise invalid(
                f"{self._device.name} tells {len(low)} least and {plural(len(high), 'extent')}"
            )
        return low, high

    @property
    def tells_ranges(self) -> bool:
        """Whether the device tells which extents it takes."""
        return RANGES not in self._device.lacks

    def check_range(self, index: Any, dimensions: tuple[int, ...]) -> None:
        """See that the extents are among those that the device takes, if it tells them.

        Raises:
            Error: INVALID_PARAMETER.
        """
        if not self.tells_ranges:
            return
        low, high = self.dim_range(index)
        fits = len(dimensions) == len(low) and all(
            least <= extent <= most
            for extent, least, most in zip(dimensions, low, high, strict=True)
        )
        if not fits:
            raise invalid(
                f"{self.kind} {index} has the dimensions {list(dimensions)}, "
                f"the device takes {list(low)} to {list(high)}"
            )

    def check_input(self, index: Any, described: wire.Tensor) -> None:
        """See that a description fits an input.

        Raises:
            Error: INVALID_PARAMETER.
        """
        self.check_range(index, described.dimensions)
        wanted = self.tensors[self.place(index)]
        if not described.is_known:
            raise invalid(f"the dimensions {list(described.dimensions)} aren't all known")
        fits = (
            described.data_type is wanted.data_type
            and described.type is wanted.type
            and described.rank == wanted.rank
            and all(
                want in (-1, have)
                for want, have in zip(wanted.dimensions, described.dimensions, strict=True)
            )
        )
        if not fits:
            raise invalid(f"input {index} is {wanted!r}, not {described!r}")

    def check_output(self, index: Any, length: int, api: int) -> None:
        """See that an output has room in so many bytes.

        Raises:
            Error: INVALID_PARAMETER.
        """
        declared = self.tensors[self.place(index)]
        if not declared.dimensions and api != V1:
            raise invalid(f"output {index} is a scalar: give it the dimensions [1] in the model")
        if length < declared.nbytes:
            raise invalid(
                f"{plural(length, 'byte')}, {list(declared.dimensions)} take {declared.nbytes}"
            )

    # ---------------------------------------------------------------- what is set

    def set(self, index: int, slot: Slot) -> bool:
        """Set one; gives whether that is a change."""
        before = self._slots[index]
        self._slots[index] = slot
        return (
            before is None
            or before.shape != slot.shape
            or before.memory is not slot.memory
            or before.data.ctypes.data != slot.data.ctypes.data
            or before.data.size != slot.data.size
        )

    def refill(self, index: int, shape: tuple[int, ...], data: np.ndarray) -> bool:
        """Copy an input to where the last one of its shape was copied, if one was."""
        before = self._slots[index]
        if before is None or before.memory is not None or before.shape != shape:
            return False
        before.data[:] = data
        return True

    def all_set(self) -> list[Slot]:
        """What they are set to.

        Raises:
            Error: INVALID_PARAMETER, one isn't set, or its memory is destroyed.
        """
        found = []
        for place, slot in enumerate(self._slots):
            if slot is None:
                raise invalid(f"{self.kind} {place} isn't set")
            if slot.memory is not None and slot.memory.destroyed:
                raise invalid(f"the memory of {self.kind} {place} is destroyed")
            found.append(slot)
        return found

    # ---------------------------------------------------------------- memories

    def allocate(self, index: Any, length: Any) -> Memory:
        """Make a memory for one.

        Raises:
            Error: INVALID_PARAMETER.
        """
        size = integer(length, "the length", low=1, high=MOST_BYTES)
        place = self.place(index)
        made = Memory(size)
        self._memories[place].append(made)
        return made

    def release(self, index: Any, memory: Memory) -> None:
        """End a memory that was made for this one; nothing happens to any other."""
        place = integer(index, "the index")
        if not 0 <= place < len(self._memories):
            return
        known = self._memories[place]
        if any(memory is each for each in known):
            self._memories[place] = [each for each in known if each is not memory]
            memory.destroyed = True
