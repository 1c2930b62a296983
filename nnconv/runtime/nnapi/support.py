"""Which operations a device can run."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv import backends
from nnconv.errors import InvalidModelError, NnconvError
from nnconv.formats.nnapi.importer import importers
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.wire import Graph, Lifetime, Model, Operand, Operation
from nnconv.runtime.core.devices import REFERENCE, UNINTERRUPTIBLE

LOOP = "WHILE"


def supported(model: Model, devices: Sequence[str]) -> list[bool]:
    """Whether any of the devices runs an operation, for each of a model's main graph."""
    found = [False] * len(model.main.operations)
    for device in devices:
        if all(found):
            break
        if device == REFERENCE:
            table = importers()
            names = [operation.code.name for operation in model.main.operations]
            found = [done or name in table for done, name in zip(found, names, strict=True)]
        elif _takes(model, device):
            found = [True] * len(found)
        else:
            found = [
                done or _takes(alone(model, operation), device)
                for done, operation in zip(found, model.main.operations, strict=True)
            ]
    return found


def has_loops(model: Model) -> bool:
    """Whether a run may take for ever."""
    return any(op.code.name == LOOP for _, graph in model.graphs() for op in graph.operations)


def _takes(model: Model, device: str) -> bool:
    """Whether a device runs a model as a whole."""
    if device in UNINTERRUPTIBLE and has_loops(model):
        return False
    try:
        backends.compile(import_model(model), device).close()
    except InvalidModelError:
        return True  # no device gives it a meaning; that is for the run to tell
    except NnconvError:
        return False
    return True


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
