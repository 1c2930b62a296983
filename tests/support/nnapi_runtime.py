"""Models built by the calls of nnconv.runtime.nnapi."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode

FLOAT = OperandCode.TENSOR_FLOAT32
REFERENCE = "reference"


def device(name: str = REFERENCE) -> nnapi.Device:
    """A device by name."""
    found = (nnapi.get_device(i) for i in range(nnapi.get_device_count()))
    return next(each for each in found if each.get_name() == name)


def add_operands(
    model: nnapi.Model, dimensions: Sequence[int] = (2, 3), **options: Any
) -> list[int]:
    """Operands for ADD of two tensors: both inputs, the activation (set) and the output."""
    kind = OperandType(options.pop("kind", FLOAT), dimensions, **options)
    found = [model.add_operand(kind), model.add_operand(kind)]
    found.append(model.add_operand(OperandType(OperandCode.INT32)))
    model.set_operand_value(found[2], np.int32(0))
    found.append(model.add_operand(kind))
    return found


def built(dimensions: Sequence[int] = (2, 3), **options: Any) -> nnapi.Model:
    """ADD of two inputs, not finished."""
    model = nnapi.Model()
    a, b, activation, out = add_operands(model, dimensions, **options)
    model.add_operation(OperationCode.ADD, [a, b, activation], [out])
    model.identify_inputs_and_outputs([a, b], [out])
    return model


def finished(dimensions: Sequence[int] = (2, 3), **options: Any) -> nnapi.Model:
    """ADD of two inputs."""
    model = built(dimensions, **options)
    model.finish()
    return model


def compiled(
    model: nnapi.Model | None = None, names: Sequence[str] = (REFERENCE,)
) -> nnapi.Compilation:
    """A model compiled for devices, by default ADD for the reference."""
    made = nnapi.Compilation.create_for_devices(
        finished() if model is None else model, [device(name) for name in names]
    )
    made.finish()
    return made


def run_on_zeros(model: nnapi.Model) -> None:
    """Run a finished model, whose inputs all have known dimensions, on zeros.

    Raises:
        nnapi.Error: a call fails.
    """
    execution = nnapi.Execution(compiled(model))
    graph = model.graph
    for number, index in enumerate(graph.inputs):
        execution.set_input(number, np.zeros(graph.operands[index].nbytes, np.uint8))
    for number, index in enumerate(graph.outputs):
        size = graph.operands[index].nbytes or 4096
        execution.set_output(number, np.zeros(size, np.uint8))
    execution.compute()
