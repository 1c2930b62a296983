"""Ops on the bytes of tensors."""

from __future__ import annotations

from nnconv.formats.tflite._gen.schema import LSHProjectionType
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ops.hashing import LshProjection


def import_lsh_projection(s: Source) -> None:
    """LSH_PROJECTION."""
    kind = s.options.int("type")
    if kind not in (LSHProjectionType.SPARSE, LSHProjectionType.DENSE):
        raise s.fail(f"type {kind} of projections is unknown")
    dense = kind == LSHProjectionType.DENSE
    if not dense and s.optional(2) is not None:
        raise s.fail("a sparse projection with weights")
    op = LshProjection(dense=dense, apart=not dense)
    s.emit(op, [s.operand(0), s.operand(1), s.optional(2)])


IMPORTERS: dict[str, Importer] = {"LSH_PROJECTION": import_lsh_projection}
