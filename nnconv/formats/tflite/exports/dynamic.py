"""Ops of which a run decides what elsewhere an attribute would, where a kernel does so too."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.formats.tflite.exports.shape import CUT, too_deep
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import dynamic as d


def export_squeeze(node: Node, t: Target) -> None:
    """SQUEEZE of all dimensions of extent 1."""
    x = node.operand(0)
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        raise t.refused("SQUEEZE has its axes as an option")
    t.emit("SQUEEZE", [t.tensor(x)], node.outputs[0], ("SqueezeOptions", {}))


def export_split(node: Node, t: Target) -> None:
    """SPLIT_V."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, d.DynamicSplit)
    sizes = node.optional(1)
    if sizes is None:
        raise t.refused("SPLIT_V wants sizes")
    t.require(node, plain=CUT, codes=CUT, operands=(0,))
    if too_deep(x):
        raise t.refused(f"SPLIT_V of rank {x.type.rank}")
    operands = [t.tensor(x), t.index(sizes), t.scalar(op.axis)]
    outputs = [t.declare(v) for v in node.outputs]
    t.operator("SPLIT_V", operands, outputs, ("SplitVOptions", {"num_splits": op.count}))


EXPORTERS: dict[type[Op], Exporter] = {
    d.DynamicSqueeze: export_squeeze,
    d.DynamicSplit: export_split,
}
