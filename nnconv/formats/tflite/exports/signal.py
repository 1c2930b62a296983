"""Fourier transforms."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.signal import RFFT2D


def export_rfft2d(node: Node, t: Target) -> None:
    """RFFT2D: of powers of two."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, RFFT2D)
    if op.length is None:
        given = node.inputs[1]
        assert given is not None, "the verifier wants lengths"
        length = t.index(given)
    else:
        if any(n & (n - 1) for n in op.length):
            raise t.refused(f"RFFT2D transforms powers of two, not {list(op.length)}")
        length = t.ints(op.length)
    t.emit("RFFT2D", [t.tensor(x), length], node.outputs[0], ("Rfft2dOptions", {}))


EXPORTERS: dict[type[Op], Exporter] = {RFFT2D: export_rfft2d}
