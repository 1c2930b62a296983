"""Ops on the bytes of tensors, and on tables of keys."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.types import LSHProjectionType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.hashing import HashtableLookup, LshProjection


def export_lsh_projection(node: Node, t: Target) -> None:
    """LSH_PROJECTION; only a dense one has weights."""
    op = node.op
    assert isinstance(op, LshProjection)
    weights = node.optional(2)
    if weights is not None and not op.dense:
        raise t.refused("a sparse LSH_PROJECTION has no weights")
    kind = LSHProjectionType.SPARSE_DEPRECATED
    if op.dense:
        kind = LSHProjectionType.DENSE
    elif op.apart:
        kind = LSHProjectionType.SPARSE
    inputs = {
        "hash": node.operand(0),
        "input": node.operand(1),
        "weight": weights,
        "type": int(kind),
    }
    t.emit("LSH_PROJECTION", inputs, node.outputs[0])


def export_hashtable_lookup(node: Node, t: Target) -> None:
    """HASHTABLE_LOOKUP."""
    inputs = dict(zip(("lookups", "keys", "values"), node.inputs, strict=True))
    t.emit("HASHTABLE_LOOKUP", inputs, node.outputs)


EXPORTERS: dict[type[Op], Exporter] = {
    HashtableLookup: export_hashtable_lookup,
    LshProjection: export_lsh_projection,
}
