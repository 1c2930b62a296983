"""Models built by the calls of nnconv.runtime.nnrt."""

from collections.abc import Sequence

import numpy as np

from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import DataType, OperationType, Tensor, TensorType

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
