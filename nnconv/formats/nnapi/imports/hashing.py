"""Operations on the bytes of tensors, and on tables of keys."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.types import LSHProjectionType
from nnconv.ops.hashing import HashtableLookup, LshProjection


def import_lsh_projection(s: Source) -> None:
    """LSH_PROJECTION."""
    seeds, x, weights = s.operand("hash"), s.operand("input"), s.optional("weight")
    kind = s.int("type")
    dense = kind == LSHProjectionType.DENSE
    if weights is not None and not dense:
        raise s.fail("a sparse projection with weights")
    op = LshProjection(dense=dense, apart=kind == LSHProjectionType.SPARSE)
    s.emit(op, [seeds, x, weights])


def import_hashtable_lookup(s: Source) -> None:
    """HASHTABLE_LOOKUP."""
    s.emit(HashtableLookup(), [s.operand(name) for name in ("lookups", "keys", "values")])


IMPORTERS: dict[str, Importer] = {
    "HASHTABLE_LOOKUP": import_hashtable_lookup,
    "LSH_PROJECTION": import_lsh_projection,
}
