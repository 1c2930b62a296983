"""Copies of graphs and models: new nodes and values, the same constants' data."""

from __future__ import annotations

from dataclasses import replace

from nnconv.ir.graph import Graph, Model, Node, Signature, Value


def clone_model(model: Model) -> Model:
    """A model of its own graphs; data, ops and types, which never change, are shared."""
    signatures = []
    for signature in model.signatures:
        graph, values = clone_graph(signature.graph)
        states = tuple(
            replace(s, input=values[s.input], output=values[s.output]) for s in signature.states
        )
        signatures.append(
            Signature(signature.key, graph, signature.input_names, signature.output_names, states)
        )
    return replace(model, signatures=signatures, metadata=dict(model.metadata))


def clone_graph(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """A copy of a graph, and which of its values stands for which old one."""
    copy = Graph(graph.name)
    values = _Copies()
    copy.inputs = [values[v] for v in graph.inputs]
    for node in graph.nodes:
        bodies = [clone_graph(body)[0] for body in node.bodies]
        inputs = [None if v is None else values[v] for v in node.inputs]
        outputs = [values[v] for v in node.outputs]
        copy.append(Node(node.op, inputs, outputs, bodies=bodies, origin=node.origin))
    copy.outputs = [values[v] for v in graph.outputs]
    return copy, dict(values)


class _Copies(dict[Value, Value]):
    """Values by those that they are copies of, made when they are asked for."""

    def __missing__(self, value: Value) -> Value:
        copy = Value(value.name, value.type, data=value.data, origin=value.origin)
        self[value] = copy
        return copy
