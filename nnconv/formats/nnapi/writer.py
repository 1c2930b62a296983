"""Writing an IR model as an NNAPI model: interface, names, bodies."""

from __future__ import annotations

from collections import Counter

from nnconv.decompositions.base import Evaluate
from nnconv.errors import UnsupportedError
from nnconv.formats.graphexport import check_ends, distinguish
from nnconv.formats.nnapi.exporter import FileTarget
from nnconv.formats.nnapi.types import NEWEST_LEVEL
from nnconv.formats.nnapi.wire import Model as WireModel
from nnconv.formats.written import Written
from nnconv.ir.graph import Model, Signature


def to_wire(
    model: Model, signature: Signature, *, level: int = NEWEST_LEVEL, evaluate: Evaluate
) -> tuple[WireModel, Written]:
    """One entry point of a model as an NNAPI model that is valid at a feature level.

    States are inputs and outputs behind the others. ``evaluate`` runs one node on constants.

    Raises:
        UnsupportedError: with every node that NNAPI can't hold.
    """
    graph = signature.graph
    check_ends(graph, "NNAPI", model.source)
    target = FileTarget(evaluate, level=level)
    main, refused = target.graph(graph)
    if main is None:
        raise UnsupportedError(dict.fromkeys(refused), path=model.source)
    inputs = [main.operands[i] for i in main.inputs]
    outputs = [main.operands[i] for i in main.outputs]
    renamed = [*distinguish("input", inputs), *distinguish("output", outputs)]
    result = WireModel(main, [g for g in target.referenced if g is not None])
    report = Written(
        inputs=[operand.name for operand in inputs],
        outputs=[operand.name for operand in outputs],
        renamed=renamed,
        counts=dict(Counter(op.code.name for _, g in result.graphs() for op in g.operations)),
        notes=target.told("NNAPI"),
    )
    return result, report
