"""Ops on the bytes of tensors."""

from __future__ import annotations

from nnconv.formats.tflite._gen.schema import LSHProjectionType
from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.hashing import LshProjection

_MOST_APART = 30
"""LiteRT moves numbers apart by what an int has room for."""


def export_lsh_projection(node: Node, t: Target) -> None:
    """LSH_PROJECTION: bits, or numbers that lie apart and have no weights."""
    op, seeds = node.op, node.operand(0)
    assert isinstance(op, LshProjection)
    t.require(node, plain=FLOAT32, operands=[i for i in (0, 2) if i < len(node.inputs)])
    weights = node.optional(2)
    bits = None if seeds.shape is None else seeds.shape[1]
    apart = op.apart and isinstance(bits, int) and bits <= _MOST_APART
    if not op.dense and (weights is not None or not apart):
        raise t.refused("TFLite's numbers lie apart and have no weights")
    kind = LSHProjectionType.DENSE if op.dense else LSHProjectionType.SPARSE
    operands = [t.tensor(seeds), t.tensor(node.operand(1))]
    if weights is not None:
        operands.append(t.tensor(weights))
    t.emit("LSH_PROJECTION", operands, node.outputs[0], ("LSHProjectionOptions", {"type": kind}))


EXPORTERS: dict[type[Op], Exporter] = {LshProjection: export_lsh_projection}
