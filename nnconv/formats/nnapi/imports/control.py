"""Control flow: the referenced models become the bodies of one node."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.errors import InvalidModelError
from nnconv.formats.nnapi.graph import GraphImport
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.wire import Lifetime, Model
from nnconv.ir.graph import Graph, Value
from nnconv.ir.types import TensorType
from nnconv.ops.control import If, While

MOST_DEPTH = 32
"""Models that are inside of one another; deeper ones are a broken file's."""

MOST_REPEATED = 50_000
"""Operations that are imported again since several IFs and WHILEs refer to one model: a few models
that refer to each other twice could else ask for more work than any real one does."""


def check_branching(model: Model, *, path: str = "") -> None:
    """See that the models that a model's graphs refer to don't become too much work.

    Raises:
        InvalidModelError: they do.
    """
    graphs = [graph for _, graph in model.graphs()]
    own = [1 + len(graph.operations) for graph in graphs]
    called = [
        [
            operand.value + 1
            for operation in graph.operations
            for operand in (graph.operands[index] for index in operation.inputs)
            if operand.lifetime is Lifetime.MODEL and isinstance(operand.value, int)
        ]
        for graph in graphs
    ]
    work = own
    for _ in range(MOST_DEPTH + 1):  # deeper ones aren't gone into
        work = [size + sum(work[n] for n in calls) for size, calls in zip(own, called, strict=True)]
        if work[0] > sum(own) + MOST_REPEATED:
            message = "the models that IF and WHILE refer to branch out without end"
            raise InvalidModelError(message, path=path)


def _body(s: Source, name: str, given: Sequence[TensorType] | None) -> Graph | None:
    """The graph of a referenced model; None if some of its operations aren't imported."""
    index = s.wire(name).value
    if not isinstance(index, int):
        raise s.fail(f"{name} refers to no model")
    if s.scope.label.count("model") >= MOST_DEPTH:
        raise s.unsupported(f"more than {MOST_DEPTH} models are inside of one another")
    label = f"{s.scope.label}model {index}"
    source = s.scope.model.referenced[index]
    scope = GraphImport(s.scope.model, source, path=s.scope.path, label=label, number=index)
    graph = scope.run(given)
    s.scope.unsupported += scope.unsupported
    s.scope.faults += scope.faults
    return None if scope.unsupported or scope.faults else graph


def import_if(s: Source) -> None:
    """IF: both models take the inputs behind the first three."""
    condition = s.operand("condition")
    values = s.operands("inputs") if len(s.op.inputs) > 3 else []
    kinds = [value.type for value in values]
    bodies = [_body(s, name, kinds) for name in ("then_model", "else_model")]
    present = [body for body in bodies if body is not None]
    if len(present) == 2:
        s.emit(If(), [condition, *values], bodies=present)


def import_while(s: Source) -> None:
    """WHILE: the body gives outputs and states; the inputs behind these stay as they are."""
    values: list[Value] = s.operands("inputs")
    condition, turn = _body(s, "condition_model", None), _body(s, "body_model", None)
    if condition is None or turn is None:
        return
    turn.outputs += turn.inputs[len(turn.outputs) :]
    s.emit(While(), values, bodies=[condition, turn])


IMPORTERS: dict[str, Importer] = {
    "IF": import_if,
    "WHILE": import_while,
}
