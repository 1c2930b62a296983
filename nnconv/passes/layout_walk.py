"""The layout pass's forward rewrite: which nodes work on moved values, and what they get."""

from __future__ import annotations

from collections import Counter

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Use, Value
from nnconv.ir.op import Layout, LayoutKind, Op, Perm, Permuted
from nnconv.ir.types import static_shape
from nnconv.ops.gather import TopK
from nnconv.ops.norm import L2Normalization, LogSoftmax, Softmax
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Identity, Reshape, Transpose
from nnconv.ops.spatial import IMAGE_RANK, is_sorted, regroups, to_layout
from nnconv.passes.layout_moves import columns_behind, keeps_order, lifted, moved_by

_LAST_AXIS_OPS = (Softmax, LogSoftmax, L2Normalization)
"""Ops that are faster along the last dimension, where a transpose is due anyway."""


def is_seed(node: Node, target: Layout) -> bool:
    """Whether a node fixes another layout than the one wanted.

    Channels first suits more ops than channels last, which is all that the formats that have it
    know: there even those that could do otherwise must move.
    """
    return _is_elsewhere(node.op, target)


def _is_elsewhere(op: Op, target: Layout) -> bool:
    fixed = op.layout_kind is LayoutKind.IMPLICIT or target is Layout.NHWC
    return fixed and getattr(op, "layout", target) is not target


def seed_perm(node: Node, target: Layout) -> Perm | None:
    """The transpose in which such a node wants its first operand; None if that has no rank."""
    first = node.inputs[0] if node.inputs else None
    if not is_seed(node, target) or first is None or first.shape is None:
        return None
    return to_layout(target, len(first.shape))


class Moves:
    """How nodes can work on moved operands, each asked once: their types stay as they are."""

    def __init__(self, target: Layout) -> None:
        """Say where to."""
        self.target = target
        self._known: dict[tuple[Node, Perm], Permuted | None] = {}
        self._seeds: dict[Node, Perm | None] = {}

    def seed(self, node: Node) -> Perm | None:
        """``seed_perm`` of a node."""
        try:
            return self._seeds[node]
        except KeyError:
            found = self._seeds[node] = seed_perm(node, self.target)
            return found

    def __call__(self, node: Node, perm: Perm) -> Permuted | None:
        """The op for data transposed by ``perm``; None if it can't follow, or had better not."""
        try:
            return self._known[node, perm]
        except KeyError:
            found = self._known[node, perm] = self._move(node, perm)
            return found

    def _move(self, node: Node, perm: Perm) -> Permuted | None:
        permuted = node.op.permute(perm, node.input_types)
        if permuted is not None and (
            loses_last_axis(node, permuted, self.target)
            or _is_elsewhere(permuted.op, self.target)  # models may mix layouts
        ):
            return None
        return permuted

    def back(self, node: Node, perm: Perm) -> Permuted | None:
        """The op whose results come out transposed by ``perm``, but for vectors; None as before."""
        if type(node.op).permute_back is not Op.permute_back:
            permuted = node.op.permute_back(perm, node.input_types)
            lost = permuted is not None and loses_last_axis(node, permuted, self.target)
            return None if lost else permuted
        permuted = self(node, perm)
        if permuted is None:
            return None
        results = zip(node.outputs, permuted.results, strict=True)
        moved = all(result == perm or v.type.rank in (0, 1) for v, result in results)
        return permuted if moved else None

    def follows(self, use: Use, perm: Perm, outputs: set[Value]) -> bool:
        """Whether a reader can take its operand transposed by ``perm``."""
        return (
            self(use.node, perm) is not None
            or absorbed(use.node, use.index, perm, self.target) is not None
            or flattens(use.node, perm, self.target, outputs)
        )


def absorbed(node: Node, index: int, perm: Perm, target: Layout) -> Op | None:
    """The op that takes one operand transposed and gives the same result.

    Only for channels last: the formats of the other layout have no such ops, they spell the
    transpose.
    """
    if target is not Layout.NHWC:
        return None
    return node.op.absorb(index, perm, node.input_types)


def flattens(node: Node, perm: Perm, target: Layout, outputs: set[Value]) -> bool:
    """Whether a Reshape may take the moved value as it is, what reads it being turned instead."""
    value, op = node.inputs[0] if node.inputs else None, node.op
    if not isinstance(op, Reshape) or op.shape is None or value is None or value.shape is None:
        return False
    if len(perm) != len(value.shape):
        return False
    if value.quant is not None and target is not Layout.NHWC and not keeps_order(value.type, perm):
        return False  # quantized files are channels-last: there is nothing to turn
    return keeps_order(value.type, perm) or columns_behind(node, perm, outputs) is not None


class Walk:
    """The forward rewrite.

    Attributes:
        wanted: values that all their readers want moved.
        leading: values worth keeping moved, since something behind them wants them so.
        moved: for a value of the old graph, a transpose and the value that went through it.
        native: for a value that is gone, the one that has its old order.
    """

    def __init__(
        self, graph: Graph, moves: Moves, wanted: dict[Value, Perm], leading: set[Value]
    ) -> None:
        self.graph = graph
        self.moves = moves
        self.target = moves.target
        self.wanted = wanted
        self.leading = leading
        self.moved: dict[Value, tuple[Perm, Value]] = {}
        self.native: dict[Value, Value] = {}
        self._gone: set[Value] = set()
        self._due: dict[Value, bool] = {}
        self._following: dict[tuple[Node, Perm], bool] = {}
        self._dead: list[Node] = []
        self._outputs = graph.output_set()

    def replace(self, value: Value, perm: Perm | None, new: Value) -> None:
        """Say that ``new``, ``value`` transposed by ``perm`` (None: as it was), stands for it."""
        self._gone.add(value)
        if perm is None:
            self.native[value] = new
        else:
            self.moved[value] = (perm, new)

    def visit(self, node: Node) -> None:
        """Rewrite one node, or give it its operands in the old order."""
        builder = Builder(self.graph, before=node, origin=node.origin)
        if isinstance(node.op, Reshape) and self._flatten(node, builder):
            return
        if isinstance(node.op, Transpose) and self._turn(node, node.op, builder):
            return
        permuted = self._choose(node)
        if permuted is not None:
            self._take_turns(self._rewrite(node, permuted, builder))
            return
        for index, value in enumerate(node.inputs):
            if value is None or value not in self._gone:
                continue
            if value not in self.native:
                perm, moved = self.moved[value]
                op = absorbed(node, index, perm, self.target)
                if op is not None:
                    node.op = op
                    node.replace_input_with(index, moved)
                    continue
            node.replace_input_with(index, self._native(value, builder))
        self._take_turns(node)

    def finish(self, movable: int) -> list[str]:
        """Give the graph its outputs and take out what was replaced.

        The first ``movable`` outputs go out moved if they only exist so; returns their names.
        """
        builder = Builder(self.graph)
        outputs: list[Value] = []
        placed: set[Value] = set()
        names: list[str] = []
        for index, value in enumerate(self.graph.outputs):
            moved = index < movable and value in self._gone and value not in self.native
            if moved and is_for_edge(self.moved[value][0], self.target):
                result = self.moved[value][1]
                names.append(value.name)
            else:
                result = self._native(value, builder)
            outputs.append(_named(result, value.name, placed, builder))
            placed.add(outputs[-1])
        self.graph.outputs = outputs
        for node in reversed(self._dead):
            self.graph.remove(node)
        return names

    def _choose(self, node: Node) -> Permuted | None:
        """How a node should work on moved values, or None for the old order."""
        seed = self.moves.seed(node)
        if seed is not None:
            return self.moves(node, seed)
        wish = next((self.wanted[v] for v in node.outputs if v in self.wanted), None)
        wished = None if wish is None else self.moves.back(node, wish)
        perms = [
            self.moved[v][0]
            for v in node.inputs
            if v is not None and v in self._gone and v not in self.native
        ]
        if not perms:
            return wished
        best, _ = Counter(perms).most_common(1)[0]
        permuted = self.moves(node, best)
        if permuted is None or (wish is not None and permuted.results[0] == wish):
            return permuted or wished
        due, leading = self._readers(node, permuted)
        if wish is None and due and (_prefers_last(node) or growth(node, self.target) > 0):
            return None
        if due and not leading and _only_postpones(node):
            return None
        operands = [v for v in node.inputs if v is not None and v.data is None]
        gone = {v for v in operands if v in self._gone and v not in self.native}
        back = sum(
            not self._is_due(v, self.moved[v][0]) and not keeps_order(v.type, self.moved[v][0])
            for v in gone
        )
        there = sum(
            not keeps_order(v.type, best)
            for v, perm in zip(node.inputs, permuted.operands, strict=True)
            if v is not None and perm is not None and v not in self.moved
            if constant_behind(v) is None
        )
        return permuted if there + due <= back + leading else None

    def _is_due(self, value: Value, perm: Perm) -> bool:
        """Whether a value moved by ``perm`` is read in its old order, or goes out."""
        due = self._due.get(value)
        if due is None:
            due = self._due[value] = value in self._outputs or any(
                not self._follows(use, perm) for use in value.uses
            )
        return due

    def _follows(self, use: Use, perm: Perm) -> bool:
        """Whether a reader still to come can work in ``perm``; asked for each of its operands."""
        found = self._following.get((use.node, perm))
        if found is None:
            found = self.moves.follows(use, perm, self._outputs)
            self._following[use.node, perm] = found
        return found

    def _readers(self, node: Node, permuted: Permuted) -> tuple[int, bool]:
        """How many moved results have to be turned back somewhere, and whether some lead on."""
        due, leading = 0, False
        for value, perm in zip(node.outputs, permuted.results, strict=True):
            leads = perm is None or value in self.leading
            leading = leading or leads
            if perm is not None and not keeps_order(value.type, perm):
                due += not leads or self._is_due(value, perm)
        return due, leading

    def _take_turns(self, node: Node) -> None:
        """Let a node that can read an operand transposed do so, instead of a Transpose."""
        for index, value in enumerate(node.inputs):
            turn = None if value is None else value.producer
            if value is None or turn is None or not isinstance(turn.op, Transpose):
                continue
            source, perm = turn.inputs[0], turn.op.perm
            if source is None or perm is None or source.quant != value.quant:
                continue
            inverse = tuple(perm.index(i) for i in range(len(perm)))
            op = absorbed(node, index, inverse, self.target)
            if op is not None:
                node.op = op
                node.replace_input_with(index, source)

    def _rewrite(self, node: Node, permuted: Permuted, builder: Builder) -> Node:
        op = permuted.op
        inputs = [
            value if value is None else self._operand(value, perm, builder)
            for value, perm in zip(node.inputs, permuted.operands, strict=True)
        ]
        if permuted.order is not None:
            inputs = [inputs[i] for i in permuted.order]
        types = [
            v.type if perm is None else v.type.permuted(perm)
            for v, perm in zip(node.outputs, permuted.results, strict=True)
        ]
        names = [v.name for v in node.outputs]
        new = builder.add_typed(op, inputs, types, names=names, bodies=node.bodies)
        for before, after, perm in zip(node.outputs, new, permuted.results, strict=True):
            self.replace(before, perm, after)
        self._dead.append(node)
        made = new[0].producer
        assert made is not None
        return made

    def _turn(self, node: Node, op: Transpose, builder: Builder) -> bool:
        """A Transpose of the source: what is left of it between the orders before and behind it."""
        value = node.operand(0)
        if op.perm is None:
            return False
        same = tuple(range(len(op.perm)))
        present = self.moved.get(value)
        sources = [] if value in self._gone and value not in self.native else [(same, value)]
        if present is not None and len(present[0]) == len(same):
            sources.append(present)
        if sources and sources[0][1] in self._gone:
            sources[0] = (same, self.native[value])
        result = node.outputs[0]
        wish = self.wanted.get(result)
        if not sources or (wish is None and sources[0][1] is value):
            return False
        turns = [(op.between(perm, wish or same), source) for perm, source in sources]
        turn, source = next((t for t in turns if is_sorted(t[0].perm or ())), turns[0])
        if is_sorted(turn.perm or ()):
            new = source
        else:
            kind = result.type if wish is None else result.type.permuted(wish)
            new = builder.add_typed(turn, [source], [kind], names=[result.name])[0]
        self.replace(result, wish, new)
        self._dead.append(node)
        return True

    def _operand(self, value: Value, perm: Perm | None, builder: Builder) -> Value:
        if perm is None:
            return self._native(value, builder)
        present = self.moved.get(value)
        if present is not None and present[0] == perm:
            return present[1]
        source = self._native(value, builder)
        if source.type.rank is not None and source.type.rank < len(perm):
            return lifted(source, perm, builder)
        result = moved_by(builder, source, perm)
        if value.data is None and value not in self._gone:
            self.moved[value] = (perm, result)
        return result

    def _native(self, value: Value, builder: Builder) -> Value:
        """``value`` in its old order."""
        if value not in self._gone:
            return value
        present = self.native.get(value)
        if present is None:
            perm, source = self.moved[value]
            inverse = tuple(perm.index(i) for i in range(len(perm)))
            present = self.native[value] = moved_by(builder, source, inverse)
        return present

    def _flatten(self, node: Node, builder: Builder) -> bool:
        """A Reshape of a moved value that needs no transpose before it.

        Either only extents of 1 changed places, or the result is [batch, rest] and only layers
        read it whose constant weights take the new order instead.
        """
        value = node.inputs[0] if node.inputs else None
        if value is None or value not in self._gone or value in self.native:
            return False
        perm, source = self.moved[value]
        if not flattens(node, perm, self.target, self._outputs):
            return False
        if not keeps_order(value.type, perm):
            dims = static_shape((value.shape or ())[1:])
            assert dims is not None
            for columns in columns_behind(node, perm, self._outputs) or ():
                columns.turn(builder, dims, perm)
        result = node.outputs[0]
        new = builder.add_typed(
            node.op, [source, *node.inputs[1:]], [result.type], names=[result.name]
        )
        self.replace(result, None, new[0])
        self._dead.append(node)
        return True


def is_for_edge(perm: Perm, target: Layout) -> bool:
    """Whether a transpose is the one of images, which the interface may be given in."""
    return len(perm) >= IMAGE_RANK and perm == to_layout(target, len(perm))


def _named(value: Value, name: str, outputs: set[Value], builder: Builder) -> Value:
    """``value`` as a graph output called ``name``: a copy where it has to keep another name."""
    if value.name == name:
        return value
    if value.producer is not None and value not in outputs:
        value.name = name
        return value
    return builder.add_typed(Identity(), [value], [value.type], names=[name])[0]


def loses_last_axis(node: Node, permuted: Permuted, target: Layout) -> bool:
    """Whether a node would have to turn its operand, being moved to where it can't work.

    Channels-last formats have some ops along the last dimension alone.
    """
    if target is not Layout.NHWC or not isinstance(node.op, (*_LAST_AXIS_OPS, TopK)):
        return False
    first = node.inputs[0]
    last = None if first is None or first.type.rank is None else first.type.rank - 1
    after: int = permuted.op.axis  # type: ignore[attr-defined]
    return node.op.axis == last and after != last


def growth(node: Node, target: Layout) -> int:
    """By how many bits a node of one operand makes elements longer, or shorter if negative.

    Short ones are quicker to transpose. Toward the other layout that isn't asked: runtimes for it
    look for quantizers in fixed places.
    """
    first = node.inputs[0] if node.inputs else None
    if target is not Layout.NHWC or first is None or len(node.inputs) != 1:
        return 0
    return node.outputs[0].dtype.bits - first.dtype.bits


def _prefers_last(node: Node) -> bool:
    """Whether a node is faster with its present last dimension at the end."""
    if isinstance(node.op, ResizeBilinear):
        return True
    rank = node.inputs[0].type.rank if node.inputs[0] is not None else None
    return isinstance(node.op, _LAST_AXIS_OPS) and rank is not None and node.op.axis == rank - 1


def _only_postpones(node: Node) -> bool:
    """Whether a node's result is as hard to turn back as its operand, and no smaller."""
    value, result = node.inputs[0], node.outputs[0]
    if not isinstance(node.op, Reshape) or value is None:
        return False
    return regroups(value.shape or (), result.shape or ())
