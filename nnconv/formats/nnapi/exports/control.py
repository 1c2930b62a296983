"""Control flow: bodies become referenced models."""

from __future__ import annotations

from nnconv.formats.graphexport import NotExportable
from nnconv.formats.nnapi.exporter import Exporter, Ref, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.control import If, While

_CONTROLS = 4


def _models(node: Node, t: Target) -> list[Ref]:
    """The operands of a node's bodies.

    Raises:
        NotExportable: with everything in them that can't be exported.
    """
    if t.level < _CONTROLS:
        raise t.refused(f"control flow needs feature level {_CONTROLS}")
    indices, refused = [], []
    for body in node.bodies:
        index, items = t.file.body(body)
        indices.append(index)
        refused += items
    if refused:
        raise NotExportable(*refused)
    return [t.model(index) for index in indices]


def export_if(node: Node, t: Target) -> None:
    """IF; models without inputs get the condition, since NNAPI's have some."""
    condition, operands = node.operand(0), [v for v in node.inputs[1:] if v is not None]
    if not operands:
        for body in node.bodies:
            body.inputs.append(Value("condition", condition.type))
        operands = [condition]
    then, otherwise = _models(node, t)
    inputs = {
        "condition": condition,
        "then_model": then,
        "else_model": otherwise,
        "inputs": operands,
    }
    t.emit("IF", inputs, node.outputs)


def export_while(node: Node, t: Target) -> None:
    """WHILE."""
    condition, turn = _models(node, t)
    inputs = {"condition_model": condition, "body_model": turn, "inputs": list(node.inputs)}
    t.emit("WHILE", inputs, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {If: export_if, While: export_while}
