"""Writing an IR model as an NNAPI model: interface, names, bodies."""

from __future__ import annotations

from collections import Counter

from nnconv.decompositions.base import Evaluate
from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.nnapi.exporter import FileTarget
from nnconv.formats.nnapi.types import NEWEST_LEVEL
from nnconv.formats.nnapi.wire import Graph as WireGraph
from nnconv.formats.nnapi.wire import Model as WireModel
from nnconv.formats.written import Written
from nnconv.ir.graph import Model, Signature, unique_names


def to_wire(
    model: Model, signature: Signature, *, level: int = NEWEST_LEVEL, evaluate: Evaluate
) -> tuple[WireModel, Written]:
    """One entry point of a model as an NNAPI model that is valid at a feature level.

    States are inputs and outputs behind the others. ``evaluate`` runs one node on constants.

    Raises:
        UnsupportedError: with every node that NNAPI can't hold.
    """
    graph = signature.graph
    if not graph.outputs or not graph.inputs:
        item = UnsupportedItem(
            op="graph",
            where=graph.name or "graph",
            why="NNAPI's models have inputs and outputs, at least one of each",
            reason=Reason.IMPOSSIBLE,
        )
        raise UnsupportedError([item], path=model.source)
    target = FileTarget(evaluate, level=level)
    main, refused = target.graph(graph)
    if main is None:
        raise UnsupportedError(dict.fromkeys(refused), path=model.source)
    renamed = _distinguish(main)
    result = WireModel(main, [g for g in target.referenced if g is not None])
    report = Written(
        inputs=[main.operands[i].name for i in main.inputs],
        outputs=[main.operands[i].name for i in main.outputs],
        renamed=renamed,
        counts=dict(Counter(op.code.name for _, g in result.graphs() for op in g.operations)),
        notes=target.told("NNAPI"),
    )
    return result, report


def _distinguish(main: WireGraph) -> list[tuple[str, str, str]]:
    """Give inputs and outputs names of their own; tells kind, old and new name of each change."""
    renamed = []
    for kind, places in (("input", main.inputs), ("output", main.outputs)):
        operands = [main.operands[i] for i in places]
        names = unique_names([o.name or f"{kind}{n}" for n, o in enumerate(operands)])
        for operand, name in zip(operands, names, strict=True):
            if operand.name != name:
                if operand.name:
                    renamed.append((kind, operand.name, name))
                operand.name = name
    return renamed
