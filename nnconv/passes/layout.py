"""Moves a graph to the layout that its target wants, with few transposes.

Regions of moved values start at the spatial ops that fix the other layout. They grow forward and
backward through ops that don't care or only need an axis remapped (``Op.permute``), and constants
follow for free. A Transpose stands only where a region meets something that fixes the old order.

Three walks, all linear: two backward, to see which values are wanted moved and which lead to such
ones; one forward, to rewrite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Signature, Value
from nnconv.ir.op import Layout, LayoutKind, Perm, Permuted
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.norm import L2Normalization, LogSoftmax, Softmax
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.rewrite import constant_behind, reshaped, transposed
from nnconv.ops.shape import Identity, Reshape, Transpose, Unsqueeze
from nnconv.ops.spatial import is_sorted, to_layout
from nnconv.passes.base import Pass

_LAST_AXIS_OPS = (Softmax, LogSoftmax, L2Normalization)
"""Ops that are faster along the last dimension, where a transpose is due anyway."""


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
        walk = _Walk(graph, self.target, self._wanted(graph), self._leading(graph))
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
        left = [node for node in graph.nodes if _seed_perm(node, self.target) is not None]
        return f"still has {left[0]!r}" if left else ""

    def _wanted(self, graph: Graph) -> dict[Value, Perm]:
        """The transpose in which all readers of a value want it; values that go out have none."""
        wishes: dict[Value, dict[Perm, int]] = {}
        wanted: dict[Value, Perm] = {}
        outputs = graph.output_set()

        def settle(value: Value) -> Perm | None:
            counts = wishes.get(value, {})
            if len(counts) != 1 or value in outputs:
                return None
            perm, count = next(iter(counts.items()))
            return perm if count == value.use_count else None

        for node in graph.nodes_reversed:
            settled = {settle(v) for v in node.outputs if v.use_count or v in outputs}
            perm = _seed_perm(node, self.target) or (settled.pop() if len(settled) == 1 else None)
            permuted = None if perm is None else node.op.permute(perm, node.input_types)
            if perm is None or permuted is None or not self._worthwhile(node, perm, permuted):
                continue
            for value in node.outputs:
                wanted[value] = perm
            for source, wish in zip(node.inputs, permuted.operands, strict=True):
                if source is not None and wish is not None and source.type.rank == len(wish):
                    counts = wishes.setdefault(source, {})
                    counts[wish] = counts.get(wish, 0) + 1
        for entry in graph.inputs:
            perm = settle(entry)
            if perm is not None:
                wanted[entry] = perm
        return wanted

    def _leading(self, graph: Graph) -> set[Value]:
        """Values from which ops that follow lead to one that wants them moved or ends all moving.

        Behind a reduction or a transpose of the source nothing may be left to turn back.
        """
        leading: set[Value] = set()
        for node in graph.nodes_reversed:
            first = node.inputs[0] if node.inputs else None
            if first is None or first.shape is None or len(first.shape) < 3:
                continue
            permuted = node.op.permute(to_layout(self.target, len(first.shape)), node.input_types)
            if permuted is not None and (
                is_seed(node, self.target)
                or None in permuted.results
                or any(value in leading for value in node.outputs)
            ):
                moving = zip(node.inputs, permuted.operands, strict=True)
                leading.update(v for v, perm in moving if v is not None and perm is not None)
        return leading

    def _worthwhile(self, node: Node, perm: Perm, permuted: Permuted) -> bool:
        """Whether moving a node's operands instead of its results takes no more transposes."""
        if is_seed(node, self.target):
            return True
        if any(result != perm for result in permuted.results):
            return False
        moving = {
            value
            for value, wish in zip(node.inputs, permuted.operands, strict=True)
            if value is not None and wish is not None and constant_behind(value) is None
        }
        if isinstance(node.op, ResizeBilinear) and self.edge is None:
            return all(value.producer is not None for value in moving)
        return len(moving) <= 1

    def _move_inputs(self, graph: Graph, count: int, walk: _Walk) -> None:
        for index, value in enumerate(graph.inputs[:count]):
            perm = walk.wanted.get(value)
            if perm is not None and _is_for_edge(perm, self.target):
                moved = Value(value.name, value.type.permuted(perm), origin=value.origin)
                graph.inputs[index] = moved
                walk.replace(value, perm, moved)
                self.moved_io.append(value.name)


def is_seed(node: Node, target: Layout) -> bool:
    """Whether a node fixes another layout than the one wanted."""
    layout = getattr(node.op, "layout", target)
    return node.op.layout_kind is LayoutKind.IMPLICIT and layout is not target


def _seed_perm(node: Node, target: Layout) -> Perm | None:
    """The transpose in which such a node wants its first operand; None if that has no rank."""
    first = node.inputs[0] if node.inputs else None
    if not is_seed(node, target) or first is None or first.shape is None:
        return None
    return to_layout(target, len(first.shape))


class _Walk:
    """The forward rewrite.

    Attributes:
        wanted: values that all their readers want moved.
        leading: values worth keeping moved, since something behind them wants them so.
        moved: for a value of the old graph, a transpose and the value that went through it.
        native: for a value that is gone, the one that has its old order.
    """

    def __init__(
        self, graph: Graph, target: Layout, wanted: dict[Value, Perm], leading: set[Value]
    ) -> None:
        self.graph = graph
        self.target = target
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
        perm = self._choose(node)
        permuted = None if perm is None else node.op.permute(perm, node.input_types)
        if permuted is not None:
            self._rewrite(node, permuted, builder)
            return
        for index, value in enumerate(node.inputs):
            if value is not None and value in self._gone:
                node.replace_input_with(index, self._native(value, builder))

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
            if moved and _is_for_edge(self.moved[value][0], self.target):
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

    def _choose(self, node: Node) -> Perm | None:
        """The transpose in which a node should work, or None for the old order."""
        if is_seed(node, self.target):
            return _seed_perm(node, self.target)
        wish = next((self.wanted[v] for v in node.outputs if v in self.wanted), None)
        perms = [
            self.moved[v][0]
            for v in node.inputs
            if v is not None and v in self._gone and v not in self.native
        ]
        if not perms:
            return wish
        best, _ = Counter(perms).most_common(1)[0]
        permuted = node.op.permute(best, node.input_types)
        if wish == best or permuted is None:
            return best
        due, leading = self._readers(node, permuted)
        if wish is None and due and _prefers_last(node):
            return None
        operands = [v for v in node.inputs if v is not None and v.data is None]
        gone = {v for v in operands if v in self._gone and v not in self.native}
        back = sum(
            not self._is_due(v, self.moved[v][0]) and not _keeps_order(v.type, self.moved[v][0])
            for v in gone
        )
        there = sum(
            not _keeps_order(v.type, best)
            for v, perm in zip(node.inputs, permuted.operands, strict=True)
            if v is not None and perm is not None and v not in self.moved
            if constant_behind(v) is None
        )
        return best if there + due <= back + leading else None

    def _is_due(self, value: Value, perm: Perm) -> bool:
        """Whether a value moved by ``perm`` is read in its old order, or goes out."""
        due = self._due.get(value)
        if due is None:
            due = self._due[value] = value in self._outputs or any(
                not self._follows(use.node, perm) for use in value.uses
            )
        return due

    def _follows(self, node: Node, perm: Perm) -> bool:
        """Whether a node still to come can work in ``perm``; asked for each of its operands."""
        found = self._following.get((node, perm))
        if found is None:
            found = node.op.permute(perm, node.input_types) is not None
            self._following[node, perm] = found
        return found

    def _readers(self, node: Node, permuted: Permuted) -> tuple[int, bool]:
        """How many moved results have to be turned back somewhere, and whether some lead on."""
        due, leading = 0, False
        for value, perm in zip(node.outputs, permuted.results, strict=True):
            leads = perm is None or value in self.leading
            leading = leading or leads
            due += perm is not None and (not leads or self._is_due(value, perm))
        return due, leading

    def _rewrite(self, node: Node, permuted: Permuted, builder: Builder) -> None:
        inputs = [
            value if value is None else self._operand(value, perm, builder)
            for value, perm in zip(node.inputs, permuted.operands, strict=True)
        ]
        types = [
            v.type if perm is None else v.type.permuted(perm)
            for v, perm in zip(node.outputs, permuted.results, strict=True)
        ]
        names = [v.name for v in node.outputs]
        order = permuted.op.perm if isinstance(permuted.op, Transpose) else None
        if order is not None and is_sorted(order):
            assert inputs[0] is not None
            new: tuple[Value, ...] = (inputs[0],)
        else:
            new = builder.add_typed(permuted.op, inputs, types, names=names, bodies=node.bodies)
        for before, after, perm in zip(node.outputs, new, permuted.results, strict=True):
            self.replace(before, perm, after)
        self._dead.append(node)

    def _operand(self, value: Value, perm: Perm | None, builder: Builder) -> Value:
        if perm is None:
            return self._native(value, builder)
        present = self.moved.get(value)
        if present is not None and present[0] == perm:
            return present[1]
        source = self._native(value, builder)
        if source.type.rank is not None and source.type.rank < len(perm):
            return _lifted(source, perm, builder)
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

        Either only extents of 1 changed places, or the result is [batch, rest] and only fully
        connected layers read it, whose constant weights take the new order instead.
        """
        value, op = node.inputs[0], node.op
        if value is None or value not in self._gone or value in self.native:
            return False
        perm, source = self.moved[value]
        assert isinstance(op, Reshape)
        if op.shape is None:
            return False
        if not _keeps_order(value.type, perm):
            if value.quant is not None:
                return False  # integer kernels work in NHWC: there is nothing to turn
            layers = self._fed_layers(node, value, perm)
            if layers is None:
                return False
            dims = static_shape((value.shape or ())[1:])
            assert dims is not None
            for layer in layers:
                weights = layer.inputs[1]
                assert weights is not None
                rows = weights.shape[0] if weights.shape else -1
                assert isinstance(rows, int)
                spread = reshaped(builder, weights, (rows, *dims))
                turned = transposed(builder, spread, perm)
                layer.replace_input_with(1, reshaped(builder, turned, (rows, math.prod(dims))))
        result = node.outputs[0]
        new = builder.add_typed(op, [source, *node.inputs[1:]], [result.type], names=[result.name])
        self.replace(result, None, new[0])
        self._dead.append(node)
        return True

    def _fed_layers(self, node: Node, value: Value, perm: Perm) -> list[Node] | None:
        """The fully connected layers behind a flattening Reshape; None if another op reads it."""
        result = node.outputs[0]
        rest = None if value.shape is None else static_shape(value.shape[1:])
        if rest is None or perm[0] != 0 or result in self._outputs or not result.shape:
            return None
        if len(result.shape) != 2 or result.shape[1] != math.prod(rest):
            return None
        layers = []
        for use in result.uses:
            weights = use.node.inputs[1] if len(use.node.inputs) > 1 else None
            if not isinstance(use.node.op, FullyConnected) or use.index or weights is None:
                return None
            source = constant_behind(weights)
            if source is None or (source.quant is not None and source.quant.block):
                return None
            if source.quant is not None and source.quant.axis not in (None, 0):
                return None
            layers.append(use.node)
        return layers


def _is_for_edge(perm: Perm, target: Layout) -> bool:
    """Whether a transpose is the one of images, which the interface may be given in."""
    return len(perm) > 3 and perm == to_layout(target, len(perm))


def _named(value: Value, name: str, outputs: set[Value], builder: Builder) -> Value:
    """``value`` as a graph output called ``name``: a copy where it has to keep another name."""
    if value.name == name:
        return value
    if value.producer is not None and value not in outputs:
        value.name = name
        return value
    return builder.add_typed(Identity(), [value], [value.type], names=[name])[0]


def _prefers_last(node: Node) -> bool:
    """Whether a node is faster with its present last dimension at the end."""
    if isinstance(node.op, ResizeBilinear):
        return True
    rank = node.inputs[0].type.rank if node.inputs[0] is not None else None
    return isinstance(node.op, _LAST_AXIS_OPS) and rank is not None and node.op.axis == rank - 1


def _keeps_order(kind: TensorType, perm: Perm) -> bool:
    """Whether a transpose only moves extents of 1: the elements keep their order.

    A shape of lower rank is taken with leading extents of 1.
    """
    if kind.shape is None or len(kind.shape) > len(perm):
        return False
    shape = (*[1] * (len(perm) - len(kind.shape)), *kind.shape)
    real = [p for p in perm if shape[p] != 1]
    return real == sorted(real)


def _lifted(value: Value, perm: Perm, builder: Builder) -> Value:
    """A value of lower rank under the full rank, transposed.

    A constant's leading extents of 1 are dropped; where all extents are 1, nothing is done.
    """
    shape = value.shape
    assert shape is not None
    if all(dim == 1 for dim in shape):
        return value
    new = len(perm) - len(shape)
    constant = constant_behind(value)
    if constant is None or constant.data is None:
        full = builder.add(Unsqueeze(axes=tuple(range(new))), [value], name=value.name)
        return moved_by(builder, full, perm)
    full = reshaped(builder, value, (*[1] * new, *constant.data.shape))
    result = moved_by(builder, full, perm)
    assert result.shape is not None
    extents = [dim for dim in result.shape if isinstance(dim, int)]
    while extents[0] == 1:
        extents.pop(0)
    return reshaped(builder, result, extents)


def moved_by(builder: Builder, value: Value, perm: Sequence[int]) -> Value:
    """``value`` transposed: by Reshape if only extents of 1 move.

    It costs nothing if a Transpose made it the other way round.
    """
    producer = value.producer
    if producer is not None and isinstance(producer.op, Transpose) and producer.op.perm is not None:
        source, inner = producer.inputs[0], producer.op.perm
        if source is not None and source.type.quant == value.type.quant:
            return moved_by(builder, source, tuple(inner[p] for p in perm))
    if tuple(perm) == tuple(range(len(perm))):
        return value
    if constant_behind(value) is not None:
        return transposed(builder, value, perm)
    if value.shape is not None and _keeps_order(value.type, tuple(perm)):
        dims = [value.shape[p] for p in perm]
        if sum(not isinstance(d, int) for d in dims) <= 1:
            shape = tuple(d if isinstance(d, int) else -1 for d in dims)
            kind = value.type.permuted(perm)
            return builder.add_typed(Reshape(shape=shape), [value], [kind], names=[value.name])[0]
    return transposed(builder, value, perm)
