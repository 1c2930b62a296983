"""Making the calls that build a model: what a file holds becomes a model of the API."""

from __future__ import annotations

from nnconv.formats.nnrt import wire
from nnconv.runtime.nnrt.model import Model
from nnconv.runtime.nnrt.quant import QuantParam
from nnconv.runtime.nnrt.tensor import Tensor


def replay(graph: wire.Graph) -> Model:
    """The finished model of a plain one; what is wrong with that shows as it would in a program.

    Raises:
        Error: a call refuses what it is given.
    """
    made = Model(api=graph.api)
    for index, tensor in enumerate(graph.tensors):
        found = tensor.quant
        quant = None
        if found is not None:
            quant = QuantParam(found.scales, found.zero_points, found.bits)
        made.add_tensor(Tensor(tensor.data_type, tensor.dimensions, quant, tensor.type))
        if tensor.data is not None:
            made.set_tensor_data(index, tensor.data)
        made.graph.tensors[index].name = tensor.name
    for operation in graph.operations:
        made.add_operation(operation.type, operation.params, operation.inputs, operation.outputs)
    made.specify_inputs_and_outputs(graph.inputs, graph.outputs)
    made.finish()
    made.graph.name = graph.name
    return made
