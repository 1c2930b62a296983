"""What nothing reads in a finished subgraph is left out: operators, and tensors."""

from __future__ import annotations

from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR

_WITH_BODIES = frozenset(BUILTIN_OPERATOR[name] for name in ("IF", "WHILE", "CALL", "CALL_ONCE"))
"""Operators whose subgraphs may assign variables."""


def without_unread(graph: build.Subgraph) -> build.Subgraph:
    """The subgraph without operators that neither make what is read nor change a state."""
    read = {*graph.inputs, *graph.outputs}
    kept = []
    for operator in reversed(graph.operators):
        if _acts(operator, graph) or not read.isdisjoint(operator.outputs):
            kept.append(operator)
            read.update(operator.inputs, operator.outputs, operator.intermediates)
    read.discard(-1)
    if len(read) == len(graph.tensors):
        return graph
    places = {old: new for new, old in enumerate(sorted(read))}
    places[-1] = -1
    for operator in kept:
        operator.inputs = [places[i] for i in operator.inputs]
        operator.outputs = [places[i] for i in operator.outputs]
        operator.intermediates = [places[i] for i in operator.intermediates]
    return build.Subgraph(
        graph.name,
        [graph.tensors[i] for i in sorted(read)],
        [places[i] for i in graph.inputs],
        [places[i] for i in graph.outputs],
        kept[::-1],
    )


def _acts(operator: build.Operator, graph: build.Subgraph) -> bool:
    """Whether an operator does more than give results."""
    if (
        not operator.outputs
        or operator.code in _WITH_BODIES
        or any(operator.mutating_variable_inputs)
    ):
        return True
    return any(graph.tensors[i].is_variable for i in operator.inputs if i >= 0)
