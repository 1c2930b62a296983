"""Numeric functions."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import numeric as n

NAMES: dict[type[Op], str] = {n.Erf: "ERF", n.Reciprocal: "RECIPROCAL"}


def export_function(node: Node, t: Target) -> None:
    """The operation of the op's own name."""
    t.emit(NAMES[type(node.op)], {"input": node.operand(0)}, node.outputs)


def export_truncated_mod(node: Node, t: Target) -> None:
    """MOD: the remainder has the dividend's sign."""
    t.emit("MOD", {"input1": node.operand(0), "input2": node.operand(1)}, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(NAMES, export_function),
    n.TruncatedMod: export_truncated_mod,
}
