"""Removes nodes whose results nothing reads."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph


class PrunePass:
    """Takes out every node none of whose results is read or goes out."""

    name: ClassVar[str] = "prune"
    requires: ClassVar[tuple[str, ...]] = ()

    def run(self, graph: Graph) -> bool:
        """Prune one graph, from its end."""
        kept = graph.output_set()
        before = len(graph)
        for node in graph.nodes_reversed:
            if not any(v.use_count or v in kept for v in node.outputs):
                graph.remove(node)
        return len(graph) != before
