"""Which operations a device can run."""

from __future__ import annotations

from nnconv.formats.nnrt.device import device_faults
from nnconv.formats.nnrt.importer import importers
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.wire import Graph, Operation
from nnconv.ir.graph import Model as IrModel
from nnconv.runtime.core import support


class _Operations:
    """A model as ``core.support.Operations``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def known(self) -> list[bool]:
        table = importers()
        return [operation.type.name in table for operation in self._graph.operations]

    def whole(self) -> IrModel:
        return import_model(self._graph)

    def alone(self, index: int) -> IrModel:
        return import_model(alone(self._graph, self._graph.operations[index]))


def supported(graph: Graph, device: str) -> list[bool]:
    """Whether a device runs an operation, for each of a model."""
    found = support.supported(_Operations(graph), [device])
    return [
        takes and not any(device_faults(operation, graph, graph.api))
        for takes, operation in zip(found, graph.operations, strict=True)
    ]


def alone(graph: Graph, operation: Operation) -> Graph:
    """The model of one operation of a model."""
    places = list(dict.fromkeys((*operation.params, *operation.inputs, *operation.outputs)))
    numbers = {place: number for number, place in enumerate(places)}
    params, inputs, outputs = (
        [numbers[place] for place in listed]
        for listed in (operation.params, operation.inputs, operation.outputs)
    )
    tensors = [graph.tensors[place] for place in places]
    data = [number for number in dict.fromkeys(inputs) if tensors[number].data is None]
    return Graph(
        tensors, [Operation(operation.type, params, inputs, outputs)], data, outputs, api=graph.api
    )
