"""Loops that collect what their turns give.

In the IR a collection starts empty and each turn joins its part to the end. LiteRT's WHILE fails on
an empty value, and its copies grow with the collection. So where only a counter ends the loop there
is room for all turns from the start, and a turn writes its part into its place; else the collection
starts with one row of zeros, which is cut off behind the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnconv.decompositions.base import Decomposition
from nnconv.decompositions.branches import choose_branch, write_turns
from nnconv.decompositions.steps import zeros
from nnconv.decompositions.turns import count_of, turns_of
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.control import If, While
from nnconv.ops.elementwise import Maximum, Mul
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, Reshape, Unsqueeze
from nnconv.ops.slices import DynamicUpdateSlice, Slice


class Collection(NamedTuple):
    """What a loop collects.

    Attributes:
        place: its number among what the loop carries.
        joint: the Concat in the body, of the collection and a turn's part.
    """

    place: int
    joint: Node


def collections(node: Node) -> list[Collection]:
    """The collections of a While that start empty."""
    condition, turn = node.bodies
    found = []
    for place, first in enumerate(node.inputs):
        before, after, asked = turn.inputs[place], turn.outputs[place], condition.inputs[place]
        shape = None if first is None or first.data is None else static_shape(first.shape)
        joint = after.producer
        if not shape or shape[0] or joint is None or joint.op != Concat(axis=0):
            continue
        if joint.inputs[0] is not before or before.use_count != 1 or len(joint.inputs) != 2:
            continue
        if asked.use_count or asked in condition.outputs or before in turn.outputs:
            continue
        found.append(Collection(place, joint))
    return found


def decompose_while(node: Node, b: Builder) -> list[Value] | None:
    """While: collections that start with something; without bodies its turns, written out."""
    if not b.means.bodies:
        return _as_turns(node, b)
    found = collections(node)
    if not found:
        return None
    condition, turn = node.bodies
    turns = count_of(node, condition.outputs[0].producer)
    if turns is not None and turns.limit.data is not None and turns.limit.data.max(initial=0) < 1:
        turns = None
    operands: list[Value | None] = list(node.inputs)
    count = None if turns is None or turns.limit.data is not None else _at_least_0(b, turns.limit)
    cut, full = [], []
    for place, joint in found:
        first, part = operands[place], joint.operand(1)
        assert first is not None
        shape = (first.shape or ())[1:]
        widening = part.producer
        single = widening is not None and widening.op == Unsqueeze(axes=(0,))
        if turns is None or not single or 0 in shape:
            ones = (1, *(d if isinstance(d, int) else 1 for d in shape))
            kind = TensorType(first.dtype, ones, first.quant)
            data = np.zeros(ones, first.dtype.numpy)
            operands[place] = Value(first.name, kind, data=data, origin=first.origin)
            cut.append(place)
        else:
            limit = turns.limit if count is None else b.add(Maximum(), [count, _number(b, 1)])
            room = _room(b, first, limit, [int(d) for d in shape if isinstance(d, int)])
            operands[place] = room
            if count is not None:
                full.append(place)
            _write(turn, joint, turn.inputs[turns.place], place, room.type, b)
            for value in (turn.inputs[place], condition.inputs[place]):
                value.type = room.type
    types = While().infer_node([None if v is None else v.type for v in operands], node.bodies)
    results = list(b.add_typed(While(), operands, types, bodies=node.bodies))
    for place in cut:
        rank = results[place].type.rank or 1
        behind = Slice(starts=(1, *[0] * (rank - 1)), ends=(None,) * rank, strides=(1,) * rank)
        results[place] = b.add(behind, [results[place]])
    for place in full:
        assert count is not None
        results[place] = _first_of(b, results[place], count)
    return results


def _as_turns(node: Node, b: Builder) -> list[Value] | None:
    """The turns of a While whose number, or what ends it at the latest, is known."""
    known = turns_of(node)
    return None if known is None else write_turns(node, b, known)


def _number(b: Builder, number: int) -> Value:
    return b.const(np.asarray([number], np.int32))


def _at_least_0(b: Builder, turns: Value) -> Value:
    """How many turns there are, int32 [1]: a count below 0 means none."""
    count = b.add(Reshape(shape=(1,)), [b.add(Cast(dtype=DType.INT32), [turns])])
    return b.add(Maximum(), [count, _number(b, 0)])


def _first_of(b: Builder, collected: Value, count: Value) -> Value:
    """As many rows as there were turns: there is room for one more where there was none."""
    rank = collected.type.rank or 1
    ends = [count, *[_number(b, np.iinfo(np.int32).max)] * (rank - 1)]
    end = ends[0] if rank == 1 else b.add(Concat(axis=0), ends)
    cut = Slice(starts=(0,) * rank, ends=None, strides=(1,) * rank)
    return b.add(cut, [collected, None, end, None])


def _room(b: Builder, first: Value, turns: Value, rest: Sequence[int]) -> Value:
    """Zeros for each of so many turns."""
    if turns.data is not None:
        count = int(turns.data.reshape(-1)[0])
        room = zeros(b, first.dtype, turns, (count, *rest))
    else:
        room = zeros(b, first.dtype, turns, (None, *rest))
    room.type = TensorType(first.dtype, room.shape, first.quant)
    return room


def _write(
    turn: Graph, joint: Node, counter: Value, place: int, kind: TensorType, b: Builder
) -> None:
    """Let a turn write its part into its place."""
    inner = Builder(turn, before=joint, origin=b.origin)
    rank = kind.rank or 1
    unit = np.zeros((rank,), counter.dtype.numpy)
    unit[0] = 1
    start = inner.add(Mul(), [counter, inner.const(unit)])
    update = [turn.inputs[place], joint.inputs[1], start]
    (written,) = inner.add_typed(DynamicUpdateSlice(), update, [kind])
    old = joint.outputs[0]
    old.replace_all_uses_with(written)
    turn.replace_output(old, written)
    turn.remove(joint)


DECOMPOSITIONS: dict[type[Op], tuple[Decomposition, ...]] = {
    If: (choose_branch,),
    While: (decompose_while,),
}
