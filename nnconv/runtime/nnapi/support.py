"""Which operations a device can run."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.formats.nnapi.importer import importers
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.wire import Graph, Lifetime, Model, Operand, Operation
from nnconv.ir.graph import Model as IrModel
from nnconv.runtime.core import support

LOOP = "WHILE"


class _Operations:
    """A model's main graph as ``core.support.Operations``."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def known(self) -> list[bool]:
        table = importers()
        return [operation.code.name in table for operation in self._model.main.operations]

    def whole(self) -> IrModel:
        return import_model(self._model)

    def alone(self, index: int) -> IrModel:
        return import_model(self._alone(index))

    def _alone(self, index: int) -> Model:
        return alone(self._model, self._model.main.operations[index])


def supported(model: Model, devices: Sequence[str]) -> list[bool]:
    """Whether any of the devices runs an operation, for each of a model's main graph."""
    return support.supported(_Operations(model), devices)


def has_loops(model: Model) -> bool:
    """Whether a run may take for ever."""
    return any(op.code.name == LOOP for _, graph in model.graphs() for op in graph.operations)


def alone(model: Model, operation: Operation) -> Model:
    """The model of one operation of a model's main graph."""
    places = list(dict.fromkeys((*operation.inputs, *operation.outputs)))
    numbers = {place: number for number, place in enumerate(places)}
    operands = [model.main.operands[place] for place in places]
    kept = (Lifetime.CONSTANT, Lifetime.NO_VALUE, Lifetime.MODEL)
    written = set(operation.outputs)
    inputs = [i for i in operation.inputs if model.main.operands[i].lifetime not in kept]
    graph = Graph(
        [
            _at_edge(operand, Lifetime.OUTPUT if place in written else Lifetime.INPUT)
            if operand.lifetime not in kept
            else operand
            for place, operand in zip(places, operands, strict=True)
        ],
        [
            Operation(
                operation.code,
                [numbers[i] for i in operation.inputs],
                [numbers[i] for i in operation.outputs],
            )
        ],
        [numbers[i] for i in dict.fromkeys(inputs)],
        [numbers[i] for i in operation.outputs],
    )
    return Model(graph, model.referenced, relaxed=model.relaxed)


def _at_edge(operand: Operand, lifetime: Lifetime) -> Operand:
    return Operand(
        operand.type,
        operand.dimensions,
        scale=operand.scale,
        zero_point=operand.zero_point,
        lifetime=lifetime,
        channel_quant=operand.channel_quant,
    )
