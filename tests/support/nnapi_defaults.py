"""NNAPI models as the runtime keeps them: without trailing inputs of the default value."""

from __future__ import annotations

from nnconv.formats.nnapi.defaults import kept
from nnconv.formats.nnapi.table import MismatchError, match
from nnconv.formats.nnapi.wire import Graph, Model, Operation


def without_defaults(model: Model) -> Model:
    """The model without trailing inputs that are constants of the default value; operands stay."""
    return Model(
        _trimmed(model.main),
        [_trimmed(graph) for graph in model.referenced.values()],
        relaxed=model.relaxed,
    )


def _trimmed(graph: Graph) -> Graph:
    return Graph(
        graph.operands,
        [_trim(operation, graph) for operation in graph.operations],
        graph.inputs,
        graph.outputs,
        name=graph.name,
    )


def _trim(operation: Operation, graph: Graph) -> Operation:
    try:
        variant = match(operation, graph).variant
    except MismatchError:
        return operation  # for the check to tell
    count = kept(operation, graph, variant)
    if count == len(operation.inputs):
        return operation
    return Operation(operation.code, operation.inputs[:count], operation.outputs)
