"""Finds norms of groups of channels where they are spelled as norms of single, longer channels.

PyTorch writes GroupNorm so for opsets before 18: Reshape, InstanceNormalization, Reshape, and what
scales and moves each channel. The reshapes tie together what a change of layout must part.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Mul
from nnconv.ops.shape import Reshape
from nnconv.ops.standardize import GroupNormalization, InstanceNormalization
from nnconv.passes.base import Pass


class GroupNormsPass(Pass):
    """One walk from the last node of each spelling back."""

    name: ClassVar[str] = "group_norms"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            if not isinstance(node.op, InstanceNormalization):
                continue
            outputs = graph.output_set() if outputs is None else outputs
            found = _groups(node, outputs)
            if found is None:
                continue
            last, scale, offset = _with_factors(found, outputs)
            builder = Builder(graph, before=last, origin=node.origin)
            parameters = [builder.const(v.astype(found.x.dtype.numpy)) for v in (scale, offset)]
            op = GroupNormalization(axis=1, epsilon=node.op.epsilon, groups=found.groups)
            last.op = op
            last.set_inputs([found.x, *parameters])
            modified = True
        return modified


class _Found(NamedTuple):
    """A norm of groups: what it is of, the node that gives it, and its parameters by channel."""

    x: Value
    last: Node
    groups: int
    scale: np.ndarray
    offset: np.ndarray


def _groups(node: Node, outputs: set[Value]) -> _Found | None:
    """What a norm between two reshapes is, if it is one of groups."""
    long, scale, offset = node.inputs
    first = None if long is None else long.producer
    x = first.inputs[0] if first is not None and isinstance(first.op, Reshape) else None
    last = _only_reader(node.outputs[0], outputs)
    if x is None or long is None or last is None or not isinstance(last.op, Reshape):
        return None
    result = last.outputs[0]
    if not (x.shape and long.shape and result.shape) or x.quant or long.quant or result.quant:
        return None
    rest, channels = static_shape(x.shape[1:]), x.shape[1] if len(x.shape) > 2 else None
    groups = long.shape[1] if len(long.shape) == 3 else None
    if rest is None or not isinstance(channels, int) or not isinstance(groups, int):
        return None
    if x.shape != result.shape or channels % groups or long.shape[2] != math.prod(rest) // groups:
        return None
    if node.op.axis != 1 or scale is None or offset is None:  # type: ignore[attr-defined]
        return None
    if scale.data is None or offset.data is None or not x.dtype.is_float:
        return None
    each = channels // groups
    factors = [np.repeat(v.astype(np.float64), each) for v in (scale.data, offset.data)]
    return _Found(x, last, groups, *factors)


def _with_factors(found: _Found, outputs: set[Value]) -> tuple[Node, np.ndarray, np.ndarray]:
    """The last node once a factor and a term of each channel behind it are part of the norm."""
    last, scale, offset = found.last, found.scale, found.offset
    for kind in (Mul, Add):
        node = _only_reader(last.outputs[0], outputs)
        if node is None or not isinstance(node.op, kind) or node.outputs[0].quant is not None:
            continue
        if node.op.activation is not Activation.NONE:
            continue
        other = next((v for v in node.inputs if v is not last.outputs[0]), None)
        values = None if other is None else _by_channel(other, found.x)
        if values is None:
            continue
        scale = scale * values if kind is Mul else scale
        offset = offset * values if kind is Mul else offset + values
        last = node
    return last, scale, offset


def _by_channel(value: Value, x: Value) -> np.ndarray | None:
    """A constant that broadcasts against ``x`` as numbers by channel, dimension 1."""
    assert x.shape is not None
    rank, channels = len(x.shape), x.shape[1]
    if value.data is None or value.quant is not None or value.data.ndim > rank:
        return None
    shape = (*[1] * (rank - value.data.ndim), *value.data.shape)
    if any(extent != 1 for i, extent in enumerate(shape) if i != 1) or shape[1] not in (
        1,
        channels,
    ):
        return None
    assert isinstance(channels, int)
    return np.broadcast_to(value.data.reshape(-1).astype(np.float64), (channels,))


def _only_reader(value: Value, outputs: set[Value]) -> Node | None:
    if value in outputs or value.use_count != 1:
        return None
    return value.uses[0].node
