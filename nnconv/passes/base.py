"""What a pass is, and running several in order with the verifier behind each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from nnconv.ir.graph import Graph, Model
from nnconv.ir.verifier import verify_model


class Pass(Protocol):
    """One job on one graph.

    Attributes:
        name: for messages.
        requires: names of passes that must have run before.
    """

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]

    def run(self, graph: Graph) -> bool:
        """Do the job; returns whether anything changed."""
        ...


def run_passes(model: Model, passes: Sequence[Pass], *, verify: bool = False) -> list[str]:
    """Run passes in order on every graph of a model; returns the names of those that changed any.

    With ``verify`` every invariant is checked after each pass, so that a broken graph is blamed on
    the pass that broke it.

    Raises:
        GraphError: with ``verify``, when a pass broke the graph.
    """
    done: set[str] = set()
    changed: list[str] = []
    for step in passes:
        missing = set(step.requires) - done
        assert not missing, f"{step.name} must run after {missing}"
        modified = [step.run(graph) for graph in list(model.graphs())]
        _find_states(model)
        if any(modified):
            changed.append(step.name)
            if verify:
                verify_model(model, after=step.name)
        done.add(step.name)
    return changed


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
