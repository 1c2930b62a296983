"""Models built by the calls of nnconv.runtime.nnrt."""

from collections.abc import Sequence

import numpy as np

from nnconv.formats.nnrt.types import NUMPY
from nnconv.formats.nnrt.wire import Graph
from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import DataType, OperationType, Tensor, TensorType
from nnconv.runtime.nnrt.replay import replay

FLOAT = DataType.FLOAT32
REFERENCE = "reference"
ONNXRUNTIME = "onnxruntime:cpu"

SIZE = 24
"""Bytes of the inputs and outputs of the default model: two rows of three floats."""


def device_id(name: str = REFERENCE) -> int:
    """A device's number by its name."""
    return next(found for found in nnrt.get_all_devices_id() if nnrt.get_name(found) == name)


def described(dimensions: Sequence[int] = (2, 3), kind: DataType = FLOAT) -> Tensor:
    """What a tensor of data is."""
    return Tensor(kind, dimensions)


def desc(dimensions: Sequence[int] = (2, 3), kind: DataType = FLOAT) -> nnrt.TensorDesc:
    """The same as an object of API v2."""
    made = nnrt.TensorDesc()
    made.set_data_type(kind)
    if dimensions:
        made.set_shape(dimensions)
    return made


def array() -> np.ndarray:
    """What an input or output of the default model holds."""
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def add_tensors(model: nnrt.Model, dimensions: Sequence[int] = (2, 3)) -> list[int]:
    """Tensors for ADD: both inputs, the activation (set) and the output."""
    found = [model.add_tensor(described(dimensions)) for _ in range(2)]
    found.append(model.add_tensor(Tensor(DataType.INT8, (), None, TensorType.ADD_ACTIVATIONTYPE)))
    model.set_tensor_data(found[2], np.int8(0))
    found.append(model.add_tensor(described(dimensions)))
    return found


def built(dimensions: Sequence[int] = (2, 3), api: int = 2) -> nnrt.Model:
    """ADD of two inputs, not finished."""
    model = nnrt.Model(api=api)
    a, b, activation, out = add_tensors(model, dimensions)
    model.add_operation(OperationType.ADD, [activation], [a, b], [out])
    model.specify_inputs_and_outputs([a, b], [out])
    return model


def finished(dimensions: Sequence[int] = (2, 3), api: int = 2) -> nnrt.Model:
    """ADD of two inputs."""
    model = built(dimensions, api)
    model.finish()
    return model


def prepared(
    model: nnrt.Model | None = None, name: str = REFERENCE, api: int = 2
) -> nnrt.Compilation:
    """A compilation with a device, by default of ADD for the reference."""
    made = nnrt.Compilation(finished(api=api) if model is None else model)
    made.set_device(device_id(name))
    return made


def compiled(
    model: nnrt.Model | None = None, name: str = REFERENCE, api: int = 2
) -> nnrt.Compilation:
    """A built compilation."""
    made = prepared(model, name, api)
    made.build()
    return made


def executor(compilation: nnrt.Compilation | None = None, api: int = 2) -> nnrt.Executor:
    """An executor with everything set."""
    made = nnrt.Executor(compiled(api=api) if compilation is None else compilation)
    made.set_input(0, described(), array())
    made.set_input(1, described(), array())
    made.set_output(0, array())
    return made


def device_tensor(dimensions: Sequence[int] = (2, 3), kind: DataType = FLOAT) -> nnrt.DeviceTensor:
    """A tensor in the reference's memory."""
    return Tensor.create(device_id(), desc(dimensions, kind))


def run_by_calls(graph: Graph, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a model gives that is built, compiled for the reference and run by calls.

    Args:
        graph: the model.
        feeds: an array for each input.
    """
    model = replay(graph)
    made = nnrt.Executor(compiled(model))
    if graph.api == 1 or any(not graph.tensors[i].dimensions for i in graph.inputs):
        return _with_buffers(made, graph, feeds)
    return _with_tensors(made, graph, feeds)


def _with_buffers(
    made: nnrt.Executor, graph: Graph, feeds: Sequence[np.ndarray]
) -> list[np.ndarray]:
    for place, (index, array) in enumerate(zip(graph.inputs, feeds, strict=True)):
        kind = graph.tensors[index].data_type
        made.set_input(place, Tensor(kind, array.shape), np.ascontiguousarray(array))
    rooms = [np.zeros(ROOM, np.uint8) for _ in graph.outputs]
    for place, room in enumerate(rooms):
        made.set_output(place, room)
    made.run()
    shapes = [made.get_output_shape(place) for place in range(len(rooms))]
    return _read(rooms, graph, shapes)


def _with_tensors(
    made: nnrt.Executor, graph: Graph, feeds: Sequence[np.ndarray]
) -> list[np.ndarray]:
    inputs = []
    for index, array in zip(graph.inputs, feeds, strict=True):
        inputs.append(device_tensor(array.shape, graph.tensors[index].data_type))
        inputs[-1].get_data_buffer()[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    outputs = [
        Tensor.create_with_size(device_id(), made.create_output_tensor_desc(place), ROOM)
        for place in range(len(graph.outputs))
    ]
    made.run_sync(inputs, outputs)
    shapes = [each.get_tensor_desc().get_shape() for each in outputs]
    return _read([each.get_data_buffer() for each in outputs], graph, shapes)


ROOM = 1 << 16
"""Bytes for an output of any small model."""


def _read(
    rooms: Sequence[np.ndarray], graph: Graph, shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    found = []
    for room, index, shape in zip(rooms, graph.outputs, shapes, strict=True):
        kind = graph.tensors[index].data_type
        dtype = np.dtype(np.bool_) if kind is DataType.BOOL else NUMPY[kind]
        size = int(np.prod(shape)) * dtype.itemsize
        found.append(room[:size].view(dtype).reshape(shape))
    return found
