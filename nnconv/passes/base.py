"""What a pass is, and running several in order with the verifier behind each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

from nnconv.errors import GraphError
from nnconv.ir.graph import Graph, Model, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.printer import print_model
from nnconv.ir.types import merge_shapes
from nnconv.ir.verifier import verify_model

Rule: TypeAlias = Callable[[Node, set[Value]], bool]


class Pass(ABC):
    """One job on one graph. Which ones run for a target, and in which order: ``nnconv.lowering``.

    Attributes:
        name: for messages.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(self, graph: Graph) -> bool:
        """Do the job; returns whether anything changed."""

    def broken(self, graph: Graph) -> str:
        """What a graph lacks of what the pass promises of its result; empty if nothing."""
        return ""


class RulesPass(Pass):
    """A pass that looks at each node of some ops once, and changes what it finds there.

    What nothing reads any more is left to prune.

    Attributes:
        rules: by op, what does it to a node and tells whether it did, given the graph's outputs.
    """

    rules: ClassVar[Mapping[type[Op], Rule]]

    def run(self, graph: Graph) -> bool:
        """Do the job; returns whether anything changed."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            rule = self.rules.get(type(node.op))
            if rule is not None:
                outputs = graph.output_set() if outputs is None else outputs
                modified |= rule(node, outputs)
        return modified


class Heirs:
    """Values that take the places of nodes' results in a graph, also where these go out.

    Attributes:
        outputs: the graph's outputs, and what has taken their places.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = graph.output_set()
        self._gone: dict[Value, Value] = {}

    def replace(self, node: Node, value: Value) -> None:
        """Let ``value`` be what a node's only result was, name and all; the node goes."""
        (result,) = node.outputs
        value.name = result.name
        result.replace_all_uses_with(value)
        if result in self.outputs:
            self._gone[result] = value
            self.outputs.add(value)
        self.graph.remove(node)

    def close(self) -> None:
        """Let the heirs of outputs go out."""
        if self._gone:
            self.graph.outputs = [self._gone.get(v, v) for v in self.graph.outputs]


def retype(node: Node) -> list[Value]:
    """Let results have what is now known of their shapes; gives those that have changed."""
    try:
        kinds = node.op.infer_node(node.input_types, node.bodies)
    except ValueError:
        return []  # the verifier says it better
    changed = []
    for value, kind in zip(node.outputs, kinds, strict=True):
        shape = merge_shapes(kind.shape, value.shape)
        if shape != value.shape:
            value.type = value.type.with_shape(shape)
            changed.append(value)
    return changed


def run_passes(model: Model, passes: Sequence[Pass], *, verify: bool = False) -> list[str]:
    """Run passes in order on every graph of a model; returns the names of those that changed any.

    With ``verify`` every invariant is checked after each pass, what the pass promises, and what it
    says of having changed anything, so that a broken graph is blamed on the pass that broke it.

    Raises:
        GraphError: with ``verify``, when a pass broke the graph, its promise or its word.
    """
    changed: list[str] = []
    for step in passes:
        before = print_model(model) if verify else ""
        modified = [step.run(graph) for graph in list(model.graphs())]
        _find_states(model)
        if any(modified):
            changed.append(step.name)
        if verify:
            _check(model, step, before, modified=any(modified))
    return changed


def _check(model: Model, step: Pass, before: str, *, modified: bool) -> None:
    verify_model(model, after=step.name)
    if not modified and print_model(model) != before:
        raise GraphError(f"after {step.name}: it changed the graph and says that it didn't")
    for graph in model.graphs():
        if what := step.broken(graph):
            raise GraphError(f"after {step.name}: graph {graph.name} {what}")


def _find_states(model: Model) -> None:
    """Let states name the values that now stand in their places among inputs and outputs."""
    for signature in model.signatures:
        graph, count = signature.graph, len(signature.states)
        places = zip(
            signature.states,
            graph.inputs[len(graph.inputs) - count :],
            graph.outputs[len(graph.outputs) - count :],
            strict=True,
        )
        signature.states = tuple(replace(s, input=i, output=o) for s, i, o in places)
