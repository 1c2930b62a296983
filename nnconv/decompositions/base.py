"""Making a node fit a format that doesn't take it as it is.

An exporter refuses a node by ``Refused``. If it is the element types that don't suit, the node is
done in types that do (``refit``); if it is a fused activation, that becomes a node of its own; else
the node is decomposed, by what the file of the op's stem in this folder has in ``DECOMPOSITIONS``:

    def decompose_softplus(node: Node, b: Builder) -> list[Value] | None:
        ...nodes added by b, before the node; the values that take the place of its results...

    DECOMPOSITIONS = {Softplus: (decompose_softplus,)}

The first that gives values wins; what it added is then exported in turn, and may itself be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nnconv.decompositions.refit import in_floats, of_halves, refit, split_activation
from nnconv.errors import Reason
from nnconv.ir.builder import Builder, Means
from nnconv.ir.dtype import DType
from nnconv.ir.families import entry_of
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op, QuantRule
from nnconv.ir.types import Shape, TensorType, element_count, merge_shapes, static_shape
from nnconv.ops.quantize import Bitcast, Dequantize
from nnconv.ops.shape import Fill, Identity

Decomposition: TypeAlias = "Callable[[Node, Builder], Sequence[Value] | None]"

Evaluate: TypeAlias = "Callable[[Node, Sequence[np.ndarray | None]], list[np.ndarray]]"
"""Runs one node on arrays."""


class Refused(Exception):  # noqa: N818 - a refusal that starts a search for another form
    """Raised by an exporter for a node that its format doesn't take as it is.

    Attributes:
        why: one sentence.
        reason: the kind of obstacle.
        hint: what would help.
        types: the unquantized element types that ``operands`` may have, if types are the trouble.
        operands: the numbers of the operands whose types don't suit.
        activation: whether it is the fused activation that doesn't suit.
        rank: how many dimensions would suit, if there are too many; else 0.
    """

    def __init__(
        self,
        why: str,
        *,
        reason: Reason = Reason.IMPOSSIBLE,
        hint: str = "",
        types: frozenset[DType] | None = None,
        operands: tuple[int, ...] = (),
        activation: bool = False,
        rank: int = 0,
    ) -> None:
        super().__init__(why)
        self.why, self.reason, self.hint = why, reason, hint
        self.types, self.operands = types, operands
        self.activation, self.rank = activation, rank


def decompositions_of(op: type[Op]) -> tuple[Decomposition, ...]:
    """What an op can be decomposed into, the best first."""
    found: tuple[Decomposition, ...] | None = entry_of(
        op, "nnconv.decompositions", "DECOMPOSITIONS"
    )
    return found or ()


class Recorder(Builder):
    """A builder that keeps a list of the nodes that it added."""

    def __init__(self, node: Node, means: Means) -> None:
        """Add nodes before ``node``."""
        assert node.graph is not None, f"{node!r} is in no graph"
        super().__init__(node.graph, before=node, origin=node.origin)
        self.means = means
        self.added: list[Node] = []

    def add_typed(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        *,
        names: Sequence[str] = (),
        bodies: Sequence[Graph] = (),
    ) -> tuple[Value, ...]:
        """Add a node whose result types the caller gives."""
        values = super().add_typed(op, inputs, types, names=names, bodies=bodies)
        assert values[0].producer is not None, "a node without results"
        self.added.append(values[0].producer)
        return values

    def drop(self) -> None:
        """Take out again what was added."""
        for node in reversed(self.added):
            self.graph.remove(node)
        self.added.clear()


def replace(
    node: Node, refusal: Refused, evaluate: Evaluate, means: Means = Builder.means
) -> list[Node] | None:
    """Put other nodes in the place of one that was refused.

    Nodes of constants alone are worked out at once. ``means`` are what the format has.

    Returns the new nodes in order, or None if no other form is known; the graph is then as it was.
    """
    if any(_is_beyond(value.shape) for value in node.outputs):
        return None
    builder = Recorder(node, means)
    results: Sequence[Value] | None = None
    if refusal.activation:
        results = split_activation(node, builder)
    elif refusal.rank:
        from nnconv.decompositions.ranks import fewer_dimensions

        results = fewer_dimensions(node, builder, refusal.rank)
    elif refusal.types is not None:
        results = refit(node, builder, refusal.types, refusal.operands)
    for decomposition in decompositions_of(type(node.op)):
        if results is not None:
            break
        builder.drop()
        results = decomposition(node, builder)
        if results is not None and any(_loses_codes(new) for new in builder.added):
            builder.drop()  # it is of real numbers
            results = in_floats(node, builder)
    if results is None:
        builder.drop()
        results = of_halves(node, builder)
    if results is None:
        builder.drop()
        return None
    made = {value for new in builder.added for value in new.outputs}
    for old, new in zip(node.outputs, results, strict=True):
        own = new
        if new not in made and old in builder.graph.outputs:  # it has a name of its own
            own = builder.add_typed(Identity(), [new], [new.type])[0]
            made.add(own)
        _take_place(node, old, own, made)
        made.discard(own)
    left = _folded(builder, evaluate)
    builder.graph.remove(node)
    return left


def _is_beyond(shape: Shape) -> bool:
    """Whether there is no format that counts so far."""
    greatest = DType.INT32.int_range[1]
    return any(isinstance(extent, int) and extent > greatest for extent in shape or ())


def _loses_codes(node: Node) -> bool:
    """Whether a node computes with codes to numbers that nobody could read as such."""
    return (
        node.op.quant_rule is QuantRule.REAL
        and any(v is not None and v.type.has_codes for v in node.inputs)
        and any(v.dtype.is_integer and not v.type.has_codes for v in node.outputs)
    )


def _take_place(node: Node, old: Value, new: Value, made: set[Value]) -> None:
    """Let ``new`` stand where ``old`` did."""
    assert node.graph is not None, "the node was removed"
    narrowed = (old.dtype, new.dtype) == (DType.INT64, DType.INT32)
    assert new.dtype is old.dtype or narrowed, f"{node!r}: {old.dtype} becomes {new.dtype}"
    if new in made:
        new.name = old.name
        new.type = TensorType(new.dtype, merge_shapes(old.shape, new.shape), new.quant)
    old.replace_all_uses_with(new)
    node.graph.replace_output(old, new)


_MOST_FILLED = 4096


_MOST_GROWN = 1 << 22
"""How many elements may come of fewer: more are worked out at run time."""


def _grows(node: Node) -> bool:
    """Whether a node gives more elements than it takes."""
    taken = sum(element_count(v.shape) or 0 for v in node.inputs if v is not None)
    return any((element_count(v.shape) or 0) > taken for v in node.outputs)


def _is_empty(node: Node) -> bool:
    """Whether none of a node's results has elements."""
    shapes = [static_shape(value.shape) for value in node.outputs]
    return bool(shapes) and all(shape is not None and 0 in shape for shape in shapes)


def _folded(builder: Recorder, evaluate: Evaluate) -> list[Node]:
    """The nodes added, less those whose operands are constants: these become constants.

    So do results without elements, whatever they come of.
    """
    left: list[Node] = []
    for node in builder.added:
        empty = _is_empty(node)
        constant = empty or (
            node.inputs and all(v is None or v.data is not None for v in node.inputs)
        )
        stays = node.bodies or node.op.draws or isinstance(node.op, Dequantize | Bitcast)
        if not constant or stays:
            left.append(node)
            continue
        if isinstance(node.op, Fill) and (element_count(node.outputs[0].shape) or 0) > _MOST_FILLED:
            left.append(node)  # it would only make the file bigger
            continue
        if any((element_count(v.shape) or 0) > _MOST_GROWN for v in node.outputs) and _grows(node):
            left.append(node)
            continue
        if isinstance(node.op, Identity) and node.outputs[0] in builder.graph.outputs:
            left.append(node)
            continue
        if empty:
            arrays = [np.empty(static_shape(v.shape) or (), v.dtype.numpy) for v in node.outputs]
        else:
            arrays = evaluate(node, [None if v is None else v.data for v in node.inputs])
        for value, array in zip(node.outputs, arrays, strict=True):
            kind = TensorType(value.dtype, tuple(array.shape), value.quant)
            known = Value(value.name, kind, data=array, origin=value.origin)
            value.replace_all_uses_with(known)
            if value in builder.graph.outputs:  # which no constant is
                (own,) = builder.add_typed(Identity(), [known], [known.type], names=[value.name])
                builder.graph.replace_output(value, own)
        builder.graph.remove(node)
    return left
