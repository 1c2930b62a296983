"""Ops that move, repeat, cut or join elements: on codes."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import shape as s


def export_identity(node: Node, t: Target) -> None:
    """Identity."""
    t.set_codes(node.outputs[0], t.node("Identity", [t.codes(node.inputs[0])]))


def export_reshape(node: Node, t: Target) -> None:
    """Reshape."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, s.Reshape)
    if op.shape is not None:
        sizes = t.const(list(op.shape))
        zero = 1 if 0 in op.shape and t.opset >= 14 else None
    else:
        sizes, zero = t.int64(node.inputs[1]), None
    t.set_codes(node.outputs[0], t.node("Reshape", [t.codes(x), sizes], allowzero=zero))


def export_transpose(node: Node, t: Target) -> None:
    """Transpose."""
    op = node.op
    assert isinstance(op, s.Transpose)
    if op.perm is None:
        raise t.unsupported("the permutation is computed at run time")
    t.set_codes(node.outputs[0], t.node("Transpose", [t.codes(node.inputs[0])], perm=op.perm))


EXPORTERS: dict[type[Op], Exporter] = {
    s.Identity: export_identity,
    s.Reshape: export_reshape,
    s.Transpose: export_transpose,
}
