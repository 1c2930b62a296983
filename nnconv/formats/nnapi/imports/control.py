"""Control flow: the referenced models become the bodies of one node."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.formats.nnapi.branching import MOST_DEPTH
from nnconv.formats.nnapi.graph import GraphImport
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Graph, Value
from nnconv.ir.types import TensorType
from nnconv.ops.control import If, While


def _body(s: Source, name: str, given: Sequence[TensorType] | None) -> Graph | None:
    """The graph of a referenced model; None if some of its operations aren't imported."""
    index = s.wire(name).body
    if index is None:
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
