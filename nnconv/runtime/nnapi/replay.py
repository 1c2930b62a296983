"""Making the calls that build a model: what a file holds becomes a model of the API."""

from __future__ import annotations

from nnconv.formats.nnapi.wire import Graph, Lifetime
from nnconv.formats.nnapi.wire import Model as WireModel
from nnconv.runtime.nnapi.model import Model
from nnconv.runtime.nnapi.types import OperandType, SymmPerChannelQuantParams


def replay(wire: WireModel) -> Model:
    """The finished model of a plain one; what is wrong with that shows as it would in a program.

    Raises:
        Error: a call refuses what it is given.
    """
    return _Replay(wire).model(wire.main)


class _Replay:
    def __init__(self, wire: WireModel) -> None:
        self._wire = wire
        self._bodies: dict[int, Model] = {}

    def model(self, graph: Graph) -> Model:
        made = Model()
        for index, operand in enumerate(graph.operands):
            made.add_operand(
                OperandType(operand.type, operand.dimensions, operand.scale, operand.zero_point)
            )
            quant = operand.channel_quant
            if quant is not None:
                params = SymmPerChannelQuantParams(quant.dim, quant.scales)
                made.set_operand_symm_per_channel_quant_params(index, params)
            if operand.lifetime is Lifetime.NO_VALUE:
                made.set_operand_value(index, None)
            elif operand.data is not None:
                made.set_operand_value(index, operand.data)
            elif isinstance(operand.value, int):
                made.set_operand_value_from_model(index, self._body(operand.value))
            made.graph.operands[index].name = operand.name
        for operation in graph.operations:
            made.add_operation(operation.code, operation.inputs, operation.outputs)
        made.identify_inputs_and_outputs(graph.inputs, graph.outputs)
        made.relax_computation_float32_to_float16(self._wire.relaxed)
        made.finish()
        return made

    def _body(self, index: int) -> Model:
        if index not in self._bodies:
            self._bodies[index] = self.model(self._wire.referenced[index])
        return self._bodies[index]
