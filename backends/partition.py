"""Cutting a graph into pieces, each for one device.

``cut`` says which nodes form a piece, ``extract`` makes a graph of them. Pieces run one after the
other; what a piece reads has been made by those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from nnconv.ir.graph import Graph, Node, Value


def live_nodes(graph: Graph) -> list[Node]:
    """The nodes that an output of the graph depends on, in order."""
    wanted = graph.output_set()
    found = []
    for node in graph.nodes_reversed:
        if any(value in wanted for value in node.outputs):
            found.append(node)
            wanted.update(value for value in node.inputs if value is not None)
    found.reverse()
    return found


def cut(nodes: Sequence[Node], homes: Mapping[Node, int]) -> list[list[Node]]:
    """Nodes in pieces of one home each, in the order in which the pieces run.

    A piece takes all that can run by then in its home, and all that can run once it has. Which home
    begins can matter to how many pieces there are: both ends of the list are tried.

    Args:
        nodes: the nodes, in running order.
        homes: where each runs.
    """
    return min((_cut(nodes, homes, last=last) for last in (False, True)), key=len)


def _cut(nodes: Sequence[Node], homes: Mapping[Node, int], *, last: bool) -> list[list[Node]]:
    places = {node: place for place, node in enumerate(nodes)}
    missing: dict[Node, int] = {}
    ready: dict[int, deque[Node]] = {}
    for node in nodes:
        made = (v.producer for v in node.inputs if v is not None)
        missing[node] = sum(producer in places for producer in made)
        if not missing[node]:
            ready.setdefault(homes[node], deque()).append(node)
    pieces = []
    while ready:
        home = max(ready) if last else min(ready)
        queue = ready[home]
        piece = []
        while queue:
            node = queue.popleft()
            piece.append(node)
            for reader in _readers(node):
                if reader in places:
                    missing[reader] -= 1
                    if not missing[reader]:
                        ready.setdefault(homes[reader], deque()).append(reader)
        del ready[home]
        pieces.append(sorted(piece, key=places.__getitem__))
    return pieces


def _readers(node: Node) -> Iterable[Node]:
    return (use.node for value in node.outputs for use in value.uses)


def extract(
    nodes: Sequence[Node], numbers: Mapping[Node, int], outputs: Collection[Value]
) -> tuple[Graph, list[Value], list[Value]]:
    """A graph of its own for some nodes; constants' data are shared.

    The origin of each node of it, and of those in its bodies, has the node's number.

    Args:
        nodes: the nodes, in running order.
        numbers: by node, what it is to be known by.
        outputs: the values that the whole graph gives.

    Returns:
        The graph, the values that its inputs stand for, and those that its outputs stand for.
    """
    graph = Graph()
    inside = set(nodes)
    values: dict[Value, Value] = {}
    reads: list[Value] = []
    writes: list[Value] = []
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in values:
                values[value] = copy = _copied(value)
                if value.data is None:
                    reads.append(value)
                    graph.inputs.append(copy)
        values.update((value, _copied(value)) for value in node.outputs)
        copied = _copy_node(node, values, numbers[node])
        graph.append(copied)
        for value in node.outputs:
            if value in outputs or any(use.node not in inside for use in value.uses):
                writes.append(value)
                graph.outputs.append(values[value])
    return graph, reads, writes


def _copied(value: Value) -> Value:
    return Value(value.name, value.type, data=value.data, origin=value.origin)


def _copy_node(node: Node, values: Mapping[Value, Value], number: int) -> Node:
    return Node(
        node.op,
        [None if v is None else values[v] for v in node.inputs],
        [values[v] for v in node.outputs],
        bodies=[_copy_body(body, number) for body in node.bodies],
        origin=node.origin._replace(index=number),
    )


def _copy_body(body: Graph, number: int) -> Graph:
    copy = Graph(body.name)
    values: dict[Value, Value] = {}

    def copied(value: Value) -> Value:
        if value not in values:
            values[value] = _copied(value)
        return values[value]

    copy.inputs = [copied(value) for value in body.inputs]
    for node in body.nodes:
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                copied(value)
        copy.append(_copy_node(node, values, number))
    copy.outputs = [copied(value) for value in body.outputs]
    return copy
