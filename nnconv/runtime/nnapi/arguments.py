"""What an execution was given for an input or output, and the rules on it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnapi.types import NUMPY, ResultCode
from nnconv.formats.nnapi.wire import Graph, Operand
from nnconv.runtime.nnapi.errors import Error, bad_data, bad_state, index_of, integer
from nnconv.runtime.nnapi.memory import INPUT, OUTPUT, Memory, Role, merged
from nnconv.runtime.nnapi.types import (
    MOST_BYTES,
    Buffer,
    OperandType,
    bytes_of,
    operand_of,
    typed,
)


class Argument(NamedTuple):
    """What an input is read from or an output is written to.

    Attributes:
        operand: the operand of the model.
        dimensions: what model and call together say of them; empty for an unknown rank.
        data: the bytes of a buffer; None for a memory, and for what is left out.
        memory: the memory, if it is one.
        offset, length: the part of it.
    """

    operand: Operand
    dimensions: tuple[int, ...]
    data: np.ndarray | None = None
    memory: Memory | None = None
    offset: int = 0
    length: int = 0

    @property
    def is_omitted(self) -> bool:
        """Whether nothing is given."""
        return self.data is None and self.memory is None

    @property
    def is_known(self) -> bool:
        """Whether every extent is known."""
        return is_known(self.operand, self.dimensions)

    def read(self) -> np.ndarray | None:
        """What an input holds; None if it is left out.

        Raises:
            Error: OP_FAILED for a memory that holds nothing, UNMAPPABLE.
        """
        if self.memory is None:
            return None if self.data is None else typed(self.data, self.operand, self.dimensions)
        data = self.memory.bytes()
        if self.memory.desc is None:
            data = data[self.offset : self.offset + self.length]
        return typed(data, self.operand, self.dimensions)

    def check_content(self) -> None:
        """See that a memory which is to be read holds what is wanted.

        Raises:
            Error: OP_FAILED, it doesn't.
        """
        if self.memory is None:
            return
        if not self.memory.defined:
            raise Error(ResultCode.OP_FAILED, "a memory to be read holds nothing")
        desc = self.memory.desc
        if desc is not None and self.dimensions and desc.dimensions != self.dimensions:
            raise Error(
                ResultCode.OP_FAILED,
                f"a memory has the dimensions {list(desc.dimensions)}, "
                f"wanted are {list(self.dimensions)}",
            )

    def write(self, result: np.ndarray) -> bool:
        """Write an output; False where there is too little room for it.

        Raises:
            Error: OP_FAILED for other dimensions than were asked for, UNMAPPABLE.
        """
        if merged(self.dimensions, result.shape) is None and 0 not in result.shape:
            raise Error(
                ResultCode.OP_FAILED,
                f"an output has the dimensions {list(result.shape)}, "
                f"wanted are {list(self.dimensions)}",
            )
        if self.is_omitted:
            return True
        target = self.data
        if self.memory is not None:
            target = self.memory.bytes(writable=True)
            if self.memory.desc is None:
                target = target[self.offset : self.offset + self.length]
        assert target is not None
        size = result.nbytes
        if len(target) < size:
            return False
        if self.memory is not None:
            self.memory.check_shape(result.shape)
        kind = NUMPY[self.operand.type]
        flat = np.ascontiguousarray(result).reshape(-1)
        target[:size] = (flat if flat.dtype == kind else flat.astype(kind)).view(np.uint8)
        if self.memory is not None:
            self.memory.defined = True
        return True


class Arguments:
    """All that an execution was given.

    Attributes:
        padded: whether buffers may be longer than what they hold.
    """

    def __init__(self, graph: Graph) -> None:
        self._operands = {
            INPUT: [graph.operands[index] for index in graph.inputs],
            OUTPUT: [graph.operands[index] for index in graph.outputs],
        }
        self._given: dict[str, list[Argument | None]] = {
            kind: [None] * len(operands) for kind, operands in self._operands.items()
        }
        self.padded = False

    @property
    def any_set(self) -> bool:
        """Whether any is set."""
        return any(argument is not None for given in self._given.values() for argument in given)

    def lose_outputs(self) -> None:
        """Count what the outputs' memories hold as lost."""
        for argument in self.outputs():
            if argument.memory is not None:
                argument.memory.lose()

    def inputs(self) -> list[Argument]:
        """Those of the inputs that are set."""
        return [argument for argument in self._given[INPUT] if argument is not None]

    def outputs(self) -> list[Argument]:
        """Those of the outputs that are set."""
        return [argument for argument in self._given[OUTPUT] if argument is not None]

    def plain(self) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
        """What inputs and outputs lie in, where all do in buffers of exactly their size."""
        inputs, outputs = self.inputs(), self.outputs()
        found = [
            typed(argument.data, argument.operand, argument.dimensions)
            for argument in (*inputs, *outputs)
            if argument.data is not None and argument.is_known
        ]
        count = len(inputs)
        if len(found) < count + len(outputs):
            return None
        return found[:count], found[count:]

    def check_set(self) -> None:
        """See that all are set.

        Raises:
            Error: BAD_DATA, one isn't.
        """
        for kind, given in self._given.items():
            if None in given:
                raise bad_data(f"{kind} {given.index(None)} isn't set")

    def check_content(self) -> None:
        """See that memories which are to be read hold what is wanted.

        Raises:
            Error: OP_FAILED, one doesn't.
        """
        for argument in self.inputs():
            argument.check_content()

    def set_buffer(
        self,
        kind: str,
        index: int,
        buffer: Buffer | None,
        type: OperandType | None,
        length: int | None,
    ) -> None:
        """Set an argument to a buffer.

        Raises:
            Error: BAD_DATA or BAD_STATE.
        """
        given = self._given[kind]
        place = index_of(index, len(given), kind)
        given[place] = from_buffer(
            self._operands[kind][place],
            buffer,
            type=type,
            length=length,
            before=given[place],
            padded=self.padded,
            is_input=kind is INPUT,
        )

    def set_memory(
        self, role: Role, memory: Memory, offset: int, length: int, type: OperandType | None
    ) -> None:
        """Set the argument of a role to a part of a memory.

        Raises:
            Error: BAD_DATA or BAD_STATE.
        """
        given = self._given[role.kind]
        place = index_of(role.place, len(given), role.kind)
        given[place] = from_memory(
            self._operands[role.kind][place],
            memory,
            offset,
            length,
            type=type,
            role=role._replace(place=place),
            before=given[place],
            padded=self.padded,
        )


def is_known(operand: Operand, dimensions: tuple[int, ...]) -> bool:
    """Whether an operand of these dimensions has every extent known."""
    return operand.is_scalar or (bool(dimensions) and 0 not in dimensions)


def size_of(operand: Operand, dimensions: tuple[int, ...]) -> int:
    """How many bytes an operand of these dimensions takes."""
    return math.prod(dimensions) * NUMPY[operand.type].itemsize


def dimensions_of(operand: Operand, type: OperandType | None, *, partly: bool) -> tuple[int, ...]:
    """What model and call say of an argument's dimensions.

    Args:
        operand: the operand of the model.
        type: what the call says; None where it leaves that to the model.
        partly: whether they may stay unknown.

    Raises:
        Error: BAD_DATA, they contradict each other or aren't known.
    """
    dimensions = operand.dimensions
    if type is not None:
        given = operand_of(type)
        if given.is_scalar is not operand.is_scalar:
            raise bad_data(f"the type is {given.type.name}, the model has {operand.type.name}")
        if dimensions and len(given.dimensions) != len(dimensions):
            raise bad_data(
                f"the type has {plural(len(given.dimensions), 'dimension')}, the model "
                f"{len(dimensions)}"
            )
        for stated, wanted in zip(dimensions, given.dimensions, strict=False):
            if stated and stated != wanted:
                raise bad_data(
                    f"the type has the dimensions {list(given.dimensions)}, "
                    f"the model {list(dimensions)}: only what isn't known can be chosen"
                )
        dimensions = given.dimensions
    if not partly and not is_known(operand, dimensions):
        raise bad_data(f"the dimensions {list(dimensions)} aren't all known")
    return dimensions


def from_buffer(
    operand: Operand,
    buffer: Buffer | None,
    *,
    type: OperandType | None,
    length: int | None,
    before: Argument | None,
    padded: bool,
    is_input: bool,
) -> Argument:
    """The argument that a buffer is; None leaves it out.

    Raises:
        Error: BAD_DATA or BAD_STATE.
    """
    partly = not is_input or buffer is None
    dimensions = dimensions_of(operand, type, partly=partly)
    data = None if buffer is None else bytes_of(buffer, "the buffer", writable=not is_input)
    size = length if length is not None else 0 if data is None else len(data)
    size = integer(size, "the length", low=0)
    if size > MOST_BYTES:
        raise bad_data(f"{plural(size, 'byte')}, at most {MOST_BYTES} are possible")
    _demand_unset(before)
    if data is None:
        return Argument(operand, dimensions)
    if not size:
        raise bad_data("the buffer's length is 0")
    if size > len(data):
        raise bad_data(f"the length is {size}, the buffer has {plural(len(data), 'byte')}")
    _check_size(operand, dimensions, size, padded=padded)
    return Argument(operand, dimensions, data[:size])


def from_memory(
    operand: Operand,
    memory: Memory,
    offset: Any,
    length: Any,
    *,
    type: OperandType | None,
    role: Role,
    before: Argument | None,
    padded: bool,
) -> Argument:
    """The argument that a part of a memory is.

    Raises:
        Error: BAD_DATA or BAD_STATE.
    """
    is_input = role.kind is INPUT
    partly = not is_input or memory.desc is not None
    dimensions = dimensions_of(operand, type, partly=partly)
    start, size = memory.check_range(offset, length)
    memory.check_role(role, start, size, dimensions)
    _demand_unset(before)
    if memory.desc is not None:
        known = merged(memory.desc.dimensions, dimensions) or () if is_input else dimensions
        return Argument(operand, known, memory=memory)
    _check_size(operand, dimensions, size, padded=padded)
    return Argument(operand, dimensions, memory=memory, offset=start, length=size)


def _demand_unset(before: Argument | None) -> None:
    if before is not None:
        raise bad_state("it is set already")


def _check_size(operand: Operand, dimensions: tuple[int, ...], size: int, *, padded: bool) -> None:
    if not is_known(operand, dimensions):
        return
    wanted = size_of(operand, dimensions)
    if size < wanted:
        raise bad_data(f"{plural(size, 'byte')}, {list(dimensions)} take {wanted}")
    if size > wanted and not padded:
        raise bad_data(
            f"{plural(size, 'byte')}, {list(dimensions)} take {wanted}; padding isn't enabled"
        )
