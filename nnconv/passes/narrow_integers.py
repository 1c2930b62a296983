"""Lets a graph work with int32 where it has int64, for formats that have no wider integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.types import TensorType
from nnconv.ops import elementwise as e
from nnconv.ops.numeric import BitwiseAnd
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.passes.base import Pass


class NarrowIntegersPass(Pass):
    """Makes int64 values int32 ones: constants saturate, what is computed wraps earlier.

    Results of ops that give int64 alone are cast. What Bitcasts take and give stays.

    Attributes:
        lost: constants beyond int32 that something computes with, each with its reader: there
            what they saturate to gives other results.
    """

    name: ClassVar[str] = "narrow_integers"

    def __init__(self) -> None:
        self.lost: list[tuple[Value, Node]] = []

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        for value in graph.inputs:
            if not _is_read_as_bits(value):
                modified |= _narrow(value)
        for value in list(graph.constants()):
            if value.dtype is DType.INT64:
                narrow = _constant(value)
                if np.any(narrow.data != value.data):
                    readers = (use.node for use in value.uses)
                    self.lost += ((value, node) for node in readers if isinstance(node.op, _SUMS))
                value.replace_all_uses_with(narrow)
                graph.replace_output(value, narrow)
                modified = True
        for node in graph.nodes:
            if isinstance(node.op, Bitcast):
                continue  # which needs all bits
            if any(value.dtype is DType.INT64 for value in node.outputs):
                _visit(graph, node)
                modified = True
        return modified


_SUMS = (e.Add, e.Sub, e.Mul, e.Div, e.FloorDiv, e.FloorMod, e.Pow, BitwiseAnd)
"""Ops in which all of a number counts; bounds and what is compared with may saturate."""


def refuse_lost(passes: Iterable[Pass], path: str) -> None:
    """See that none of the passes met constants that int32 lacks where all of a number counts.

    Raises:
        UnsupportedError: one did; ``path`` is the model's.
    """
    items = [
        UnsupportedItem(
            op=node.op.name,
            where=f"`{node.outputs[0].name}`",
            why=f"`{value.name}` has numbers beyond int32, the widest integers of NNAPI",
            reason=Reason.IMPOSSIBLE,
        )
        for step in passes
        if isinstance(step, NarrowIntegersPass)
        for value, node in step.lost
    ]
    if items:
        raise UnsupportedError(dict.fromkeys(items), path=path)


def _is_read_as_bits(value: Value) -> bool:
    return any(isinstance(use.node.op, Bitcast) for use in value.uses)


def _visit(graph: Graph, node: Node) -> None:
    """Let a node give int32."""
    op: Any = node.op
    wide = [name for name, value in op.attributes().items() if value is DType.INT64]
    if wide:
        node.op = op.replace(**dict.fromkeys(wide, DType.INT32))
    stays = [False] * len(node.outputs)
    if not node.bodies:  # whose own values become int32 as well
        types = node.op.infer(node.input_types)
        stays = [kind.dtype is DType.INT64 for kind in types]
    for value, kept in zip(node.outputs, stays, strict=True):
        if not kept:
            _narrow(value)
            continue
        narrow = Value(value.name, TensorType(DType.INT32, value.shape), origin=value.origin)
        value.replace_all_uses_with(narrow)
        graph.replace_output(value, narrow)
        cast = Node(Cast(dtype=DType.INT32), [value], [narrow], origin=node.origin)
        graph.insert_after(node, cast)


def _narrow(value: Value) -> bool:
    if value.dtype is not DType.INT64:
        return False
    value.type = TensorType(DType.INT32, value.shape, value.quant)
    return True


def _constant(value: Value) -> Value:
    low, high = DType.INT32.int_range
    assert value.data is not None
    data = np.clip(value.data, low, high).astype(np.int32)
    kind = TensorType(DType.INT32, value.shape, value.quant)
    return Value(value.name, kind, data=data, origin=value.origin)
