"""Moves a graph to the layout that its target wants, with few transposes.

Regions of moved values start at the spatial ops that fix the other layout. They grow forward and
backward through ops that don't care or only need an axis remapped (``Op.permute``), and constants
follow for free. A Transpose stands only where a region meets something that fixes the old order.

Three walks, all linear: two backward, to see which values are wanted moved and which lead to such
ones; one forward, to rewrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from nnconv.ir.graph import Graph, Node, Signature, Value
from nnconv.ir.op import Layout, Perm, Permuted
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Reshape, Transpose
from nnconv.ops.spatial import to_layout
from nnconv.passes.base import Pass
from nnconv.passes.layout_walk import (
    Moves,
    Walk,
    absorbed,
    flattens,
    growth,
    is_for_edge,
    is_seed,
    seed_perm,
)


class _Known(NamedTuple):
    """What is known of a graph before it changes.

    Attributes:
        moves: how nodes can work on moved operands.
        flowing: values that come moved out of what fixes the layout, or can.
        leading: values behind which nothing need be turned back.
        outputs: those that go out.
    """

    moves: Moves
    flowing: dict[Value, Perm]
    leading: set[Value]
    outputs: set[Value]


class LayoutPass(Pass):
    """Brings every spatial op into ``target``.

    Attributes:
        target: the layout wanted.
        edge: the entry point whose inputs and outputs, states left out, change their layout too
            where they have four dimensions or more and lie at the edge of a region; None: none do.
        moved_io: names of the inputs and outputs that did.
    """

    name: ClassVar[str] = "layout"

    def __init__(self, target: Layout, *, edge: Signature | None = None) -> None:
        """Choose the layout."""
        self.target = target
        self.edge = edge
        self.moved_io: list[str] = []

    def run(self, graph: Graph) -> bool:
        """Move one graph."""
        if not any(is_seed(node, self.target) for node in graph.nodes):
            return False
        moves = Moves(self.target)
        flowing = self._flowing(graph, moves)
        leading = self._leading(graph, moves)
        known = _Known(moves, flowing, leading, graph.output_set())
        walk = Walk(graph, moves, self._wanted(graph, known), leading)
        edge = self.edge if self.edge is not None and self.edge.graph is graph else None
        if edge is not None:
            self._move_inputs(graph, len(edge.inputs), walk)
        for node in graph.nodes:
            walk.visit(node)
        moved = walk.finish(0 if edge is None else len(edge.outputs))
        self.moved_io = list(dict.fromkeys([*self.moved_io, *moved]))
        return True

    def broken(self, graph: Graph) -> str:
        """Every spatial op of known rank works in the layout wanted."""
        left = [node for node in graph.nodes if seed_perm(node, self.target) is not None]
        return f"still has {left[0]!r}" if left else ""

    def _wanted(self, graph: Graph, known: _Known) -> dict[Value, Perm]:
        """The transpose in which all readers of a value want it; values that go out have none."""
        wishes: dict[Value, dict[Perm, int]] = {}
        wanted: dict[Value, Perm] = {}
        outputs = known.outputs

        def settle(value: Value) -> Perm | None:
            counts = wishes.get(value, {})
            if len(counts) != 1 or value in outputs:
                return None
            perm, count = next(iter(counts.items()))
            return perm if count == value.use_count else None

        def wish(node: Node, perms: Sequence[Perm | None]) -> None:
            for source, perm in zip(node.inputs, perms, strict=False):
                if source is not None and perm is not None and source.type.rank == len(perm):
                    counts = wishes.setdefault(source, {})
                    counts[perm] = counts.get(perm, 0) + 1

        for node in graph.nodes_reversed:
            read = [v for v in node.outputs if v.use_count or v in outputs]
            settled = {settle(v) for v in read if v.type.rank not in (0, 1)}
            perm = known.moves.seed(node)
            if perm is not None:
                permuted = known.moves(node, perm)
            else:
                perm = settled.pop() if len(settled) == 1 else None
                permuted = None if perm is None else known.moves.back(node, perm)
            if permuted is not None and self._worthwhile(node, permuted, known.flowing):
                if perm is not None:
                    results = zip(node.outputs, permuted.results, strict=True)
                    wanted.update((value, perm) for value, perm in results if perm is not None)
                wish(node, permuted.operands)
                continue
            turned = _turned_before(node, known.flowing) if permuted is None else None
            if turned is not None:
                wish(node, turned.operands)
            else:
                wish(node, self._goes_on(node, known))
        for entry in graph.inputs:
            perm = settle(entry)
            if perm is not None:
                wanted[entry] = perm
        return wanted

    def _leading(self, graph: Graph, moves: Moves) -> set[Value]:
        """Values from which ops that follow lead to one that wants them moved or ends all moving.

        Behind a reduction or a transpose of the source nothing may be left to turn back.
        """
        usual: dict[Value, Perm] = {}
        steps: list[tuple[Node, Permuted | None]] = []
        for node in graph.nodes:
            first = node.inputs[0] if node.inputs else None
            if first is None or first.shape is None or len(first.shape) < 3:
                continue
            perm = usual.get(first) or to_layout(self.target, len(first.shape))
            permuted = moves(node, perm)
            steps.append((node, permuted))
            results = zip(node.outputs, permuted.results if permuted else (), strict=False)
            usual.update((value, perm) for value, perm in results if perm is not None)
        leading: set[Value] = set()
        outputs = graph.output_set()
        for node, permuted in reversed(steps):
            if permuted is None:
                leading.update(self._ends(node, usual, outputs))
            elif (
                is_seed(node, self.target)
                or None in permuted.results
                or any(value in leading for value in node.outputs)
            ):
                moving = zip(node.inputs, permuted.operands, strict=True)
                leading.update(v for v, perm in moving if v is not None and perm is not None)
        return leading

    def _goes_on(self, node: Node, known: _Known) -> Sequence[Perm | None]:
        """What a node wants of its operands that takes them moved and need not turn them back."""
        flowing = known.flowing
        perm = next((flowing[v] for v in node.inputs if v is not None and v in flowing), None)
        permuted = None if perm is None else known.moves(node, perm)
        if permuted is None:
            ends = set(self._ends(node, flowing, known.outputs))
            return [flowing[v] if v is not None and v in ends else None for v in node.inputs]
        results = zip(node.outputs, permuted.results, strict=True)
        if not all(perm is None or value in known.leading for value, perm in results):
            return ()
        return permuted.operands if self._worthwhile(node, permuted, known.flowing) else ()

    def _ends(self, node: Node, usual: dict[Value, Perm], outputs: set[Value]) -> list[Value]:
        """Operands that a node takes moved for nothing, though its results are none the wiser."""
        return [
            value
            for index, value in enumerate(node.inputs)
            if value is not None
            and value in usual
            and (
                absorbed(node, index, usual[value], self.target) is not None
                or (index == 0 and flattens(node, usual[value], self.target, outputs))
            )
        ]

    def _flowing(self, graph: Graph, moves: Moves) -> dict[Value, Perm]:
        """Values behind ops that fix the layout which all ops on the way can hand on moved."""
        flowing: dict[Value, Perm] = {}
        for node in graph.nodes:
            perm = moves.seed(node) or next(
                (flowing[v] for v in node.inputs if v is not None and v in flowing), None
            )
            permuted = None if perm is None else moves(node, perm)
            if permuted is not None:
                results = zip(node.outputs, permuted.results, strict=True)
                flowing.update((value, perm) for value, perm in results if perm is not None)
        return flowing

    def _worthwhile(self, node: Node, permuted: Permuted, flowing: dict[Value, Perm]) -> bool:
        """Whether moving a node's operands instead of its results takes no more transposes."""
        if is_seed(node, self.target):
            return True
        if permuted.order is not None and (
            self.target is not Layout.NHWC
            or any(constant_behind(v) is not None for v in node.inputs if v is not None)
        ):
            return False  # products with weights have them second; see ``absorbed``
        moving = {
            value
            for value, wish in zip(node.inputs, permuted.operands, strict=True)
            if value is not None and wish is not None and constant_behind(value) is None
            if flowing.get(value) != wish
        }
        shrinks = growth(node, self.target) < 0
        if (shrinks or isinstance(node.op, ResizeBilinear)) and self.edge is None:
            return all(value.producer is not None for value in moving)
        return len(moving) <= 1

    def _move_inputs(self, graph: Graph, count: int, walk: Walk) -> None:
        for index, value in enumerate(graph.inputs[:count]):
            perm = walk.wanted.get(value)
            if perm is not None and is_for_edge(perm, self.target):
                moved = Value(value.name, value.type.permuted(perm), origin=value.origin)
                graph.inputs[index] = moved
                walk.replace(value, perm, moved)
                self.moved_io.append(value.name)


def _turned_before(node: Node, flowing: dict[Value, Perm]) -> Permuted | None:
    """A Transpose behind a Reshape of a moved value as what would better stand before that.

    There one transpose does for both what is turned back and what the source turns.
    """
    value = node.inputs[0] if isinstance(node.op, Transpose) else None
    before = value.producer if value is not None else None
    if before is None or not isinstance(before.op, Reshape) or before.inputs[0] not in flowing:
        return None
    perm: Perm | None = node.op.perm  # type: ignore[attr-defined]
    return None if perm is None else node.op.permute_back(tuple(range(len(perm))), node.input_types)
