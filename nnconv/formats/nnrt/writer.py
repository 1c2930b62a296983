"""Writing an IR model as an NNRt model: interface and names."""

from __future__ import annotations

from nnconv.decompositions.base import Evaluate
from nnconv.errors import UnsupportedError
from nnconv.formats.graph_export import check_ends, report_of
from nnconv.formats.nnrt.check import MOST_TENSORS
from nnconv.formats.nnrt.exporter import FileTarget
from nnconv.formats.nnrt.types import NEWEST
from nnconv.formats.nnrt.wire import Graph as WireGraph
from nnconv.formats.written import Written
from nnconv.ir.graph import Model, Signature


def to_wire(
    model: Model, signature: Signature, *, api: int = NEWEST, evaluate: Evaluate
) -> tuple[WireGraph, Written]:
    """One entry point of a model as an NNRt model of a version of the API.

    States are inputs and outputs behind the others. ``evaluate`` runs one node on constants.

    Raises:
        UnsupportedError: with every node that NNRt can't hold.
    """
    graph = signature.graph
    limit = None if api == 1 else MOST_TENSORS
    hint = "Version 1 of the API has no such limit (--api v1)."
    check_ends(graph, "NNRt", model.source, most=limit, hint=hint)
    target = FileTarget(evaluate, api=api)
    result, refused = target.graph(graph)
    if result is None:
        raise UnsupportedError(dict.fromkeys(refused), path=model.source)
    inputs = [result.tensors[i] for i in result.inputs]
    outputs = [result.tensors[i] for i in result.outputs]
    report = report_of(inputs, outputs, (op.type.name for op in result.operations))
    report.notes = target.told("NNRt")
    return result, report
