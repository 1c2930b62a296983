"""Picking elements by index."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.types import Dim
from nnconv.ops.gather import Gather, TopK


def _check_range(s: Source, indices: Value, extent: Dim) -> None:
    """See that constant indices lie within an extent; none counts from the end."""
    data = indices.data
    if data is None or not data.size or not isinstance(extent, int):
        return
    for index in (data.min(), data.max()):
        if not 0 <= index < extent:
            raise s.fail(f"index {index} is out of range for an extent of {extent}")


def import_gather(s: Source) -> None:
    """GATHER."""
    x, indices = s.operand("input"), s.operand("indices")
    axis = s.axis(s.int("axis"), s.rank(x))
    _check_range(s, indices, (x.shape or ())[axis])
    s.emit(Gather(axis=axis), [x, indices])


def import_embedding_lookup(s: Source) -> None:
    """EMBEDDING_LOOKUP: rows of a table."""
    ids, table = s.operand("lookups"), s.operand("values")
    _check_range(s, ids, table.shape[0] if table.shape else None)
    s.emit(Gather(axis=0), [table, ids])


def import_top_k(s: Source) -> None:
    """TOPK_V2: along the last dimension."""
    x, k = s.operand("input"), s.positive("k")
    s.emit(TopK(axis=s.axis(-1, s.rank(x)), k=k), [x])


IMPORTERS: dict[str, Importer] = {
    "EMBEDDING_LOOKUP": import_embedding_lookup,
    "GATHER": import_gather,
    "TOPK_V2": import_top_k,
}
