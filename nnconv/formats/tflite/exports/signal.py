"""Fourier transforms."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.signal import RFFT2D, Dft, Stft


def export_rfft2d(node: Node, t: Target) -> None:
    """RFFT2D: of powers of two."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, RFFT2D)
    if op.length is None:
        given = node.operand(1)
        length = t.index(given)
    else:
        if any(n & (n - 1) for n in op.length):
            raise t.refused(f"RFFT2D transforms powers of two, not {list(op.length)}")
        length = t.ints(op.length)
    t.emit("RFFT2D", [t.tensor(x), length], node.outputs[0], ("Rfft2dOptions", {}))


def export_transform(node: Node, t: Target) -> None:
    """Decomposed, in float32."""
    op = node.op
    assert isinstance(op, Dft)
    t.require(node, plain=FLOAT32, operands=(0,))
    raise t.refused(
        "TFLite transforms real values over two dimensions alone, else the number of parts must be "
        "known"
    )


def export_short_transform(node: Node, t: Target) -> None:
    """Decomposed, in float32."""
    op = node.op
    assert isinstance(op, Stft)
    t.require(node, plain=FLOAT32, operands=[i for i, v in enumerate(node.inputs[:2]) if v])
    raise t.refused("TFLite has no transforms of windows")


EXPORTERS: dict[type[Op], Exporter] = {
    RFFT2D: export_rfft2d,
    Dft: export_transform,
    Stft: export_short_transform,
}
