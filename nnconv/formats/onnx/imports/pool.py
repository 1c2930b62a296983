"""Pooling."""

from __future__ import annotations

from typing import Any

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.imports.conv import given_padding, numbers, spatial_rank, windows
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ops import pool as p
from nnconv.ops.reduce import ReduceMax, ReduceMean

_MAXIMA = {1: p.MaxPool1D, 2: p.MaxPool2D, 3: p.MaxPool3D}
_MEANS = {1: p.AveragePool1D, 2: p.AveragePool2D, 3: p.AveragePool3D}


def _window(src: Source) -> tuple[int, ...]:
    found = src.int_list("kernel_shape")
    if not found:
        raise src.fail("attribute kernel_shape is missing")
    return found


def _shared(src: Source, x: Value) -> dict[str, Any]:
    """The fields that all pools share."""
    slide = windows(src, x, _window(src))
    spread = any(step != 1 for step in slide.dilation)
    return {
        "layout": Layout.NCHW,
        "window": slide.window,
        "stride": slide.stride,
        "padding": slide.padding,
        "dilation": slide.dilation if spread else (),
        "ceil": bool(src.int("ceil_mode", 0)),
    }


def import_max_pool(src: Source) -> None:
    """MaxPool; with its second result, where the maxima are."""
    x = src.operand(0)
    fields = _shared(src, x)
    if src.wants(1):
        order = bool(src.int("storage_order", 0))
        src.emit(p.MaxPoolIndices(column_major=order, **fields), [x])
    else:
        src.emit(_MAXIMA[len(fields["window"])](**fields), [x])


def import_average_pool(src: Source) -> None:
    """AveragePool."""
    x = src.operand(0)
    fields = _shared(src, x)
    counted = bool(src.int("count_include_pad", 0))
    src.emit(_MEANS[len(fields["window"])](count_padding=counted, **fields), [x])


def _order(src: Source) -> int:
    """The order of a norm, which was a float at first."""
    if src.version >= 2:
        order: float = src.int("p", 2)
    else:
        order = src.float("p", 2.0)
    if order < 1 or order != int(order):
        raise src.unsupported(f"a norm of order {order:g}")
    return int(order)


def import_lp_pool(src: Source) -> None:
    """LpPool."""
    x = src.operand(0)
    src.emit(p.LpPool(p=_order(src), **_shared(src, x)), [x])


def _spatial(src: Source, x: Value) -> tuple[int, ...]:
    rank = src.rank(x)
    if rank < 2:
        raise src.fail(f"input has rank {rank}, must have 2 or more")
    return tuple(range(2, rank))


def import_global_pool(src: Source) -> None:
    """GlobalAveragePool, GlobalMaxPool: reductions over the spatial dimensions."""
    x = src.operand(0)
    axes = _spatial(src, x)
    kind = ReduceMean if src.node.op_type == "GlobalAveragePool" else ReduceMax
    src.emit(kind(axes=axes, keep_dims=True), [x])


def import_global_lp_pool(src: Source) -> None:
    """GlobalLpPool."""
    x = src.operand(0)
    src.emit(p.GlobalLpPool(layout=Layout.NCHW, p=_order(src)), [x])


def import_max_unpool(src: Source) -> None:
    """MaxUnpool."""
    x, places = src.operand(0), src.operand(1)
    window = _window(src)
    rank = spatial_rank(src, x, window)
    op = p.MaxUnpool(
        window=window,
        stride=numbers(src, "strides", rank, 1, 1),
        padding=given_padding(src, rank),
    )
    if src.optional(2) is None:
        src.emit(op, [x, places])
        return
    shape = src.ints(2)
    if shape is None:
        src.emit(op, [x, places, src.operand(2)])
    elif x.shape is not None and len(shape) != len(x.shape):
        raise src.fail(f"output_shape is {list(shape)}, x has rank {len(x.shape)}")
    else:
        src.emit(op.replace(shape=shape), [x, places])


IMPORTERS: dict[str, Importer] = {
    "MaxPool": import_max_pool,
    "AveragePool": import_average_pool,
    "LpPool": import_lp_pool,
    "GlobalAveragePool": import_global_pool,
    "GlobalMaxPool": import_global_pool,
    "GlobalLpPool": import_global_lp_pool,
    "MaxUnpool": import_max_unpool,
}
