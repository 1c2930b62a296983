"""Picking elements by index."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.types import Dim
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather, TopK
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.reduce import ArgMax, ReduceAny
from nnconv.ops.shape import Reshape


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


def import_hashtable_lookup(s: Source) -> None:
    """HASHTABLE_LOOKUP: rows of the values whose keys are looked up, and whether there are any."""
    lookups, keys, table = s.operand("lookups"), s.operand("keys"), s.operand("values")
    same = s.add(
        e.Equal(), [s.add(Reshape(shape=(-1, 1)), [lookups]), s.add(Reshape(shape=(1, -1)), [keys])]
    )
    hits = s.add(ReduceAny(axes=(1,)), [same])
    places = s.add(ArgMax(axis=1), [s.add(Cast(dtype=DType.INT32), [same])])
    rows = s.add(Gather(axis=0), [table, places], quant=table.quant)
    found = s.add(Reshape(shape=(-1, *[1] * (s.rank(table) - 1))), [hits])
    nothing = s.const(np.zeros(1, table.dtype.numpy), quant=table.quant)
    s.emit(e.Select(), [found, rows, nothing])
    quant = s.result_quant(1)
    counts = s.add(Cast(dtype=DType.UINT8), [hits])
    s.bind(1, s.add(Bitcast(dtype=DType.UINT8), [counts], quant=quant))


def import_top_k(s: Source) -> None:
    """TOPK_V2: along the last dimension."""
    x, k = s.operand("input"), s.positive("k")
    s.emit(TopK(axis=s.axis(-1, s.rank(x)), k=k), [x])


IMPORTERS: dict[str, Importer] = {
    "EMBEDDING_LOOKUP": import_embedding_lookup,
    "GATHER": import_gather,
    "HASHTABLE_LOOKUP": import_hashtable_lookup,
    "TOPK_V2": import_top_k,
}
