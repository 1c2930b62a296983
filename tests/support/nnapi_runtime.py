"""Models built by the calls of nnconv.runtime.nnapi."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.nnapi.wire import Graph, Lifetime
from nnconv.formats.nnapi.wire import Model as WireModel
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


def replay(wire: WireModel) -> nnapi.Model:
    """The model that calls make of a wire model, finished."""
    bodies: dict[int, nnapi.Model] = {}

    def body(number: int) -> nnapi.Model:
        if number not in bodies:
            bodies[number] = build(wire.referenced[number])
        return bodies[number]

    def build(graph: Graph) -> nnapi.Model:
        model = nnapi.Model()
        for index, operand in enumerate(graph.operands):
            kind = OperandType(operand.type, operand.dimensions, operand.scale, operand.zero_point)
            assert model.add_operand(kind) == index
            if operand.channel_quant is not None:
                quant = operand.channel_quant
                params = nnapi.SymmPerChannelQuantParams(quant.dim, quant.scales)
                model.set_operand_symm_per_channel_quant_params(index, params)
            if operand.lifetime is Lifetime.NO_VALUE:
                model.set_operand_value(index, None)
            elif operand.data is not None:
                model.set_operand_value(index, operand.data)
            elif isinstance(operand.value, int):
                model.set_operand_value_from_model(index, body(operand.value))
        for operation in graph.operations:
            model.add_operation(operation.code, operation.inputs, operation.outputs)
        model.identify_inputs_and_outputs(graph.inputs, graph.outputs)
        model.relax_computation_float32_to_float16(wire.relaxed)
        model.finish()
        return model

    return build(wire.main)
