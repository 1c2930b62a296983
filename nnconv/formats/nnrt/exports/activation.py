"""Activations that are no plain elementwise operations elsewhere."""

from __future__ import annotations

import math

from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import activation as a


def export_swish(node: Node, t: Target) -> None:
    """SWISH."""
    op = node.op
    assert isinstance(op, a.Swish)
    if op.alpha != 1.0:
        raise t.refused(f"SWISH has no factor, here it is {op.alpha:g}")
    t.emit("SWISH", {"input": node.operand(0)}, node.outputs)


def export_hard_sigmoid(node: Node, t: Target) -> None:
    """HARD_SIGMOID: (x + 3) / 6 between 0 and 1."""
    op = node.op
    assert isinstance(op, a.HardSigmoid)
    if not math.isclose(op.alpha, 1 / 6, rel_tol=1e-6) or op.beta != 0.5:
        raise t.refused(f"HARD_SIGMOID is x / 6 + 1 / 2, here x * {op.alpha:g} + {op.beta:g}")
    t.emit("HARD_SIGMOID", {"input": node.operand(0)}, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {
    a.HardSigmoid: export_hard_sigmoid,
    a.Swish: export_swish,
}
