"""Reshapes to shapes of several open extents become moves that need no shape.

Models compute such shapes from extents of their data: [N, S, H * D] to [N, S, H, D] and back. Which
extent is which is told by symbols. What is split or joined between those that stay is known, so it
is parts that are stacked, or joined.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.types import Dim, element_count
from nnconv.ops.dynamic import DynamicReshape
from nnconv.ops.elements import elements, solved
from nnconv.ops.shape import Concat, Reshape, Split, Squeeze, Stack, Unsqueeze, Unstack
from nnconv.passes.base import Pass, retype

MOST_PARTS = 64
"""So many parts are stacked or joined at most."""


class RegroupPass(Pass):
    """For formats whose shapes are constants, or costly to compute."""

    name: ClassVar[str] = "regroup"

    def run(self, graph: Graph) -> bool:
        """Do the job; returns whether anything changed."""
        memo: dict[Value, np.ndarray | None] = {}
        retyped: set[Value] = set()
        for node in graph.nodes:
            if not node.bodies and not retyped.isdisjoint(v for v in node.inputs if v is not None):
                retyped.update(retype(node))
            if isinstance(node.op, Reshape | DynamicReshape):
                result = _regroup(node, memo)
                retyped.update(() if result is None else (result,))
        return bool(retyped)


def _regroup(node: Node, memo: dict[Value, np.ndarray | None]) -> Value | None:
    """What takes the place of a Reshape's result."""
    x, target = node.operand(0), _target(node, memo)
    if target is None or x.shape is None or node.graph is None:
        return None
    if sum(not isinstance(dim, int) for dim in target) < 2:
        return None
    found = _between(x.shape, target)
    if found is None:
        return None
    start, before, after = found
    builder = Builder(node.graph, before=node, origin=node.origin)
    result = _split(builder, _joined(builder, x, start, before), start, after)
    if result is x:
        return None
    old = node.outputs[0]
    result.name = old.name
    old.replace_all_uses_with(result)
    node.graph.replace_output(old, result)
    node.graph.remove(node)
    return result


def _target(node: Node, memo: dict[Value, np.ndarray | None]) -> tuple[Dim, ...] | None:
    """The extents of the result, numbers and symbols; None if one is neither."""
    op, x = node.op, node.operand(0)
    if len(node.inputs) < 2 or node.inputs[1] is None or x.shape is None:
        return None
    found = elements(node.inputs[1], memo)
    if found is None:
        return None
    dims: list[Dim] = found.reshape(-1).tolist()
    if isinstance(op, DynamicReshape) and op.keeps:
        own = x.shape
        if any(d == 0 and i >= len(own) for i, d in enumerate(dims)):
            return None
        dims = [own[i] if d == 0 else d for i, d in enumerate(dims)]
    result = solved(x.shape, tuple(dims)) if -1 in dims else tuple(dims)
    fits = all(isinstance(d, str) or (isinstance(d, int) and d > 0) for d in result)
    return result if fits else None


def _between(
    source: tuple[Dim, ...], target: tuple[Dim, ...]
) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """What differs between the extents that stay: where it begins, and what it is in both."""
    shorter = min(len(source), len(target))
    start = 0
    while start < shorter and source[start] == target[start]:
        start += 1
    end = 0
    while end < shorter - start and source[-1 - end] == target[-1 - end]:
        end += 1
    before, after = source[start : len(source) - end], target[start : len(target) - end]
    known = [tuple(dim for dim in dims if isinstance(dim, int)) for dims in (before, after)]
    if (len(known[0]), len(known[1])) != (len(before), len(after)):
        return None
    if element_count(known[0]) != element_count(known[1]) or max((*known[0], 1)) == 0:
        return None
    if max((*known[0][:-1], *known[1][:-1], 1)) > MOST_PARTS:
        return None
    return start, known[0], known[1]


def _joined(b: Builder, x: Value, axis: int, extents: tuple[int, ...]) -> Value:
    """The dimensions from ``axis`` on as one, the last two first."""
    if not extents:
        return b.add(Unsqueeze(axes=(axis,)), [x], quant=x.quant)
    for place in reversed(range(len(extents) - 1)):
        at = axis + place
        if extents[place] == 1:
            x = b.add(Squeeze(axes=(at,)), [x], quant=x.quant)
        else:
            parts = b.add_many(Unstack(axis=at, count=extents[place]), [x])
            x = b.add(Concat(axis=at), parts, quant=x.quant)
    return x


def _split(b: Builder, x: Value, axis: int, extents: tuple[int, ...]) -> Value:
    """The dimension ``axis`` as these, the first one first."""
    if not extents:
        return b.add(Squeeze(axes=(axis,)), [x], quant=x.quant)
    for place, extent in enumerate(extents[:-1]):
        at = axis + place
        if extent == 1:
            x = b.add(Unsqueeze(axes=(at,)), [x], quant=x.quant)
        else:
            sizes = (math.prod(extents[place + 1 :]),) * extent
            x = b.add(Stack(axis=at), b.add_many(Split(axis=at, sizes=sizes), [x]))
    return x
