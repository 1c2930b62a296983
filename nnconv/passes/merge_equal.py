"""Computes once what several nodes compute alike."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.passes.base import Pass

MOST_COMPARED = 64
"""Constants of more elements are equal where they are one."""


class MergeEqualPass(Pass):
    """Keeps the first of the nodes that have the same op and the same operands.

    What goes out of the graph, draws random numbers or has bodies stays as it is.
    """

    name: ClassVar[str] = "merge_equal"

    def run(self, graph: Graph) -> bool:
        """Merge the nodes of one graph, each of which sees its operands merged already."""
        first: dict[Hashable, Node] = {}
        outputs = graph.output_set()
        before = len(graph)
        for node in graph.nodes:
            if node.bodies or node.op.draws or not node.inputs:
                continue
            same = first.setdefault((node.op, *map(_identity, node.inputs)), node)
            if same is node or any(value in outputs for value in node.outputs):
                continue
            if [v.type for v in same.outputs] != [v.type for v in node.outputs]:
                continue
            for value, kept in zip(node.outputs, same.outputs, strict=True):
                value.replace_all_uses_with(kept)
            graph.remove(node)
        return len(graph) != before


def _identity(value: Value | None) -> Hashable:
    """What is the same for equal operands: small constants are compared by their content."""
    if value is None or value.data is None or value.data.size > MOST_COMPARED:
        return value
    return value.type, value.data.tobytes()
