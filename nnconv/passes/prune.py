"""Removes nodes whose results nothing reads."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph
from nnconv.passes.base import Pass


class PrunePass(Pass):
    """Takes out every node none of whose results is read or goes out."""

    name: ClassVar[str] = "prune"

    def run(self, graph: Graph) -> bool:
        """Prune one graph, from its end."""
        kept = graph.output_set()
        before = len(graph)
        for node in graph.nodes_reversed:
            if not any(v.use_count or v in kept for v in node.outputs):
                graph.remove(node)
        return len(graph) != before

    def broken(self, graph: Graph) -> str:
        """Every node is of use."""
        kept = graph.output_set()
        idle = [n for n in graph.nodes if not any(v.use_count or v in kept for v in n.outputs)]
        return f"still has {idle[0]!r}" if idle else ""
