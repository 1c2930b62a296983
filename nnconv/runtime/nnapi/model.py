"""ANeuralNetworksModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnconv.errors import InvalidModelError, plural
from nnconv.formats.nnapi import check
from nnconv.formats.nnapi.types import (
    MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES,
    NEWEST_LEVEL,
    PER_CHANNEL,
    OperandCode,
    OperationCode,
)
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Operand, Operation
from nnconv.formats.nnapi.wire import Model as WireModel
from nnconv.runtime.core.support import supported
from nnconv.runtime.nnapi.device import Device
from nnconv.runtime.nnapi.errors import (
    Error,
    bad_data,
    bad_state,
    call,
    expect,
    flag,
    index_of,
    integer,
    listed,
    null,
)
from nnconv.runtime.nnapi.source import ModelSource
from nnconv.runtime.nnapi.types import (
    MOST_BYTES,
    Buffer,
    OperandType,
    SymmPerChannelQuantParams,
    bytes_of,
    float32,
    operand_of,
    typed,
)

if TYPE_CHECKING:
    from nnconv.ir.graph import Model as IrModel
    from nnconv.runtime.nnapi.memory import Memory

MOST_OPERANDS = MOST_OPERATIONS = 0xFFFFFFFE
"""How many of them a model may have."""


class Model:
    """A model that is built by calls, and can't be changed once it is finished.

    Attributes:
        graph: its operands and operations.
        wire: the graph, with those of the models that it uses.
        finished: whether ``finish`` was called and found no fault.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self.wire = WireModel(self.graph)
        self.finished = False
        self._failed = False
        self._bodies: dict[int, int] = {}
        self._kept: list[Model] = []
        self._in_memory: dict[int, tuple[Memory, int]] = {}
        self._fingerprint = b""

    @classmethod
    @call
    def create(cls) -> Model:
        """The same as the constructor.

        Raises:
            Error: OUT_OF_MEMORY.
        """
        return cls()

    def free(self: Model | None) -> None:
        """Do nothing: a model goes when nothing refers to it any more."""

    def _demand_open(self) -> None:
        if self.finished:
            raise bad_state("the model is finished")
        if self._failed:
            raise bad_state("finishing the model has failed")

    # ---------------------------------------------------------------- operands

    @call
    def add_operand(self, type: OperandType) -> int:
        """Add an operand; gives its index.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE, or BAD_DATA for a type that breaks a rule.
        """
        expect(type, OperandType, "type")
        self._demand_open()
        operand = operand_of(type)
        if len(self.graph.operands) >= MOST_OPERANDS:
            raise bad_data(f"a model can't have more than {MOST_OPERANDS} operands")
        self.graph.operands.append(operand)
        return len(self.graph.operands) - 1

    def _operand(self, index: int) -> tuple[int, Operand]:
        """An index as an int, and its operand."""
        place = index_of(index, len(self.graph.operands), "operand")
        return place, self.graph.operands[place]

    @call
    def set_operand_value(
        self, index: int, buffer: Buffer | None, *, length: int | None = None
    ) -> None:
        """Give an operand a constant value, or None for an optional one that is left out.

        Values of up to 128 bytes are copied, of longer ones the buffer is used: it must not change
        any more. ``length`` is the buffer's unless it is given.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        if buffer is None and length:
            raise null("buffer")
        self._demand_open()
        index, operand = self._operand(index)
        if buffer is None:
            self._set(index, operand, Lifetime.NO_VALUE, None)
            return
        data = bytes_of(buffer, "the buffer")
        size = len(data) if length is None else integer(length, "the length", low=0)
        if not size:
            raise bad_data("the buffer's length is 0")
        _demand_known(operand)
        if size > MOST_BYTES:
            raise bad_data(f"{plural(size, 'byte')}, at most {MOST_BYTES} are possible")
        if size != operand.nbytes or size > len(data):
            raise bad_data(
                f"{plural(size, 'byte')} for operand {index}, which takes {operand.nbytes}"
            )
        if size <= MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES:
            data = data.copy()
        value = typed(data, operand, operand.dimensions)
        self._set(index, operand, Lifetime.CONSTANT, value)

    @call
    def set_operand_value_from_memory(
        self, index: int, memory: Memory, offset: int, length: int
    ) -> None:
        """Give an operand the content of a part of a memory, which must not change any more.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        from nnconv.runtime.nnapi.memory import Memory

        expect(memory, Memory, "memory")
        self._demand_open()
        index, operand = self._operand(index)
        _demand_known(operand)
        size = integer(length, "the length")
        if size != operand.nbytes:
            raise bad_data(
                f"{plural(size, 'byte')} for operand {index}, which takes {operand.nbytes}"
            )
        start, _ = memory.check_range(offset, length)
        if memory.desc is not None:
            raise bad_data("a memory from a descriptor can't give an operand's value")
        self._set(index, operand, Lifetime.CONSTANT, None)
        self._in_memory[index] = (memory, start)
        try:
            self._map(index)
        except Error:
            return  # that is for ``finish`` to tell

    def _map(self, index: int) -> None:
        memory, start = self._in_memory[index]
        operand = self.graph.operands[index]
        data = memory.bytes()[start : start + operand.nbytes]
        operand.value = typed(data, operand, operand.dimensions)

    @call
    def set_operand_value_from_model(self, index: int, value: Model) -> None:
        """Give an operand of IF or WHILE a model to run.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        expect(value, Model, "value")
        self._demand_open()
        if not value.finished:
            raise bad_state("the model that is the value isn't finished")
        index, operand = self._operand(index)
        self._set(index, operand, Lifetime.MODEL, self._referenced(value))

    def _referenced(self, value: Model) -> int:
        """The index of another model's graph among those that this one refers to.

        Those that the other one refers to come before it; each model is there once.
        """
        known = self._bodies.get(id(value))
        if known is not None:
            return known
        places = {value._bodies[id(body)]: self._referenced(body) for body in value._kept}
        self._kept.append(value)  # or its id might become another's
        index = self._bodies[id(value)] = len(self.wire.referenced)
        self.wire.referenced[index] = _moved(value.graph, places)
        return index

    def _set(
        self, index: int, operand: Operand, lifetime: Lifetime, value: np.ndarray | int | None
    ) -> None:
        self._in_memory.pop(index, None)
        operand.lifetime = lifetime
        operand.value = value

    @call
    def set_operand_symm_per_channel_quant_params(
        self, index: int, channel_quant: SymmPerChannelQuantParams
    ) -> None:
        """Give an operand its scales.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        expect(channel_quant, SymmPerChannelQuantParams, "channel_quant")
        self._demand_open()
        index, operand = self._operand(index)
        scales = [float32(scale, "a scale") for scale in listed(channel_quant.scales, "the scales")]
        dim = integer(channel_quant.channel_dim, "the channel dimension")
        if operand.type is not PER_CHANNEL:
            raise bad_data(f"operand {index} is {operand.type.name}, must be {PER_CHANNEL.name}")
        trial = Operand(operand.type, operand.dimensions, channel_quant=ChannelQuant(dim, scales))
        for fault in check.channel_faults(trial):
            raise bad_data(fault)
        operand.channel_quant = trial.channel_quant

    # ---------------------------------------------------------------- operations

    @call
    def add_operation(self, type: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation on operands. The order doesn't matter.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE, or BAD_DATA for what breaks a rule of the operation.
        """
        given = listed(inputs, "inputs"), listed(outputs, "outputs")
        self._demand_open()
        code = integer(type, "the operation")
        if code not in OperationCode.__members__.values():
            raise bad_data(f"there is no operation {code}")
        read, written = self._indices(given[0], "input"), self._indices(given[1], "output")
        operation = Operation(OperationCode(code), read, written)
        for fault, level in check.operation_faults(operation, self.graph, self.wire):
            if level is None or level > NEWEST_LEVEL:
                raise bad_data(f"{operation.code.name}: {fault}")
        if len(self.graph.operations) >= MOST_OPERATIONS:
            raise bad_data(f"a model can't have more than {MOST_OPERATIONS} operations")
        self.graph.operations.append(operation)

    def _indices(self, indices: Sequence[int], what: str) -> tuple[int, ...]:
        if not indices:
            raise bad_data(f"the list of {what}s is empty")
        return tuple(index_of(i, len(self.graph.operands), f"{what} operand") for i in indices)

    @call
    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say which operands are the model's inputs and outputs, in which order.

        Raises:
            Error: UNEXPECTED_NULL, BAD_STATE or BAD_DATA.
        """
        given = listed(inputs, "inputs"), listed(outputs, "outputs")
        self._demand_open()
        read, written = self._indices(given[0], "input"), self._indices(given[1], "output")
        for indices, lifetime in ((read, Lifetime.INPUT), (written, Lifetime.OUTPUT)):
            for index in indices:
                operand = self.graph.operands[index]
                if operand.lifetime is not Lifetime.TEMPORARY:
                    raise bad_data(
                        f"operand {index} can't be an {lifetime.value}: "
                        f"its lifetime is {operand.lifetime.value} already"
                    )
                operand.lifetime = lifetime
        self.graph.inputs, self.graph.outputs = read, written

    @call
    def relax_computation_float32_to_float16(self, allow: bool) -> None:  # noqa: FBT001 - as in C
        """Say whether float32 may be computed as coarsely as float16.

        Raises:
            Error: BAD_STATE.
        """
        self._demand_open()
        self.wire.relaxed = flag(allow, "allow")

    def fingerprint(self) -> bytes:
        """What tells a finished model from others: worked out once, as it stays what it is."""
        if not self._fingerprint:
            self._fingerprint = ModelSource(self.wire).fingerprint()
        return self._fingerprint

    @call
    def finish(self) -> None:
        """End the building; from then on threads may share the model.

        Raises:
            Error: BAD_STATE, or BAD_DATA for a model that breaks a rule: it stays unusable.
        """
        self._demand_open()
        self._failed = True
        for index in self._in_memory:
            self._map(index)
        try:
            check.check(self.wire, NEWEST_LEVEL)
        except InvalidModelError as error:
            raise bad_data(error.message) from error
        self._failed = False
        self.finished = True

    # ---------------------------------------------------------------- what it is used for

    @call
    def get_supported_operations_for_devices(self, devices: Sequence[Device]) -> list[bool]:
        """Whether any of the devices does an operation, in the order in which they were added.

        Raises:
            Error: UNEXPECTED_NULL, BAD_DATA or BAD_STATE.
        """
        chosen = listed(devices, "devices")
        if not chosen:
            raise bad_data("there are no devices")
        if not self.finished:
            raise bad_state("the model isn't finished")
        if any(device is None for device in chosen):
            raise null("a device")
        if len({id(device) for device in chosen}) != len(chosen):
            raise bad_data("a device is listed twice")
        for device in chosen:
            expect(device, Device, "a device")
        return supported(ModelSource(self.wire), [device.get_name() for device in chosen])

    @classmethod
    def from_ir(cls, model: IrModel, *, feature_level: int = NEWEST_LEVEL) -> Model:
        """An ``nnconv.Model``'s first entry point, finished; its states are inputs and outputs.

        Raises:
            UnsupportedError: NNAPI can't hold a node at this level; all of those are listed.
            UsageError: there is no such level, or ``model`` is none.
        """
        from nnconv.lowering import first_entry, to_nnapi
        from nnconv.runtime.nnapi.replay import replay

        return replay(to_nnapi(first_entry(model), feature_level=feature_level).model)

    def to_ir(self) -> IrModel:
        """The model as an ``nnconv.Model``.

        Raises:
            Error: BAD_STATE, it isn't finished.
            UnsupportedError: nnconv can't read an operation.
        """
        from nnconv.formats.nnapi.reader import import_model

        if not self.finished:
            raise bad_state("the model isn't finished")
        return import_model(self.wire)


def _demand_known(operand: Operand) -> None:
    if operand.type is not OperandCode.MODEL and not operand.is_known:
        raise bad_data(f"the dimensions {list(operand.dimensions)} aren't all known")


def _moved(graph: Graph, places: Mapping[int, int]) -> Graph:
    """A graph that refers to other graphs by other indices."""
    if not places:
        return graph
    operands = []
    for operand in graph.operands:
        if isinstance(operand.value, int):
            operand = Operand(  # noqa: PLW2901 - the other graph keeps its own
                operand.type, lifetime=operand.lifetime, value=places[operand.value]
            )
        operands.append(operand)
    return Graph(operands, graph.operations, graph.inputs, graph.outputs, name=graph.name)
