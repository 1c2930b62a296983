"""Writing an IR model as an NNRt model: interface and names."""

from __future__ import annotations

from collections import Counter

from nnconv.decompositions.base import Evaluate
from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.nnrt.exporter import FileTarget
from nnconv.formats.nnrt.types import NEWEST
from nnconv.formats.nnrt.wire import Graph as WireGraph
from nnconv.formats.written import Written
from nnconv.ir.graph import Model, Signature, unique_names


def to_wire(
    model: Model, signature: Signature, *, api: int = NEWEST, evaluate: Evaluate
) -> tuple[WireGraph, Written]:
    """One entry point of a model as an NNRt model of a version of the API.

    States are inputs and outputs behind the others. ``evaluate`` runs one node on constants.

    Raises:
        UnsupportedError: with every node that NNRt can't hold.
    """
    graph = signature.graph
    if not graph.outputs or not graph.inputs:
        item = UnsupportedItem(
            op="graph",
            where=graph.name or "graph",
            why="NNRt's models have inputs and outputs, at least one of each",
            reason=Reason.IMPOSSIBLE,
        )
        raise UnsupportedError([item], path=model.source)
    target = FileTarget(evaluate, api=api)
    result, refused = target.graph(graph)
    if result is None:
        raise UnsupportedError(dict.fromkeys(refused), path=model.source)
    report = Written(
        inputs=[],
        outputs=[],
        renamed=_distinguish(result),
        counts=dict(Counter(op.type.name for op in result.operations)),
        notes=target.told("NNRt"),
    )
    report.inputs += [result.tensors[i].name for i in result.inputs]
    report.outputs += [result.tensors[i].name for i in result.outputs]
    return result, report


def _distinguish(graph: WireGraph) -> list[tuple[str, str, str]]:
    """Give inputs and outputs names of their own; tells kind, old and new name of each change."""
    renamed = []
    for kind, places in (("input", graph.inputs), ("output", graph.outputs)):
        tensors = [graph.tensors[i] for i in places]
        names = unique_names([t.name or f"{kind}{n}" for n, t in enumerate(tensors)])
        for tensor, name in zip(tensors, names, strict=True):
            if tensor.name != name:
                if tensor.name:
                    renamed.append((kind, tensor.name, name))
                tensor.name = name
    return renamed
