"""Control flow. Bodies read outer values by name; a loop carries only what changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnconv.decompositions.turns import Count, count_of
from nnconv.errors import UnsupportedItem
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.formats.refusals import NotExportable
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ops.control import If, While
from nnconv.ops.elementwise import LogicalAnd
from nnconv.ops.shape import Concat, Unsqueeze


def export_if(node: Node, t: Target) -> None:
    """If: the branches have no inputs."""
    condition = node.operand(0)
    operands = node.inputs[1:]
    flag = _scalar(t, condition)
    columns = list(zip(node.outputs, *(body.outputs for body in node.bodies), strict=True))
    inside = [_all_resigned(t, column) for column in columns]
    branches = []
    refused: list[UnsupportedItem] = []
    for body, name in zip(node.bodies, ("then", "else"), strict=True):
        inner = t.inner()
        for outer, value in zip(operands, body.inputs, strict=True):
            assert outer is not None
            _capture(inner, value, t, outer, body)
        refused += _run(inner, body, node)
        branches.append(_finished(inner, name, [], list(zip(body.outputs, inside, strict=True))))
    _refuse(refused)
    results = t.nodes_of(
        "If", [flag], len(node.outputs), then_branch=branches[0], else_branch=branches[1]
    )
    for value, name, resigned in zip(node.outputs, results, inside, strict=True):
        _give(t, value, name, inside=resigned)


class _Slot:
    """What a loop carries in one place.

    Attributes:
        result, first: the node's result and operand.
        asked: the condition's input.
        before, after: the turn's input and output.
        kept: whether all turns get the same.
        scans: whether ``after`` is one turn's element of what the turns collect (see ``_element``).
        rules: whether it is what the loop's end is told by.
        inside: whether it crosses the border in the form in which int8 codes are kept inside.
    """

    __slots__ = ("after", "asked", "before", "first", "inside", "kept", "result", "rules", "scans")

    def __init__(
        self, t: Target, result: Value, first: Value, asked: Value, before: Value, after: Value
    ) -> None:
        self.result, self.first, self.asked = result, first, asked
        self.before, self.after = before, after
        self.kept = before is after
        self.scans = self.rules = False
        self.inside = _all_resigned(t, (result, first, asked, before, after))


def export_while(node: Node, t: Target) -> None:
    """While: a Loop that ends as ONNX's do, by a number of turns, a flag that is carried, or both.

    Else the condition stands before the Loop and, for the next turn, at its body's end.
    """
    condition, turn = node.bodies
    first = [v for v in node.inputs if v is not None]
    rows = zip(node.outputs, first, condition.inputs, turn.inputs, turn.outputs, strict=True)
    slots = [_Slot(t, *row) for row in rows]
    end = _end_of(node)
    for place, slot in enumerate(slots):
        element = _element(slot, turn, condition)
        if element is not None:
            slot.after, slot.scans = element, True
        slot.rules = end is not None and place in (end.counted and end.counted.place, end.flag)
    if end is not None and end.counted is not None:
        _drop(turn, slots[end.counted.place])
    carried = [s for s in slots if not s.kept and not s.scans and not s.rules]
    changing = [*carried, *(s for s in slots if s.scans)]

    refused: list[UnsupportedItem] = []
    if end is None:
        for slot in slots:
            _capture(t, slot.asked, t, slot.first, condition)
        refused += _run(t, condition, node)
    inner = t.inner()
    number, asked = t.names.unique("turn"), t.names.unique("go_on")
    inputs = [
        wire.ValueInfo(number, wire.DataType.INT64, ()),
        wire.ValueInfo(asked, wire.DataType.BOOL, ()),
    ]
    for place, slot in enumerate(slots):
        if slot.kept:
            _capture(inner, slot.before, t, slot.first, turn)
        if slot.rules and end is not None:
            counts = end.counted is not None and place == end.counted.place
            _give(inner, slot.before, number if counts else asked, inside=False)
        if slot.kept or slot.scans or slot.rules:
            continue
        name = t.names.unique(slot.before.name)
        inputs.append(_info(name, slot.before, resigned=slot.inside))
        _give(inner, slot.before, name, inside=slot.inside)
    refused += _run(inner, turn, node)
    _refuse(refused)
    if end is None:
        again = _asked_again(inner, t, node, slots)
        ends = ["", _scalar(t, condition.outputs[0])]
    else:
        again = asked if end.flag is None else _scalar(inner, slots[end.flag].after)
        ends = ["" if end.counted is None else _scalar(t, end.counted.limit)]
        ends.append("" if end.flag is None else _scalar(t, slots[end.flag].first))
    outputs = [(slot.after, slot.inside) for slot in changing]
    body = _finished(inner, "turn", inputs, outputs, go_on=again)
    given = [_name(t, slot.first, inside=slot.inside) for slot in carried]
    results = t.nodes_of("Loop", [*ends, *given], len(changing), body=body) if changing else []
    for slot, name in zip(changing, results, strict=True):
        _give(t, slot.result, name, inside=slot.inside)
    for slot in slots:
        if slot.kept:
            _transfer(t, slot.result, t, slot.first)
        elif slot.rules:
            t.set_stored(slot.result, "")  # nothing reads it


def _asked_again(inner: Target, t: Target, node: Node, slots: Sequence[_Slot]) -> str:
    """The condition of the next turn, at the end of the body."""
    condition = node.bodies[0]
    for slot in slots:
        if slot.kept:
            _capture(inner, slot.asked, t, slot.first, condition)
        elif not slot.scans:
            _capture(inner, slot.asked, inner, slot.after, condition)
    _run(inner, condition, node)
    return _scalar(inner, condition.outputs[0])


class _End(NamedTuple):
    """How an ONNX loop ends.

    Attributes:
        counted: by the number of turns.
        flag: the place of a flag among what is carried.
    """

    counted: Count | None
    flag: int | None


def _end_of(node: Node) -> _End | None:
    """How a loop ends, if that is how ONNX's do."""
    condition, turn = node.bodies
    graph = node.graph
    assert graph is not None
    test = condition.outputs[0].producer
    both = test is not None and isinstance(test.op, LogicalAnd)
    parts = [v for v in test.inputs if v is not None] if both and test else condition.outputs
    count: Count | None = None
    flag: int | None = None
    for part in parts:
        if part in condition.inputs and flag is None:
            flag = condition.inputs.index(part)
            continue
        if count is not None:
            return None
        count = count_of(node, part.producer)
        if count is None:
            return None
    going_out = graph.output_set()
    ruling = [flag, None if count is None else count.place]
    for place in ruling:
        if place is None:
            continue
        result = node.outputs[place]
        if result.use_count or result in going_out:
            return None
    if count is not None and turn.inputs[count.place].dtype is not DType.INT64:
        return None
    if count is not None and count.limit.dtype is not DType.INT64:
        return None
    return _End(count, flag)


def _drop(turn: Graph, slot: _Slot) -> None:
    """Take out what counts the turns, if nothing else asks for it."""
    node = slot.after.producer
    if node is not None and not slot.after.use_count and turn.outputs.count(slot.after) == 1:
        turn.replace_output(slot.after, slot.before)
        turn.remove(node)


def _element(slot: _Slot, turn: Graph, condition: Graph) -> Value | None:
    """What one turn adds to a collection that starts empty and that nothing else reads.

    The nodes that join it to the collection are taken out of the body: ONNX's Loop does that.
    """
    joint = slot.after.producer
    empty = slot.first.data is not None and slot.first.shape and slot.first.shape[0] == 0
    if not empty or joint is None or joint.op != Concat(axis=0) or len(joint.inputs) != 2:
        return None
    before, one = joint.inputs
    if before is not slot.before or before.use_count != 1 or turn.outputs.count(slot.after) != 1:
        return None
    if slot.asked.use_count or slot.asked in condition.outputs or slot.after.use_count:
        return None
    widening = None if one is None else one.producer
    if widening is None or widening.op != Unsqueeze(axes=(0,)) or one in turn.outputs:
        return None
    element = widening.operand(0)
    if element.quant != slot.first.quant or one is None or one.use_count != 1:
        return None
    turn.replace_output(slot.after, element)
    turn.remove(joint)
    turn.remove(widening)
    return element


def _all_resigned(t: Target, values: Sequence[Value]) -> bool:
    return all(t.is_resigned(value) for value in values)


def _name(t: Target, value: Value, *, inside: bool) -> str:
    return t.codes(value) if inside else t.stored(value)


def _give(t: Target, value: Value, name: str, *, inside: bool) -> None:
    if inside:
        t.set_codes(value, name)
    else:
        t.set_stored(value, name)


def _transfer(inner: Target, value: Value, t: Target, outer: Value) -> None:
    """Let ``value`` be what ``outer`` is in ``t``, in the inner form where both have it."""
    inside = inner.is_resigned(value) and t.is_resigned(outer)
    _give(inner, value, _name(t, outer, inside=inside), inside=inside)


def _capture(inner: Target, value: Value, t: Target, outer: Value, body: Graph) -> None:
    """Let an input of a body be an outer value, if the body reads it."""
    if not value.use_count and value not in body.outputs:
        return
    inside = inner.is_resigned(value) and t.is_resigned(outer)
    name = _name(t, outer, inside=inside)
    if inner is not t and t.is_quantized(outer) and outer.producer is not None:
        name = _held(t, outer, name)
    _give(inner, value, name, inside=inside)


def _held(t: Target, value: Value, name: str) -> str:
    """Codes as a node gives them that onnxruntime doesn't take out.

    Where it takes out a QuantizeLinear that bodies alone read, it ends the process.
    """
    rank = value.type.rank
    return name if rank is None else t.node("Reshape", [name, t.const(np.zeros(rank, np.int64))])


def _run(t: Target, graph: Graph, node: Node) -> list[UnsupportedItem]:
    """Export the nodes of a body, whose inputs have been given; returns what ONNX can't hold."""
    refused = t.run(graph)
    t.current = node
    return refused


def _refuse(items: Sequence[UnsupportedItem]) -> None:
    if items:
        raise NotExportable(*items)


def _scalar(t: Target, condition: Value) -> str:
    """A condition, which may have any rank, as a scalar."""
    name = t.stored(condition)
    return name if condition.shape == () else t.reshape(name, ())


def _info(name: str, value: Value, *, resigned: bool) -> wire.ValueInfo:
    """The declaration of a body's input or output; extents that aren't numbers are left open."""
    dtype = DType.UINT8 if resigned else value.dtype
    dims = value.shape and tuple(d if isinstance(d, int) else None for d in value.shape)
    return wire.ValueInfo(name, DATA_TYPES[dtype], dims)


def _finished(
    inner: Target,
    name: str,
    inputs: Sequence[wire.ValueInfo],
    outputs: Sequence[tuple[Value, bool]],
    *,
    go_on: str | None = None,
) -> wire.Graph:
    """The ONNX graph of a body; each output is made inside it, and made once."""
    wanted = [] if go_on is None else [go_on]
    wanted += [_name(inner, value, inside=inside) for value, inside in outputs]
    made = {result for node in inner.nodes for result in node.outputs}
    infos: list[wire.ValueInfo] = []
    for index, source in enumerate(wanted):
        result = source if source in made else inner.node("Identity", [source])
        made.discard(source)
        if go_on is not None and not index:
            infos.append(wire.ValueInfo(result, wire.DataType.BOOL, ()))
        else:
            value, inside = outputs[index - (go_on is not None)]
            infos.append(_info(result, value, resigned=inside))
    return wire.Graph(inner.names.unique(name), inner.nodes, inputs, infos, inner.initializers)


EXPORTERS: dict[type[Op], Exporter] = {If: export_if, While: export_while}
