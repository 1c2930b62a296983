"""Loops and branches for formats that have no bodies: turns written out, both branches computed.

A loop whose number of turns is known becomes its turns, one after the other. Where a condition may
end it before, each turn's results are taken as long as the condition held. Of a branch both bodies
are computed, and one's results are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from nnconv.decompositions.turns import Turns, turns_of
from nnconv.ir.builder import Builder
from nnconv.ir.clone import clone_graph
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, merge_shapes, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import gather
from nnconv.ops.control import If, While
from nnconv.ops.numeric import TruncatedMod
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Identity, Reshape, Squeeze, Unsqueeze

MOST_NODES = 1 << 14
"""So many nodes are written at most: loops of more turns have no form."""


def inline(b: Builder, body: Graph, operands: Sequence[Value]) -> list[Value]:
    """Add the nodes of a body that gets ``operands``; gives its results.

    Extents that the body leaves open are known where the operands' are.
    """
    values = dict(zip(body.inputs, operands, strict=True))

    def taken(value: Value) -> Value:
        return value if value.data is not None else values[value]

    for node in body.nodes:
        inputs = [None if v is None else taken(v) for v in node.inputs]
        bodies = [clone_graph(inner)[0] for inner in node.bodies]
        types = node.op.infer_node([None if v is None else v.type for v in inputs], bodies)
        kinds = [
            TensorType(old.dtype, merge_shapes(old.shape, new.shape), old.type.quant)
            for old, new in zip(node.outputs, types, strict=True)
        ]
        names = [v.name for v in node.outputs]
        made = b.add_typed(node.op, inputs, kinds, names=names, bodies=bodies)
        values.update(zip(node.outputs, made, strict=True))
    return [taken(v) for v in body.outputs]


def write_turns(node: Node, b: Builder, turns: Turns) -> list[Value] | None:
    """A While as its turns; None if these are too many, or may fail once the loop has ended."""
    condition, turn = node.bodies
    each = sum(1 for body in node.bodies for _ in body.nodes)
    counters = _counters(turn, turns)
    if turns.most * each > MOST_NODES or not (turns.is_exact or _may_run_idle(turn, counters)):
        return None
    carried = [v for v in node.inputs if v is not None]
    types = {place: carried[place].type for place in turns.starts}
    going: Value | None = None
    for number in range(turns.most):
        known = list(carried)
        for place, start in turns.starts.items():
            shape, kind = static_shape(types[place].shape) or (), types[place].dtype.numpy
            known[place] = b.const(np.full(shape, start + number, kind))
        if not turns.is_exact:
            (asked,) = inline(b, condition, known)
            going = asked if going is None else b.add(e.LogicalAnd(), [going, asked])
        after = inline(b, turn, known)
        if going is not None:
            chosen = _chosen(b, going, after, carried)
            if chosen is None:
                return None
            after = chosen
        carried = after
    return carried


def _chosen(
    b: Builder, condition: Value, these: Sequence[Value], others: Sequence[Value]
) -> list[Value] | None:
    """``these`` where the condition holds, else ``others``; None where extents may differ.

    Open extents are equal where they have the same name.
    """
    results = []
    for this, other in zip(these, others, strict=True):
        if this is other:
            results.append(this)
            continue
        shape = this.shape
        if shape is None or None in shape or shape != other.shape:
            return None
        if this.type.quant != other.type.quant:
            return None
        chosen = b.add_typed(
            e.Select(), [_of_rank(b, condition, len(shape)), this, other], [this.type]
        )
        results.append(chosen[0])
    return results


def _of_rank(b: Builder, condition: Value, rank: int) -> Value:
    """A condition of one element with no more dimensions than what it chooses from."""
    if condition.type.rank is not None and condition.type.rank <= rank:
        return condition
    return b.add(Reshape(shape=()), [condition])


_CAN_FAIL: tuple[type[Op], ...] = (
    gather.Gather, gather.GatherNd, gather.GatherElements, gather.ScatterNd,
    gather.ScatterElements, gather.TensorScatter,
)  # fmt: skip
"""Ops that fail for some operands."""

_CAN_FAIL_ON_INTEGERS: tuple[type[Op], ...] = (e.Div, e.FloorDiv, e.FloorMod, TruncatedMod)

Counters: TypeAlias = "dict[Value, range]"
"""What values of a body count from turn to turn."""


def _counters(turn: Graph, turns: Turns) -> Counters:
    """What counts the turns of a loop, in its body."""
    starts = turns.starts.items()
    return {turn.inputs[place]: range(first, first + turns.most) for place, first in starts}


def _may_run_idle(body: Graph, counters: Counters) -> bool:
    """Whether a body computes something for any operands, so that it may run for nothing."""
    return all(_cannot_fail(node, counters) for node in body.nodes)


def _cannot_fail(node: Node, counters: Counters) -> bool:
    op = node.op
    if isinstance(op, While):
        turns = turns_of(node)
        if turns is None or not turns.is_exact:
            return False  # it need not end
        condition, turn = node.bodies
        return _may_run_idle(condition, {}) and _may_run_idle(turn, _counters(turn, turns))
    if isinstance(op, If):
        return all(_may_run_idle(body, {}) for body in node.bodies)
    if op.draws or (isinstance(op, _CAN_FAIL_ON_INTEGERS) and node.outputs[0].dtype.is_integer):
        return False
    return not isinstance(op, _CAN_FAIL) or _takes_what_is_there(node, counters)


def _takes_what_is_there(node: Node, counters: Counters) -> bool:
    """Whether a Gather takes what there surely is, by indices that are known."""
    op = node.op
    if not isinstance(op, gather.Gather):
        return False
    x, places = node.operand(0), _numbers_of(node.operand(1), counters)
    extent = None if x.shape is None else x.shape[op.axis]
    if places is None or not isinstance(extent, int):
        return False
    return bool(((places >= -extent) & (places < extent)).all())


def _numbers_of(value: Value, counters: Counters) -> np.ndarray | None:
    """All that integers may be, if it is known."""
    while value.data is None and value not in counters:
        made = value.producer
        if made is None or not isinstance(made.op, _KEEPS_NUMBERS) or value.dtype not in _COUNTS:
            return None
        value = made.operand(0)
    return np.asarray(counters[value]) if value.data is None else value.data


_COUNTS = (DType.INT32, DType.INT64)

_KEEPS_NUMBERS: tuple[type[Op], ...] = (Cast, Identity, Reshape, Squeeze, Unsqueeze)


def choose_branch(node: Node, b: Builder) -> list[Value] | None:
    """An If: of a known condition one body, else both, of whose results one's are taken."""
    condition, operands = node.operand(0), [v for v in node.inputs[1:] if v is not None]
    if condition.data is not None:
        return inline(b, node.bodies[0 if condition.data.all() else 1], operands)
    if b.means.bodies or not all(_may_run_idle(body, {}) for body in node.bodies):
        return None
    results, others = (inline(b, body, operands) for body in node.bodies)
    return _chosen(b, condition, results, others)
