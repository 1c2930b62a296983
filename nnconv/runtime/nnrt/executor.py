"""OH_NNExecutor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnrt import wire
from nnconv.formats.nnrt.check import MOST_TENSORS
from nnconv.formats.nnrt.types import V1, ReturnCode
from nnconv.runtime.nnrt import device
from nnconv.runtime.nnrt.compilation import Compilation
from nnconv.runtime.nnrt.desc import MOST_SIZE, TensorDesc
from nnconv.runtime.nnrt.device import RANGES
from nnconv.runtime.nnrt.ends import Ends, Slot
from nnconv.runtime.nnrt.errors import (
    Error,
    Handle,
    bytes_of,
    call,
    existing,
    expect,
    failed,
    forbidden,
    integer,
    invalid,
    listed,
    null,
    pointer,
)
from nnconv.runtime.nnrt.model import described_by
from nnconv.runtime.nnrt.runner import Runner, typed
from nnconv.runtime.nnrt.tensor import MOST_BYTES, DeviceTensor, Memory, Tensor

BUFFERS = ("buffers",)
"""The key of runs on what is set."""


class Executor(Handle):
    """Runs of a compilation: with buffers and memories that are set, or with tensors in memory.

    Attributes:
        api: the version of the API, which is the compilation's.
    """

    @pointer
    def __init__(self, compilation: Compilation) -> None:
        """Make an executor of a built compilation.

        Raises:
            Error: NULL_PTR.
        """
        existing(compilation, Compilation, "compilation")
        found = device.find(compilation.device_id)
        if found is None:
            raise invalid(f"there is no device {compilation.device_id}")
        if compilation.program is None or compilation.graph is None:
            raise invalid("the compilation isn't built")
        self.api = compilation.api
        self._device = found
        graph = compilation.graph
        self._inputs = Ends("input", [graph.tensors[i] for i in graph.inputs], found)
        self._outputs = Ends("output", [graph.tensors[i] for i in graph.outputs], found)
        self._runner = Runner(compilation.program, self._outputs.tensors, self.api)
        self._shapes: list[tuple[int, ...]] | None = None
        self._lock = threading.Lock()

    @classmethod
    @pointer
    def construct(cls, compilation: Compilation) -> Executor:
        """The same as the constructor.

        Raises:
            Error: NULL_PTR.
        """
        return cls(compilation)

    def destroy(self: Executor | None) -> None:
        """End it; memories live on. Nothing happens where its device is gone."""
        if self is not None and device.find(self._device.id) is not None:
            self.destroyed = True

    # ---------------------------------------------------------------- what it takes and gives

    def _demand_v2(self, what: str) -> None:
        if self.api == V1:
            raise forbidden(f"API v1 has no {what}")

    @call
    def get_input_count(self) -> int:
        """How many inputs there are.

        Raises:
            Error: INVALID_PARAMETER, or OPERATION_FORBIDDEN in API v1.
        """
        self._demand_v2("get_input_count")
        return len(self._inputs)

    @call
    def get_output_count(self) -> int:
        """How many outputs there are.

        Raises:
            Error: INVALID_PARAMETER, or OPERATION_FORBIDDEN in API v1.
        """
        self._demand_v2("get_output_count")
        return len(self._outputs)

    @pointer
    def create_input_tensor_desc(self, index: int) -> TensorDesc:
        """What an input is, as a new object.

        Raises:
            Error: NULL_PTR.
        """
        self._demand_v2("create_input_tensor_desc")
        return self._inputs.description(index)

    @pointer
    def create_output_tensor_desc(self, index: int) -> TensorDesc:
        """What an output is, as a new object.

        Raises:
            Error: NULL_PTR.
        """
        self._demand_v2("create_output_tensor_desc")
        return self._outputs.description(index)

    @call
    def get_input_dim_range(self, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The least and the greatest extents that an input may have.

        Raises:
            Error: OPERATION_FORBIDDEN, the device can't tell; INVALID_PARAMETER.
        """
        self._demand_v2("get_input_dim_range")
        if not self._inputs.tells_ranges:
            raise forbidden(f"{self._device.name} can't tell the {RANGES}")
        return self._inputs.dim_range(index)

    @call
    def get_output_shape(self, output_index: int) -> tuple[int, ...]:
        """The extents of an output after the last run; before, those that are declared.

        Raises:
            Error: INVALID_PARAMETER; in API v1 OPERATION_FORBIDDEN before a run.
        """
        place = self._outputs.place(output_index)
        if self._shapes is not None:
            return self._shapes[place]
        if self.api == V1:
            raise forbidden("there was no run since something was set")
        return self._outputs.tensors[place].dimensions

    # ---------------------------------------------------------------- buffers

    @call
    def set_input(
        self,
        input_index: int,
        tensor: Tensor,
        data_buffer: Any,
        length: int | None = None,
    ) -> None:
        """Give an input, which is copied.

        Args:
            input_index: which one.
            tensor: what it is: as in the model, with all dimensions known.
            data_buffer: its elements.
            length: of the part of the buffer to use, in bytes; all of it unless it is given.

        Raises:
            Error: INVALID_PARAMETER or MEMORY_ERROR.
        """
        expect(tensor, Tensor, "tensor")
        data = _part(data_buffer, length)
        described = self._check_input(input_index, tensor)
        shape, size = described.dimensions, described.nbytes
        if len(data) < size:
            raise invalid(f"{plural(len(data), 'byte')}, {list(shape)} take {size}")
        if len(data) > MOST_BYTES:
            raise Error(
                ReturnCode.MEMORY_ERROR, f"{plural(len(data), 'byte')}, at most {MOST_BYTES}"
            )
        with self._lock:
            if not self._inputs.refill(input_index, shape, data[:size]):
                self._set(self._inputs, input_index, Slot(data[:size].copy(), shape))
            self._shapes = None

    @call
    def set_output(self, output_index: int, data_buffer: Any, length: int | None = None) -> None:
        """Say where an output goes: a run writes the buffer.

        Args:
            output_index: which one.
            data_buffer: room for its elements.
            length: of the part of the buffer to use, in bytes; all of it unless it is given.

        Raises:
            Error: INVALID_PARAMETER or MEMORY_ERROR.
        """
        data = _part(data_buffer, length, writable=True)
        self._outputs.check_output(output_index, len(data), self.api)
        if len(data) > MOST_BYTES:
            raise Error(
                ReturnCode.MEMORY_ERROR, f"{plural(len(data), 'byte')}, at most {MOST_BYTES}"
            )
        with self._lock:
            self._set(self._outputs, output_index, Slot(data))

    def _check_input(self, index: int, tensor: Tensor) -> wire.Tensor:
        """See that a description fits an input; gives what it says."""
        described = described_by(tensor, self.api)
        self._inputs.check_input(index, described)
        return described

    def _set(self, ends: Ends, index: int, slot: Slot) -> None:
        self._shapes = None
        if ends.set(index, slot):
            self._runner.forget()

    # ---------------------------------------------------------------- memories

    @pointer
    def allocate_input_memory(self, input_index: int, length: int) -> Memory:
        """Make a memory for an input.

        Raises:
            Error: NULL_PTR.
        """
        return self._inputs.allocate(input_index, length)

    @pointer
    def allocate_output_memory(self, output_index: int, length: int) -> Memory:
        """Make a memory for an output.

        Raises:
            Error: NULL_PTR.
        """
        return self._outputs.allocate(output_index, length)

    def destroy_input_memory(self: Executor | None, input_index: int, memory: Memory) -> None:
        """End a memory that was made for this input; nothing happens to any other."""
        if self is not None:
            self._inputs.release(input_index, memory)

    def destroy_output_memory(self: Executor | None, output_index: int, memory: Memory) -> None:
        """End a memory that was made for this output; nothing happens to any other."""
        if self is not None:
            self._outputs.release(output_index, memory)

    @call
    def set_input_with_memory(self, input_index: int, tensor: Tensor, memory: Memory) -> None:
        """Have an input read from a memory, in which the program may change it between runs.

        Args:
            input_index: which one.
            tensor: what it is: as in the model, with all dimensions known.
            memory: one with its elements.

        Raises:
            Error: INVALID_PARAMETER.
        """
        expect(tensor, Tensor, "tensor")
        existing(memory, Memory, "memory")
        described = self._check_input(input_index, tensor)
        shape, size = described.dimensions, described.nbytes
        if memory.length < size:
            raise invalid(f"{plural(memory.length, 'byte')}, {list(shape)} take {size}")
        with self._lock:
            self._set(self._inputs, input_index, Slot(memory.data[:size], shape, memory))

    @call
    def set_output_with_memory(self, output_index: int, memory: Memory) -> None:
        """Have an output written to a memory.

        Raises:
            Error: INVALID_PARAMETER.
        """
        existing(memory, Memory, "memory")
        self._outputs.check_output(output_index, memory.length, self.api)
        with self._lock:
            self._set(self._outputs, output_index, Slot(memory.data, (), memory))

    # ---------------------------------------------------------------- running

    @call
    def run(self) -> None:
        """Run on what is set, and come back when the outputs are written.

        Raises:
            Error: INVALID_PARAMETER (something isn't set, or too small), UNAVAILABLE_DEVICE (the
                run failed). In API v1 UNAVALIDABLE_DEVICE, and FAILED for too small an output.
        """
        with self._lock:
            self._shapes = None
            inputs, outputs = self._inputs.all_set(), self._outputs.all_set()
            self._shapes = self._runner.run_again(BUFFERS)
            if self._shapes is not None:
                return
            arrays = [
                typed(slot.data, tensor, slot.shape)
                for tensor, slot in zip(self._inputs.tensors, inputs, strict=True)
            ]
            rooms = [slot.data for slot in outputs]
            short = ReturnCode.FAILED if self.api == V1 else ReturnCode.INVALID_PARAMETER
            self._shapes = self._runner.run(arrays, rooms, short, BUFFERS)

    @call
    def run_sync(
        self, input_tensor: Sequence[DeviceTensor], output_tensor: Sequence[DeviceTensor]
    ) -> None:
        """Run from tensors into tensors; the outputs' descriptions then have the real shapes.

        Raises:
            Error: INVALID_PARAMETER, NULL_PTR (an input is None), FAILED (a tensor is too small),
                UNAVAILABLE_DEVICE (the run failed), OPERATION_FORBIDDEN in API v1.
        """
        self._demand_v2("run_sync")
        inputs, outputs = self._lists(input_tensor, output_tensor)
        key = _key(inputs, outputs)
        with self._lock:
            shapes = None if key is None else self._runner.run_again(key)
            if shapes is None:
                self._check_tensors(inputs, outputs)
                arrays = [
                    typed(given.get_data_buffer(), tensor, given.desc.shape)
                    for tensor, given in zip(self._inputs.tensors, inputs, strict=True)
                ]
                rooms = [given.get_data_buffer() for given in outputs]
                shapes = self._runner.run(arrays, rooms, ReturnCode.FAILED, key)
            for given, shape in zip(outputs, shapes, strict=True):
                given.desc.shape = shape
            self._shapes = shapes

    def _check_tensors(
        self, inputs: Sequence[DeviceTensor], outputs: Sequence[DeviceTensor]
    ) -> None:
        """See that a run can read and write tensors.

        Raises:
            Error: INVALID_PARAMETER, NULL_PTR or FAILED.
        """
        if len(inputs) != len(self._inputs) or len(outputs) != len(self._outputs):
            raise invalid(
                f"{plural(len(inputs), 'input')} and {plural(len(outputs), 'output')}, "
                f"the model has {len(self._inputs)} and {len(self._outputs)}"
            )
        for place, tensor in enumerate(inputs if self._inputs.tells_ranges else ()):
            if tensor is None:
                raise Error(ReturnCode.NULL_PTR, f"input {place} is None")
            existing(tensor, DeviceTensor, f"input {place}")
            self._inputs.check_range(place, tensor.desc.shape)
        for place, tensor in enumerate((*inputs, *outputs)):
            existing(tensor, DeviceTensor, f"tensor {place}")
            _check_room(tensor, f"tensor {place}")

    def _lists(self, inputs: Any, outputs: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The tensors of a call.

        Raises:
            Error: INVALID_PARAMETER, there are none or too many.
        """
        found = []
        for values, what in ((inputs, "input_tensor"), (outputs, "output_tensor")):
            tensors = listed(values, what)
            if not 1 <= len(tensors) <= MOST_TENSORS:
                raise invalid(
                    f"{what} has {plural(len(tensors), 'tensor')}, must have 1 to {MOST_TENSORS}"
                )
            found.append(tensors)
        return found[0], found[1]

    # ---------------------------------------------------------------- what no device does

    @call
    def set_on_run_done(self, on_run_done: Callable[..., None]) -> None:
        """Refuse, as NNRt's own devices do.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        _refuse_callback(on_run_done, "on_run_done")

    @call
    def set_on_service_died(self, on_service_died: Callable[..., None]) -> None:
        """Refuse, as NNRt's own devices do.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        _refuse_callback(on_service_died, "on_service_died")

    @call
    def run_async(
        self,
        input_tensor: Sequence[DeviceTensor],
        output_tensor: Sequence[DeviceTensor],
        timeout: int,
        user_data: Any,
    ) -> None:
        """Refuse, as NNRt's own devices do.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        self._lists(input_tensor, output_tensor)
        if user_data is None:
            raise null("user_data")
        integer(timeout, "timeout")
        raise forbidden("the device doesn't run in the background")


def _refuse_callback(function: object, what: str) -> NoReturn:
    if function is None:
        raise null(what)
    raise forbidden("the device calls nobody back")


def _part(buffer: Any, length: int | None, *, writable: bool = False) -> np.ndarray:
    """The bytes of a buffer, or the first ``length`` of them.

    Raises:
        Error: INVALID_PARAMETER, there are none.
    """
    if buffer is None:
        raise null("data_buffer")
    data = bytes_of(buffer, "data_buffer", writable=writable)
    size = len(data) if length is None else integer(length, "the length", low=0, high=MOST_SIZE)
    if not size:
        raise invalid("the length is 0")
    if size > len(data):
        raise invalid(f"the length is {size}, the buffer has {plural(len(data), 'byte')}")
    return data[:size]


def _key(inputs: Sequence[DeviceTensor], outputs: Sequence[DeviceTensor]) -> tuple[Any, ...] | None:
    """What tells the tensors of a run from others; None where they need a look first."""
    tensors = (*inputs, *outputs)
    if not all(
        type(tensor) is DeviceTensor and not tensor.destroyed and not tensor.desc.destroyed
        for tensor in tensors
    ):
        return None
    described = ((tensor, tensor.desc.shape, tensor.desc.data_type) for tensor in tensors)
    return (len(inputs), *described)


def _check_room(tensor: DeviceTensor, what: str) -> None:
    """See that a tensor's memory has room for what its description says.

    Raises:
        Error: FAILED, it hasn't.
    """
    try:
        size = tensor.desc.get_byte_size()
    except Error as error:
        raise failed(f"{what}: {error.message}") from error
    room = tensor.get_size() - tensor.get_offset()
    if room < size:
        raise failed(f"{what} has {plural(room, 'byte')}, its description takes {size}")
