"""Takes out moves that move nothing, and makes one of two that follow each other.

So it does sums with zeros, and selections that always give the same operand.
"""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.types import Shape
from nnconv.ops.elementwise import Add, Select
from nnconv.ops.quantize import Quantize
from nnconv.ops.shape import (
    BroadcastTo,
    Concat,
    Identity,
    Reshape,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from nnconv.ops.slices import Pad, Reverse, Slice
from nnconv.ops.spatial import is_sorted
from nnconv.passes.base import Pass

RESHAPES = (Reshape, Squeeze, Unsqueeze)
"""Ops that give the same elements in the same order."""


MOST_ZEROS = 1 << 24
"""Constants of more elements aren't looked through for one that isn't 0."""


class TidyPass(Pass):
    """One walk over the nodes, each of which sees its operands tidied already.

    A graph output keeps its name: where what stands for it can't take the name over (an input, a
    constant, another output), an Identity stays.

    Attributes:
        settled: whether the layout is final: a Transpose that only moves extents of 1 then becomes
            a Reshape, which costs nothing and joins others, but would stop a layout from spreading.
    """

    name: ClassVar[str] = "tidy"

    def __init__(self, *, settled: bool = False) -> None:
        """Say whether the layout is final."""
        self.settled = settled

    def run(self, graph: Graph) -> bool:
        """Tidy one graph."""
        modified = False
        gone: dict[Value, Value] = {}
        outputs: set[Value] | None = None
        for node in graph.nodes:
            if not isinstance(node.op, _CANDIDATES):
                continue
            if self.settled:
                modified |= _reshape_transpose(node)
            modified |= _merge(node)
            same = _unchanged(node)
            if same is None:
                continue
            outputs = graph.output_set() if outputs is None else outputs
            result = node.outputs[0]
            if result in outputs:
                if not _takes_name(same, outputs):
                    if isinstance(node.op, Identity):
                        continue
                    node.op = Identity()
                    node.set_inputs([same])
                    modified = True
                    continue
                same.name = result.name
                gone[result] = same
                outputs.add(same)
            result.replace_all_uses_with(same)
            graph.remove(node)
            modified = True
        if gone:
            graph.outputs = [gone.get(v, v) for v in graph.outputs]
        return modified


_CANDIDATES = (
    Identity,
    *RESHAPES,
    Transpose,
    Concat,
    Split,
    Tile,
    BroadcastTo,
    Slice,
    Pad,
    Reverse,
    Select,
    Add,
    Quantize,
)


def _takes_name(value: Value, outputs: set[Value]) -> bool:
    return value.producer is not None and value not in outputs


def _source(node: Node) -> Value | None:
    """The operand, if its parameters are the result's and nothing else is read at run time."""
    x = node.inputs[0]
    if x is None or len(node.outputs) != 1 or x.quant != node.outputs[0].quant:
        return None
    return None if any(v is not None for v in node.inputs[1:]) else x


def _reshape_transpose(node: Node) -> bool:
    """Make a Transpose that keeps the order of elements a Reshape."""
    x, op = node.inputs[0], node.op
    if not isinstance(op, Transpose) or op.perm is None or x is None or x.shape is None:
        return False
    moving = [p for p in op.perm if x.shape[p] != 1]
    shape = _as_numbers(node.outputs[0].shape)
    if shape is None or moving != sorted(moving) or is_sorted(op.perm):
        return False
    if x.quant is not None and not x.quant.is_per_tensor:
        return False
    node.op = Reshape(shape=shape)
    return True


def _merge(node: Node) -> bool:
    """Let a node read what stands before the move that made its operand, if one does for both."""
    x = _source(node)
    if x is None or x.producer is None or x.producer.graph is not node.graph:
        return False
    before = _source(x.producer)
    if before is None or before.quant != x.quant:
        return False
    inner, op = x.producer.op, node.op
    if isinstance(op, Transpose) and isinstance(inner, Transpose):
        if op.perm is None or inner.perm is None:
            return False
        node.op = Transpose(perm=tuple(inner.perm[p] for p in op.perm))
    elif isinstance(inner, RESHAPES) and isinstance(op, Reshape) and op.shape is not None:
        pass  # the order of elements is all that it takes
    elif isinstance(inner, RESHAPES) and isinstance(op, Squeeze | Unsqueeze):
        shape = _as_numbers(node.outputs[0].shape)
        if shape is None:
            return False
        node.op = Reshape(shape=shape)
    else:
        return False
    node.set_inputs([before])
    return True


def _as_numbers(shape: Shape) -> tuple[int, ...] | None:
    """A Reshape's shape for a type: with -1 for one extent that isn't known."""
    if shape is None:
        return None
    dims = tuple(d if isinstance(d, int) else -1 for d in shape)
    if dims.count(-1) > 1 or (-1 in dims and 0 in dims):
        return None
    return dims


def _chosen(node: Node) -> Value | None:
    """What a Select always gives."""
    condition, then, otherwise = node.inputs
    if condition is None or condition.data is None or not condition.data.size:
        return None
    if condition.data.all():
        return then
    return None if condition.data.any() else otherwise


def _added_to(node: Node) -> Value | None:
    """What zeros are added to."""
    op = node.op
    assert isinstance(op, Add)
    if op.activation is not Activation.NONE:
        return None
    for zeros, other in (node.inputs, node.inputs[::-1]):
        if zeros is None or zeros.data is None or zeros.quant is not None:
            continue
        if zeros.data.size <= MOST_ZEROS and not zeros.data.any():
            return other
    return None


def _unchanged(node: Node) -> Value | None:
    """The operand, where the result is just that."""
    if isinstance(node.op, Select | Add):
        y, found = node.outputs[0], (_chosen if isinstance(node.op, Select) else _added_to)(node)
        same = found is not None and found.shape is not None and found.shape == y.shape
        return found if same and found is not None and found.quant == y.quant else None
    x = _source(node)
    if x is None or not _moves_nothing(node, x):
        return None
    return x


def _moves_nothing(node: Node, x: Value) -> bool:
    op, y = node.op, node.outputs[0]
    if isinstance(op, Identity):
        return True
    if isinstance(op, Quantize):
        return x.type.has_codes and x.dtype is y.dtype
    if isinstance(op, RESHAPES):
        return _same_shape(x.shape, y.shape)
    if isinstance(op, Transpose):
        return op.perm is not None and is_sorted(op.perm)
    if isinstance(op, Concat):
        return len(node.inputs) == 1 and op.activation is Activation.NONE
    if isinstance(op, Split):
        return len(op.sizes) == 1
    if isinstance(op, Tile):
        return op.repeats is not None and all(count == 1 for count in op.repeats)
    if isinstance(op, BroadcastTo):
        return op.shape is not None and op.shape == x.shape
    if isinstance(op, Reverse):
        return x.shape is not None and all(x.shape[axis] == 1 for axis in op.axes)
    if isinstance(op, Pad):
        return op.before is not None and not any((*op.before, *(op.after or ())))
    return isinstance(op, Slice) and _takes_all(op, x.shape)


def _same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes of as many elements are one: at most one extent may be unknown."""
    if a is None or b is None or len(a) != len(b):
        return False
    differing = [(x, y) for x, y in zip(a, b, strict=True) if x is None or x != y]
    open_ends = all(not isinstance(d, int) for pair in differing for d in pair)
    return not differing or (len(differing) == 1 and open_ends and 0 not in a)


def _takes_all(op: Slice, shape: Shape) -> bool:
    if shape is None or op.starts is None or op.ends is None or op.strides is None:
        return False
    return all(
        stride == 1
        and start in (0, None)
        and (end is None or (isinstance(extent, int) and end >= extent))
        for extent, start, end, stride in zip(shape, op.starts, op.ends, op.strides, strict=True)
    )
