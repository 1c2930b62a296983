"""OH_NNModel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nnconv.errors import plural
from nnconv.formats.nnrt import check
from nnconv.formats.nnrt.types import (
    LAST_V1_TENSOR_TYPE,
    NUMPY,
    V1,
    V2,
    OperationType,
    TensorType,
)
from nnconv.formats.nnrt.wire import Graph, Operation, QuantParams
from nnconv.formats.nnrt.wire import Tensor as WireTensor
from nnconv.runtime.nnrt import device
from nnconv.runtime.nnrt.desc import TensorDesc, data_type_of, extents_of
from nnconv.runtime.nnrt.errors import (
    Handle,
    bytes_of,
    call,
    existing,
    expect,
    failed,
    forbidden,
    index_of,
    integer,
    invalid,
    listed,
    null,
    pointer,
)
from nnconv.runtime.nnrt.quant import QuantParam
from nnconv.runtime.nnrt.support import supported
from nnconv.runtime.nnrt.tensor import Tensor

if TYPE_CHECKING:
    from nnconv.ir.graph import Model as IrModel


class Model(Handle):
    """A model that is built by calls, and can't be changed once it is finished.

    Attributes:
        api: the version of the API: 1 or 2.
        graph: its tensors and operations.
        finished: whether ``finish`` has ended the building.
        usable: whether it found no fault either.
    """

    @pointer
    def __init__(self, *, api: int = V2) -> None:
        """Make a model without anything in it.

        Args:
            api: the version of the API whose rules hold for it, and for what is made of it.

        Raises:
            Error: NULL_PTR.
        """
        self.api = device.check_api(api)
        self.graph = Graph(api=self.api)
        self.finished = False
        self.usable = False
        self._specified = False

    @classmethod
    @pointer
    def construct(cls, *, api: int = V2) -> Model:
        """The same as the constructor.

        Raises:
            Error: NULL_PTR.
        """
        return cls(api=api)

    def destroy(self: Model | None) -> None:
        """End it; a compilation that is built has what it needs."""
        if self is not None:
            self.destroyed = True

    def _demand_open(self) -> None:
        if self.finished:
            raise forbidden("the model is finished")

    def _demand_v2(self, what: str) -> None:
        if self.api == V1:
            raise forbidden(f"API v1 has no {what}")

    # ---------------------------------------------------------------- tensors

    @call
    def add_tensor(self, tensor: Tensor) -> int:
        """Add a tensor; gives its index.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        expect(tensor, Tensor, "tensor")
        self._demand_open()
        return self._add(described_by(tensor, self.api))

    @call
    def add_tensor_to_model(self, tensor_desc: TensorDesc) -> int:
        """Add a tensor; gives its index. Its format is left aside.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        existing(tensor_desc, TensorDesc, "tensor_desc")
        self._demand_v2("add_tensor_to_model")
        self._demand_open()
        kind = data_type_of(tensor_desc.data_type)
        made = WireTensor(kind, tensor_desc.shape, name=tensor_desc.name)
        return self._add(_check(made, self.api))

    def _add(self, tensor: WireTensor) -> int:
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _tensor(self, index: int) -> WireTensor:
        return self.graph.tensors[index_of(index, len(self.graph.tensors), "tensor")]

    @call
    def set_tensor_data(self, index: int, data_buffer: Any, length: int | None = None) -> None:
        """Give a tensor its content, which is copied.

        Args:
            index: the tensor's.
            data_buffer: its elements.
            length: of the part of the buffer to use, in bytes; all of it unless it is given.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        if data_buffer is None:
            raise null("data_buffer")
        data = bytes_of(data_buffer, "data_buffer")
        size = len(data) if length is None else integer(length, "the length", low=0)
        if not size:
            raise invalid("the length is 0")
        self._demand_open()
        tensor = self._tensor(index)
        if tensor.data is not None:
            raise invalid(f"tensor {index} has data already")
        if not tensor.is_known:
            raise forbidden(f"the dimensions {list(tensor.dimensions)} aren't all known")
        if size != tensor.nbytes or size > len(data):
            raise invalid(f"{plural(size, 'byte')} for tensor {index}, which takes {tensor.nbytes}")
        kind = NUMPY[tensor.data_type]
        tensor.data = data[:size].copy().view(kind).reshape(tensor.dimensions)

    @call
    def set_tensor_quant_params(self, index: int, quant_param: QuantParam) -> None:
        """Say how a tensor's integers stand for real numbers.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN; the tensor has then none any more.
        """
        existing(quant_param, QuantParam, "quant_param")
        self._demand_v2("set_tensor_quant_params")
        self._demand_open()
        tensor = self._tensor(index)
        tensor.quant = quant_of(quant_param)
        for fault in check.quant_faults(tensor):
            tensor.quant = None
            raise invalid(fault)

    @call
    def set_tensor_type(self, index: int, tensor_type: int) -> None:
        """Say what a tensor is to the operation that takes it.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        kind = tensor_type_of(tensor_type, self.api)
        self._demand_v2("set_tensor_type")
        self._demand_open()
        self._tensor(index).type = kind

    # ---------------------------------------------------------------- operations

    @call
    def add_operation(
        self,
        op: int,
        params: Sequence[int],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        """Add an operation on tensors. The order doesn't matter.

        Args:
            op: an ``OperationType``.
            params: tensors that say what it does, told by their types; they have data.
            inputs: tensors that it reads, by position.
            outputs: tensors that it writes, by position.

        Raises:
            Error: INVALID_PARAMETER for what breaks a rule of the operation; OPERATION_FORBIDDEN.
        """
        given = listed(params, "params"), listed(inputs, "inputs"), listed(outputs, "outputs")
        self._demand_open()
        read, written = self._ends(given[1], given[2], self.api)
        places = self._indices(given[0], "param")
        code = integer(op, "the operation")
        if code not in OperationType.__members__.values():
            raise invalid(f"there is no operation {code}")
        operation = Operation(OperationType(code), places, read, written)
        for fault in check.operation_faults(operation, self.graph, self.api):
            raise invalid(f"{operation.type.name}: {fault}")
        self.graph.operations.append(operation)

    def _indices(self, indices: Iterable[int], what: str) -> tuple[int, ...]:
        count = len(self.graph.tensors)
        return tuple(index_of(index, count, f"{what} tensor") for index in indices)

    def _ends(
        self, inputs: Sequence[int], outputs: Sequence[int], api: int = V2
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Inputs and outputs of an operation or of the model.

        Args:
            inputs: indices of tensors.
            outputs: indices of tensors.
            api: 1 for any number of them.

        Raises:
            Error: INVALID_PARAMETER.
        """
        read, written = self._indices(inputs, "input"), self._indices(outputs, "output")
        for fault in check.index_faults(read, written, self.graph, api):
            raise invalid(fault)
        return read, written

    @call
    def specify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say which tensors are the model's inputs and outputs, in which order; this is done once.

        Raises:
            Error: INVALID_PARAMETER or OPERATION_FORBIDDEN.
        """
        given = listed(inputs, "inputs"), listed(outputs, "outputs")
        self._demand_open()
        if self._specified:
            raise forbidden("inputs and outputs are specified already")
        self.graph.inputs, self.graph.outputs = self._ends(*given)
        self._specified = True

    @call
    def finish(self) -> None:
        """End the building; from then on threads may share the model.

        Raises:
            Error: OPERATION_FORBIDDEN, or FAILED for an operation that lacks a parameter: then it
                is finished, but nothing can be made of it.
        """
        self._demand_open()
        if not self.graph.tensors:
            raise forbidden("there are no tensors")
        if not self.graph.operations:
            raise forbidden("there are no operations")
        if not self._specified:
            raise forbidden("inputs and outputs aren't specified")
        self.finished = True
        for operation in self.graph.operations:
            for fault in check.finish_faults(operation, self.graph):
                raise failed(f"{operation.type.name}: {fault}")
        self.usable = True

    # ---------------------------------------------------------------- what it is used for

    @call
    def get_available_operations(self, device_id: int) -> list[bool]:
        """Whether a device does an operation, in the order in which they were added.

        Raises:
            Error: INVALID_PARAMETER, OPERATION_FORBIDDEN, or FAILED: there is no such device.
        """
        number = integer(device_id, "device_id", low=0, high=device.MOST_SIZE)
        if not self.usable:
            raise forbidden("the model isn't finished")
        found = device.find(number, self.api)
        if found is None:
            raise failed(f"there is no device {number}")
        return supported(self.graph, found.name)

    @classmethod
    def from_ir(cls, model: IrModel, *, api: int = V2) -> Model:
        """An ``nnconv.Model``'s first entry point, finished; its states are inputs and outputs.

        Raises:
            UnsupportedError: NNRt can't hold a node in this version; all of those are listed.
            UsageError: there is no such version, or ``model`` is none.
        """
        from nnconv.lowering import first_entry, to_nnrt
        from nnconv.runtime.nnrt.replay import replay

        return replay(to_nnrt(first_entry(model), api=api).model)

    def to_ir(self) -> IrModel:
        """The model as an ``nnconv.Model``.

        Raises:
            Error: OPERATION_FORBIDDEN, it isn't finished.
            UnsupportedError: nnconv can't read an operation.
        """
        from nnconv.formats.nnrt.reader import import_model

        if not self.usable:
            raise forbidden("the model isn't finished")
        return import_model(self.graph)


def tensor_type_of(value: Any, api: int) -> TensorType:
    """What a tensor is to an operation.

    Raises:
        Error: INVALID_PARAMETER, the version of the API has no such type.
    """
    code = integer(value, "the tensor type")
    known = TensorType.__members__.values()
    if code not in known or (api == V1 and code > LAST_V1_TENSOR_TYPE):
        raise invalid(f"there is no tensor type {code}")
    return TensorType(code)


def quant_of(param: QuantParam) -> QuantParams | None:
    """What parameters say of a tensor; None where they are empty.

    Raises:
        Error: INVALID_PARAMETER, they have been set to something else than numbers.
    """
    read = QuantParam(param.scale, param.zero_point, param.num_bits)
    parts = (read.scale or (), read.zero_point or (), read.num_bits or ())
    return QuantParams(*parts) if any(parts) else None


def described_by(tensor: Tensor, api: int) -> WireTensor:
    """The tensor that a description says.

    Raises:
        Error: INVALID_PARAMETER, it breaks a rule.
    """
    made = WireTensor(
        data_type_of(tensor.data_type),
        extents_of(tensor.dimensions, "dimension"),
        type=tensor_type_of(tensor.type, api),
    )
    param = tensor.quant_param
    if param is not None:
        existing(param, QuantParam, "quant_param")
        if param.scale is None or param.zero_point is None or param.num_bits is None:
            raise null("a part of quant_param")
        made.quant = quant_of(param)
    return _check(made, api)


def _check(tensor: WireTensor, api: int) -> WireTensor:
    """See that a tensor can be added to a model.

    Raises:
        Error: INVALID_PARAMETER, it can't.
    """
    for fault in check.tensor_faults(tensor, api):
        raise invalid(fault)
    return tensor
