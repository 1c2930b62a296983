"""Pooling."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.imports.conv import image_dims, pair, read_padding
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D

POOLS: dict[str, type[MaxPool2D | AveragePool2D | L2Pool2D]] = {
    "AVERAGE_POOL_2D": AveragePool2D,
    "L2_POOL_2D": L2Pool2D,
    "MAX_POOL_2D": MaxPool2D,
}


def import_pool(s: Source) -> None:
    """AVERAGE_POOL_2D, L2_POOL_2D, MAX_POOL_2D."""
    x, layout = s.operand("input"), s.layout()
    extents, _ = image_dims(s, x, layout)
    window, stride = pair(s, "filter"), pair(s, "stride")
    op = POOLS[s.name](
        layout=layout,
        window=window,
        stride=stride,
        padding=read_padding(s, extents, window, stride, (1, 1)),
        activation=s.activation(),
    )
    s.emit(op, [x])


IMPORTERS: dict[str, Importer] = dict.fromkeys(POOLS, import_pool)
