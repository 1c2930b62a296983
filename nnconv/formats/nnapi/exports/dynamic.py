"""Ops of which a run decides what elsewhere an attribute would."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.dynamic import DynamicSqueeze


def export_dynamic_squeeze(node: Node, t: Target) -> None:
    """SQUEEZE."""
    x = node.operand(0)
    t.rank(x)
    if len(node.inputs) < 2 or node.inputs[1] is None:
        raise t.refused("which extents are 1 isn't known")
    t.emit("SQUEEZE", {"input": x, "axes": t.index(node.operand(1))}, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {DynamicSqueeze: export_dynamic_squeeze}
