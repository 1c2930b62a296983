"""Pooling."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.imports.conv import image, positive_pair, read_padding
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.reduce import ReduceMax, ReduceMean
from nnconv.ops.spatial import Padding

POOLS: dict[str, type[MaxPool2D | AveragePool2D]] = {
    "AVG_POOL": AveragePool2D,
    "MAX_POOL": MaxPool2D,
}

WHOLE: dict[str, type[ReduceMax | ReduceMean]] = {"AVG_POOL": ReduceMean, "MAX_POOL": ReduceMax}
"""What a pool over an image of any size is."""


def import_pool(s: Source) -> None:
    """AVG_POOL, MAX_POOL; the runtime gives the rounding of the size to the former alone."""
    x = s.operand("input")
    extents, _ = image(s, x)
    activation = s.activation()
    if s.match.api > 1 and s.bool("global"):
        known = tuple(extent for extent in extents if isinstance(extent, int))
        if len(known) != 2:
            s.emit_activated(WHOLE[s.name](axes=(1, 2), keep_dims=True), [x])
            return
        op = POOLS[s.name](
            window=known, stride=(1, 1), padding=Padding.none(2), activation=activation
        )
        s.emit(op, [x])
        return
    window, stride = positive_pair(s, "kernelSize"), positive_pair(s, "strides")
    rounds_up = s.name == "AVG_POOL" and s.match.api > 1 and bool(s.int("roundMode"))
    op = POOLS[s.name](
        window=window,
        stride=stride,
        padding=read_padding(s, extents, window, stride, (1, 1)),
        ceil=rounds_up,
        activation=activation,
    )
    s.emit(op, [x])


IMPORTERS: dict[str, Importer] = dict.fromkeys(POOLS, import_pool)
