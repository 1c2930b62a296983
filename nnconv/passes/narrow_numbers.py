"""Lets a graph work with 32 bits where it has 64, for formats that have no wider numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.ir.dtype import DType, overflow_notes
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.types import TensorType
from nnconv.ops import elementwise as e
from nnconv.ops.numeric import BitwiseAnd
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.passes.base import Pass


class NarrowNumbersPass(Pass):
    """Makes int64 values int32 ones, and float64 ones float32.

    Integers that are constants saturate, what is computed with integers wraps earlier. Floats are
    cast. Results of ops that give the wider type alone are cast. What Bitcasts take and give stays.

    Attributes:
        lost: constants beyond int32 that something computes with, each with its reader: there
            what they saturate to gives other results.
        notes: which constants of floats become infinite.
    """

    name: ClassVar[str] = "narrow_numbers"

    def __init__(self) -> None:
        self.lost: list[tuple[Value, Node]] = []
        self.notes: list[str] = []

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        for value in graph.inputs:
            if not _is_read_as_bits(value):
                modified |= _narrow(value)
        for value in list(graph.constants()):
            if value.dtype in NARROWED:
                narrow = _constant(value)
                before, after = value.data, narrow.data
                if value.dtype.is_integer and np.any(after != before):
                    readers = (use.node for use in value.uses)
                    self.lost += ((value, node) for node in readers if isinstance(node.op, _SUMS))
                elif before is not None and after is not None and value.dtype.is_float:
                    self.notes += overflow_notes(value.name, before, after, "NNAPI")
                value.replace_all_uses_with(narrow)
                graph.replace_output(value, narrow)
                modified = True
        for node in graph.nodes:
            if isinstance(node.op, Bitcast):
                continue  # which needs all bits
            if any(value.dtype in NARROWED for value in node.outputs):
                _visit(graph, node)
                modified = True
        return modified


NARROWED = {DType.INT64: DType.INT32, DType.FLOAT64: DType.FLOAT32}
"""What takes the place of types that NNAPI lacks."""

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
        if isinstance(step, NarrowNumbersPass)
        for value, node in step.lost
    ]
    if items:
        raise UnsupportedError(dict.fromkeys(items), path=path)


def beyond_floats(passes: Iterable[Pass]) -> list[str]:
    """What the passes have to tell of constants that float32 lacks, once each."""
    found = (note for step in passes if isinstance(step, NarrowNumbersPass) for note in step.notes)
    return list(dict.fromkeys(found))


def _is_read_as_bits(value: Value) -> bool:
    return any(isinstance(use.node.op, Bitcast) for use in value.uses)


def _visit(graph: Graph, node: Node) -> None:
    """Let a node give 32 bits."""
    op: Any = node.op
    types_of = {name: v for name, v in op.attributes().items() if isinstance(v, DType)}
    narrow_types = {name: NARROWED[kind] for name, kind in types_of.items() if kind in NARROWED}
    if narrow_types:
        node.op = op.replace(**narrow_types)
    stays = [False] * len(node.outputs)
    if not node.bodies:  # whose own values become int32 as well
        types = node.op.infer(node.input_types)
        stays = [kind.dtype in NARROWED for kind in types]
    for value, kept in zip(node.outputs, stays, strict=True):
        if not kept:
            _narrow(value)
            continue
        dtype = NARROWED[value.dtype]
        narrow = Value(value.name, TensorType(dtype, value.shape), origin=value.origin)
        value.replace_all_uses_with(narrow)
        graph.replace_output(value, narrow)
        cast = Node(Cast(dtype=dtype), [value], [narrow], origin=node.origin)
        graph.insert_after(node, cast)


def _narrow(value: Value) -> bool:
    if value.dtype not in NARROWED:
        return False
    value.type = TensorType(NARROWED[value.dtype], value.shape, value.quant)
    return True


def _constant(value: Value) -> Value:
    dtype, data = NARROWED[value.dtype], value.data
    assert data is not None
    if dtype.is_integer:
        data = np.clip(data, *dtype.int_range)
    with np.errstate(over="ignore"):
        data = data.astype(dtype.numpy)
    kind = TensorType(dtype, value.shape, value.quant)
    return Value(value.name, kind, data=data, origin=value.origin)
