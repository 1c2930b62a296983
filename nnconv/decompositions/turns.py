"""How many turns a While has, by what its condition asks and its body counts."""

from __future__ import annotations

from typing import NamedTuple

from nnconv.ir.graph import Node, Value
from nnconv.ops.elementwise import Add, Less, LogicalAnd


class Count(NamedTuple):
    """What a loop counts by ones, up to a limit that ends it.

    Attributes:
        place: its number among what the loop carries.
        start: what it begins with.
        limit: what it stays below, outside the loop; from 0 on that is the number of turns.
    """

    place: int
    start: int
    limit: Value

    @property
    def turns(self) -> int | None:
        """How many turns there are, if that is known; below 0 there are none."""
        limit = self.limit.data
        if limit is None or limit.size != 1:
            return None
        return int(limit.reshape(-1)[0]) - self.start


def count_of(node: Node, test: Node | None) -> Count | None:
    """The number of turns, if ``test``, in a While's condition, holds it against those done."""
    count = counter_of(node, test)
    return count if count is not None and count.start == 0 else None


def counter_of(node: Node, test: Node | None) -> Count | None:
    """The same, but counted from any number on."""
    condition, turn = node.bodies
    if test is None or not isinstance(test.op, Less):
        return None
    asked, bound = test.inputs
    if asked not in condition.inputs or bound is None:
        return None
    place = condition.inputs.index(asked)
    before, after = turn.inputs[place], turn.outputs[place]
    first, step = node.inputs[place], after.producer
    if first is None or first.data is None or first.data.size != 1 or not first.dtype.is_integer:
        return None
    if step is None or not isinstance(step.op, Add) or step.inputs[0] is not before:
        return None
    one = step.inputs[1]
    if one is None or one.data is None or one.data.size != 1 or one.data.reshape(-1)[0] != 1:
        return None
    start = int(first.data.reshape(-1)[0])
    if bound.data is not None:
        return Count(place, start, bound)
    if bound not in condition.inputs:
        return None
    kept = condition.inputs.index(bound)
    outer = node.inputs[kept]
    if outer is None or turn.inputs[kept] is not turn.outputs[kept]:
        return None
    return Count(place, start, outer)


class Turns(NamedTuple):
    """What is known of a loop's turns.

    Attributes:
        most: how many there are at most.
        is_exact: whether there are so many for sure.
        starts: by their places among what the loop carries, what numbers that count the turns
            begin with.
    """

    most: int
    is_exact: bool
    starts: dict[int, int]


def turns_of(node: Node) -> Turns | None:
    """The turns of a While whose number, or what ends it at the latest, is known."""
    (asked,) = node.bodies[0].outputs
    tests = _asked(asked)
    counts = [count for test in tests if (count := counter_of(node, test)) is not None]
    known = [(count, turns) for count in counts if (turns := count.turns) is not None]
    if not known:
        return None
    most = max(min(turns for _, turns in known), 0)
    starts = {count.place: count.start for count, _ in known}
    return Turns(most, len(known) == len(tests), starts)


def _asked(condition: Value) -> list[Node | None]:
    """What makes the conditions that must all hold."""
    node = condition.producer
    if node is None or not isinstance(node.op, LogicalAnd):
        return [node]
    return [test for v in node.inputs if v is not None for test in _asked(v)]
