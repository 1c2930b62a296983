"""What becomes of a node by decompositions, held against the node on the reference backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from nnconv.backends.reference.executor import run_graph, run_node

from nnconv.decompositions import base
from nnconv.decompositions.base import Decomposition, Refused
from nnconv.errors import NnconvError
from nnconv.ir import Builder, DType, Graph, Model, Signature, Value
from nnconv.ir.clone import clone_model
from nnconv.ir.graph import Node
from nnconv.ir.types import TensorType
from nnconv.ir.verifier import verify_model
from nnconv.ops.quantize import Bitcast


class Found(NamedTuple):
    """What a decomposition made of a node.

    Attributes:
        op: the op.
        names: the decompositions, with the ops that they are of.
        fault: what is wrong with it; empty if nothing is.
        log: the node and what it has become.
    """

    op: str
    names: tuple[str, ...]
    fault: str
    log: str


def inner_values(graph: Graph, feeds: Sequence[np.ndarray]) -> dict[Value, np.ndarray]:
    """What every value of a graph is in a run."""
    outputs = graph.outputs
    computed = [v for node in graph.nodes for v in node.outputs]
    graph.outputs = computed
    try:
        results = run_graph(graph, list(feeds))
    finally:
        graph.outputs = outputs
    return {
        **dict(zip(graph.inputs, feeds, strict=True)),
        **dict(zip(computed, results, strict=True)),
    }


def alone(node: Node, arrays: Mapping[Value, np.ndarray]) -> tuple[Model, list[np.ndarray]]:
    """The model of one node, whose inputs have the shapes of a run, and what it is fed."""
    graph = Graph("alone")
    given: dict[Value, Value] = {}
    feeds = []
    for value in dict.fromkeys(v for v in node.inputs if v is not None):
        if value.data is not None:
            given[value] = value
            continue
        kind = TensorType(value.dtype, arrays[value].shape, value.quant)
        given[value] = Value(value.name or f"x{len(feeds)}", kind)
        graph.inputs.append(given[value])
        feeds.append(arrays[value])
    outputs = [Value(f"y{i}", v.type) for i, v in enumerate(node.outputs)]
    inputs = [None if v is None else given[v] for v in node.inputs]
    graph.append(Node(node.op, inputs, outputs, bodies=node.bodies))
    graph.outputs = outputs
    return clone_model(Model([Signature("", graph)])), feeds


def decomposed(node: Node, arrays: Mapping[Value, np.ndarray], *, tolerance: float) -> Found | None:
    """What becomes of a node that no format takes, nor what it becomes, some steps far.

    None where nothing is known to become of it.
    """
    model, feeds = alone(node, arrays)
    graph = model.graph
    wanted = run_graph(graph, feeds)
    outputs = [v.type for v in graph.outputs]
    names: list[str] = []
    left = [(each, 0) for each in graph.nodes]
    while left and len(names) < MOST_STEPS:
        each, depth = left.pop()
        made = _replaced(each, names) if depth < MOST_DEPTH else None
        left += [(new, depth + 1) for new in made or ()]
    if not names:
        return None
    log = f"{node!r} -> {', '.join(names)} -> {[each.op.name for each in graph.nodes]}"
    try:
        verify_model(model)
        got = run_graph(graph, feeds)
    except NnconvError as error:
        return Found(node.op.name, tuple(names), str(error), log)
    faults = [_fault(v, x, y, tolerance) for v, x, y in zip(outputs, got, wanted, strict=True)]
    return Found(node.op.name, tuple(names), "; ".join(filter(None, faults)), log)


MOST_DEPTH, MOST_STEPS = 4, 40

PLAIN = frozenset({DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL})
"""The types that nodes are done in first: what works on others tells the formats apart."""


def _replaced(node: Node, names: list[str]) -> list[Node] | None:
    """The nodes in the place of one; the decomposition's name goes to ``names``."""
    operands = [v for v in node.inputs if v is not None]
    is_bits = isinstance(node.op, Bitcast)
    if not is_bits and any(v.type.has_codes or v.dtype not in PLAIN for v in operands):
        made = base.replace(node, Refused("of other types", types=PLAIN), run_node)
        if made is not None:
            names.append("refit")
            return made
    taken = []

    def noted(decomposition: Decomposition) -> Decomposition:
        def run(each: Node, b: Builder) -> Sequence[Value] | None:
            found = decomposition(each, b)
            if found is not None:
                taken.append(f"{node.op.name}.{decomposition.__name__}")
            return found

        return run

    usual = base.decompositions_of
    base.decompositions_of = lambda op: tuple(map(noted, usual(op)))  # type: ignore[assignment]
    try:
        made = base.replace(node, Refused("to see what becomes of it"), run_node)
    finally:
        base.decompositions_of = usual
    names += taken
    return made


def _fault(kind: TensorType, got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype} {got.shape} for {wanted.dtype} {wanted.shape}"
    if wanted.dtype.kind in "iub" and not kind.has_codes:
        off = np.flatnonzero(got.reshape(-1) != wanted.reshape(-1))
    else:
        a, b = got.astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1)
        finite = np.abs(b[np.isfinite(b)]).max(initial=0.0) or 1.0
        room = 1.0 if kind.has_codes else tolerance * finite
        with np.errstate(invalid="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room)
        off = np.flatnonzero(~same)
    if not off.size:
        return ""
    first = off[0]
    pair = f"{got.reshape(-1)[first]} for {wanted.reshape(-1)[first]}"
    return f"{off.size} of {got.size} elements are off: {pair}"
