"""The verifier: every invariant of a graph, checked after each pass and on demand."""

from __future__ import annotations

from typing import NoReturn

from nnconv.errors import GraphError, plural
from nnconv.ir.graph import Graph, Model, Node, Value
from nnconv.ir.op import QuantRule
from nnconv.ir.types import Shape, TensorType


def verify_model(model: Model, *, after: str = "") -> None:
    """Check every graph of a model and its states.

    Raises:
        GraphError: naming the first broken rule, the node, and ``after`` (what just ran).
    """
    for graph in model.graphs():
        verify_graph(graph, after=after)
    for signature in model.signatures:
        count = len(signature.states)
        tail_in = signature.graph.inputs[len(signature.graph.inputs) - count :]
        tail_out = signature.graph.outputs[len(signature.graph.outputs) - count :]
        for state, value_in, value_out in zip(signature.states, tail_in, tail_out, strict=True):
            if state.input is not value_in or state.output is not value_out:
                _fail(after, f"state {state.name} isn't at its place among inputs and outputs")


def verify_graph(graph: Graph, *, after: str = "") -> None:
    """Check one graph: order, use lists, producers, data, operand types, inferred and stated types.

    Raises:
        GraphError: naming the first broken rule and the node.
    """
    known: set[Value] = set(graph.inputs)
    if len(known) != len(graph.inputs):
        _fail(after, f"graph {graph.name} lists an input twice")
    for constant in graph.constants():
        _check_data(constant, after)
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            if (node, index) not in value._uses:
                _fail(after, f"{node!r} reads {value!r}, whose use list doesn't say so")
            if not value.is_const and value not in known:
                _fail(after, f"{node!r} reads {value!r} before anything makes it")
        _check_operands(node, after)
        _check_results(node, after)
        for index, value in enumerate(node.outputs):
            if value.producer is not node or value.index != index:
                _fail(after, f"{value!r} doesn't name {node!r} as its producer")
            if value in known:
                _fail(after, f"{value!r} is made twice")
            known.add(value)
    for value in graph.outputs:
        if not value.is_const and value not in known:
            _fail(after, f"graph {graph.name} outputs {value!r}, which nothing makes")


def _check_operands(node: Node, after: str) -> None:
    formal = node.op.operands
    variadic = bool(formal) and formal[-1].variadic
    if not variadic and len(node.inputs) > len(formal):
        _fail(after, f"{node!r} has {plural(len(node.inputs), 'input')}, allowed are {len(formal)}")
    for index, operand in enumerate(formal):
        if operand.variadic:
            continue
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is None:
            if not operand.optional:
                _fail(after, f"{node!r} lacks operand {operand.name}")
        elif value.dtype not in operand.types:
            allowed = ", ".join(sorted(t.value for t in operand.types))
            _fail(after, f"{node!r}: {operand.name} is {value.dtype}, allowed are {allowed}")


def _check_results(node: Node, after: str) -> None:
    try:
        inferred = node.op.infer_node(node.input_types, node.bodies)
    except ValueError as error:
        _fail(after, f"{node!r}: {error}")
    if len(inferred) != len(node.outputs):
        _fail(
            after, f"{node!r} has {plural(len(node.outputs), 'result')}, must have {len(inferred)}"
        )
    for value, expected in zip(node.outputs, inferred, strict=True):
        if not _agrees(node, value.type, expected):
            _fail(after, f"{node!r}: result {value.name} is {value.type}, inferred {expected}")


def _agrees(node: Node, stated: TensorType, inferred: TensorType) -> bool:
    # a real-valued op may quantize its result to any integer type
    free = node.op.quant_rule is QuantRule.REAL and stated.quant is not None
    same = stated.dtype is inferred.dtype or free
    return same and not _conflict(stated.shape, inferred.shape)


def _conflict(a: Shape, b: Shape) -> bool:
    if a is None or b is None:
        return False
    if len(a) != len(b):
        return True
    if a == b:
        return False
    pairs = zip(a, b, strict=True)
    return any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs)


def _fail(after: str, text: str) -> NoReturn:
    raise GraphError(f"after {after}: {text}" if after else text)


def _check_data(value: Value, after: str) -> None:
    """Check that a constant's data fit its type, all of whose extents are known."""
    data = value.data
    if data is None or (data.dtype == value.dtype.numpy and data.shape == value.shape):
        return
    _fail(
        after,
        f"constant {value.name} holds {data.dtype}{list(data.shape)}, its type is {value.type}",
    )
