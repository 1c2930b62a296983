"""Control flow: bodies become referenced models."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.branching import MOST_DEPTH
from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.operands import AS_THEY_ARE, CODED
from nnconv.formats.refusals import NotExportable
from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.control import If, While
from nnconv.ops.quantize import Bitcast

LEVEL = 4
"""The feature level that control flow needs."""


def _models(bodies: Sequence[Graph], t: Target) -> list[Ref]:
    """The operands that stand for bodies.

    Raises:
        NotExportable: with everything in them that can't be exported.
        Refused: they would be too deep inside of others.
    """
    if t.file.depth == MOST_DEPTH:
        raise t.refused(f"more than {MOST_DEPTH} models would be inside of one another")
    indices, refused = [], []
    for body in bodies:
        index, items = t.file.body(body)
        indices.append(index)
        refused += items
    if refused:
        raise NotExportable(*refused)
    return [t.model(index) for index in indices]


def _read_as(body: Graph, places: list[Value], wanted: Sequence[Value]) -> None:
    """Let inputs or outputs of a body have the parameters of the values outside.

    Numbers cross a body's border as they are stored, whatever they stand for on its other side;
    NNAPI demands operands of one type.
    """
    for place, (value, outside) in enumerate(zip(places, wanted, strict=True)):
        quant = outside.quant
        if value.dtype not in CODED or (value.quant or AS_THEY_ARE) == (quant or AS_THEY_ARE):
            continue
        kind, stored = value.type, TensorType(value.dtype, value.shape, quant)
        op = Bitcast(dtype=value.dtype)
        if places is body.outputs:
            (places[place],) = Builder(body).add_typed(op, [value], [stored])
            continue
        uses = list(value.uses)
        value.type = stored
        first = next(iter(body.nodes), None)
        (inside,) = Builder(body, before=first).add_typed(op, [value], [kind])
        for use in uses:
            use.node.replace_input_with(use.index, inside)


def _demand_level(node: Node, t: Target) -> None:
    if t.level < LEVEL:
        raise t.refused(
            f"{node.op.name.upper()} needs feature level {LEVEL}",
            hint=f"Write for feature level {LEVEL}.",
        )


def export_if(node: Node, t: Target) -> None:
    """IF; bodies that take nothing get the condition, since a model has inputs."""
    _demand_level(node, t)
    condition, *values = map(node.operand, range(len(node.inputs)))
    if not values:
        values = [condition]
        for body in node.bodies:
            Builder(body).input(condition.name, condition.dtype, condition.shape)
    for body in node.bodies:
        _read_as(body, body.inputs, values)
        _read_as(body, body.outputs, node.outputs)
    then, otherwise = _models(node.bodies, t)
    operands = {"condition": condition, "then_model": then, "else_model": otherwise}
    t.emit("IF", {**operands, "inputs": values}, node.outputs)


def export_while(node: Node, t: Target) -> None:
    """WHILE; what a turn hands on as it got it comes last, where the body need not give it."""
    _demand_level(node, t)
    condition, turn = node.bodies
    outside = [node.operand(i) for i in range(len(node.inputs))]
    for body in node.bodies:
        _read_as(body, body.inputs, outside)
    _read_as(turn, turn.outputs, outside)
    lists = (condition.inputs, turn.inputs, turn.outputs)
    kept = [list(values) for values in lists]
    order = sorted(range(len(turn.inputs)), key=lambda i: turn.outputs[i] is turn.inputs[i])
    changing = [i for i in order if turn.outputs[i] is not turn.inputs[i]] or order
    try:
        for values, places in zip(lists, (order, order, changing), strict=True):
            values[:] = [values[i] for i in places]
        first, second = _models([condition, turn], t)
        given = [outside[i] for i in order]
        operands = {"condition_model": first, "body_model": second, "inputs": given}
        t.emit("WHILE", operands, [node.outputs[i] for i in changing])
    finally:  # what is refused becomes something else, which knows nothing of another order
        for values, before in zip(lists, kept, strict=True):
            values[:] = before
    for i in order[len(changing) :]:
        t.keep(node.operand(i), node.outputs[i])


EXPORTERS: dict[type[Op], Exporter] = {If: export_if, While: export_while}
