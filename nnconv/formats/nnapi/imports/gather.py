"""Picking elements by index."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ops.gather import Gather, TopK


def import_gather(s: Source) -> None:
    """GATHER."""
    x, indices = s.operand("input"), s.operand("indices")
    axis = s.axis(s.int("axis"), s.rank(x))
    s.check_indices(indices, (x.shape or ())[axis : axis + 1], from_end=False)
    s.emit(Gather(axis=axis), [x, indices])


def import_embedding_lookup(s: Source) -> None:
    """EMBEDDING_LOOKUP: rows of a table."""
    ids, table = s.operand("lookups"), s.operand("values")
    s.check_indices(ids, (table.shape or ())[:1], from_end=False)
    s.emit(Gather(axis=0), [table, ids])


def import_top_k(s: Source) -> None:
    """TOPK_V2: along the last dimension; of equals the one with the higher index comes first."""
    x, k = s.operand("input"), s.positive("k")
    s.emit(TopK(axis=s.axis(-1, s.rank(x)), k=k, last_first=True), [x])


IMPORTERS: dict[str, Importer] = {
    "EMBEDDING_LOOKUP": import_embedding_lookup,
    "GATHER": import_gather,
    "TOPK_V2": import_top_k,
}
