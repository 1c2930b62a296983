"""Pooling."""

from __future__ import annotations

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.formats.tflite.imports.conv import pair, read_padding, spatial_extents
from nnconv.ir.op import Layout
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D

POOLS: dict[str, type[MaxPool2D | AveragePool2D | L2Pool2D]] = {
    "MAX_POOL_2D": MaxPool2D,
    "AVERAGE_POOL_2D": AveragePool2D,
    "L2_POOL_2D": L2Pool2D,
}


def import_pool(s: Source) -> None:
    """MAX_POOL_2D, AVERAGE_POOL_2D, L2_POOL_2D."""
    x = s.operand(0)
    window = s.options.int("filter_height"), s.options.int("filter_width")
    if min(window) < 1:
        raise s.fail(f"window is {window[0]}x{window[1]}, must be positive")
    stride = pair(s, "stride")
    padding = read_padding(s, spatial_extents(s, x, 4), window, stride, (1, 1))
    op = POOLS[s.op.name](
        layout=Layout.NHWC,
        window=window,
        stride=stride,
        padding=padding,
        activation=s.activation(),
    )
    if s.op.name == "MAX_POOL_2D":
        s.emit(op, [x])
    else:
        s.emit_rounded(op, [x])


IMPORTERS: dict[str, Importer] = dict.fromkeys(POOLS, import_pool)
