"""Convolutions: weights are brought to OHWI, automatic padding to numbers where it can be."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import Dim, static_shape
from nnconv.ops import conv as c
from nnconv.ops.rewrite import transposed
from nnconv.ops.spatial import Padding

_CONVS = {1: c.Conv1D, 2: c.Conv2D, 3: c.Conv3D}
_Transposed: TypeAlias = c.ConvTranspose1D | c.ConvTranspose2D | c.ConvTranspose3D

_TRANSPOSED: dict[int, type[_Transposed]] = {
    1: c.ConvTranspose1D,
    2: c.ConvTranspose2D,
    3: c.ConvTranspose3D,
}

MOST_SPATIAL = 3
"""Spatial dimensions of a convolution or pool."""


class Windows(NamedTuple):
    """How a window slides: its extents, steps, the distance of neighbours in it, and padding."""

    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Padding


def numbers(src: Source, name: str, count: int, default: int, least: int) -> tuple[int, ...]:
    """An attribute of one integer a spatial dimension.

    Raises:
        InvalidModelError: when there are more or fewer, or one is below ``least``.
    """
    found = src.int_list(name)
    if found is None:
        return (default,) * count
    if len(found) != count or min(found, default=least) < least:
        raise src.fail(
            f"{name} is {list(found)}, must be {plural(count, 'number')} from {least} on"
        )
    return found


def spatial_rank(src: Source, x: Value, window: tuple[int, ...] | None) -> int:
    """How many spatial dimensions an op on ``x`` works in.

    Raises:
        InvalidModelError: when it has none, or a window of another rank.
        NotConvertible: when it isn't known, or too many.
    """
    rank = len(x.shape) - 2 if x.shape is not None else None
    if rank is None:
        rank = len(window) if window is not None else src.rank(x) - 2
    if window is not None and len(window) != rank:
        raise src.fail(f"a window of {plural(len(window), 'dimension')} for rank {rank + 2}")
    if rank < 1:
        raise src.fail(f"input has rank {rank + 2}, must have 3 or more")
    if rank > MOST_SPATIAL:
        raise src.unsupported(
            f"{plural(rank, 'spatial dimension')}, at most {MOST_SPATIAL} are supported"
        )
    return rank


def extents_of(x: Value, rank: int) -> tuple[Dim, ...]:
    """The spatial extents of an NCHW tensor."""
    return (None,) * rank if x.shape is None else x.shape[2:]


def windows(src: Source, x: Value, window: tuple[int, ...]) -> Windows:
    """How a window of known extents slides over ``x``."""
    rank = spatial_rank(src, x, window)
    if min(window) < 1:
        raise src.fail(f"window is {list(window)}, must be positive")
    stride = numbers(src, "strides", rank, 1, 1)
    dilation = numbers(src, "dilations", rank, 1, 1)
    mode = src.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        lower = mode == "SAME_LOWER"
        padding = Padding.same_for(extents_of(x, rank), window, stride, dilation, lower=lower)
    elif mode == "VALID":
        padding = Padding.none(rank)
    elif mode in ("NOTSET", ""):
        padding = given_padding(src, rank)
    else:
        raise src.fail(f"auto_pad is {mode!r}")
    return Windows(window, stride, dilation, padding)


def given_padding(src: Source, rank: int) -> Padding:
    """The attribute ``pads``."""
    pads = src.int_list("pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank:
        raise src.fail(f"{plural(len(pads), 'pad')}, must be {2 * rank}")
    if min(pads) < 0:
        raise src.unsupported(f"pads {list(pads)} cut elements off")
    return Padding(pads[:rank], pads[rank:])


def _filter_window(src: Source, weights: Value, rank: int) -> tuple[int, ...]:
    """The extents of a filter's window: of its shape, or as an attribute says."""
    given = src.int_list("kernel_shape")
    shape = None if weights.shape is None else weights.shape[2:]
    known = static_shape(shape)
    if known is None:
        if given is None:
            raise src.unsupported(f"the extents of filter `{weights.name}` aren't known")
        known = given
    if len(known) != rank or (given is not None and given != known):
        raise src.fail(f"filter `{weights.name}` is {weights.type}, kernel_shape {given}")
    return known


def _groups(src: Source, x: Value) -> int:
    groups = src.int("group", 1)
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise src.fail(
            f"{plural(channels, 'channel')} can't be split into {plural(groups, 'group')}"
        )
    return groups


def _filter_rank(src: Source, x: Value, weights: Value) -> int:
    known = weights.shape if x.shape is None else x.shape
    if known is None:
        return spatial_rank(src, x, None)
    return spatial_rank(src, x, None if x.shape is not None else (1,) * (len(known) - 2))


def _direct_order(rank: int) -> tuple[int, ...]:
    """From [O, I, spatial...] to the IR's order."""
    return (0, *range(2, rank + 2), 1)


def import_conv(src: Source) -> None:
    """Conv."""
    x, weights, bias = src.operand(0), src.operand(1), src.optional(2)
    rank = _filter_rank(src, x, weights)
    slide = windows(src, x, _filter_window(src, weights, rank))
    op = _CONVS[rank](
        layout=Layout.NCHW,
        stride=slide.stride,
        dilation=slide.dilation,
        padding=slide.padding,
        groups=_groups(src, x),
    )
    filters = transposed(src.builder, weights, _direct_order(rank))
    src.emit(op, [x, filters] if bias is None else [x, filters, bias])


def import_conv_integer(src: Source) -> None:
    """ConvInteger."""
    x, weights = src.operand(0), src.operand(1)
    rank = _filter_rank(src, x, weights)
    slide = windows(src, x, _filter_window(src, weights, rank))
    op = c.ConvInteger(
        layout=Layout.NCHW,
        stride=slide.stride,
        dilation=slide.dilation,
        padding=slide.padding,
        groups=_groups(src, x),
    )
    filters = transposed(src.builder, weights, _direct_order(rank))
    src.emit(op, [x, filters, src.optional(2), src.optional(3)])


def import_conv_transpose(src: Source) -> None:
    """ConvTranspose: how far the result reaches is told by padding, or by its own extents."""
    x, weights, bias = src.operand(0), src.operand(1), src.optional(2)
    rank = _filter_rank(src, x, weights)
    window = _filter_window(src, weights, rank)
    stride = numbers(src, "strides", rank, 1, 1)
    dilation = numbers(src, "dilations", rank, 1, 1)
    mode = src.text("auto_pad", "NOTSET")
    if mode not in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", ""):
        raise src.fail(f"auto_pad is {mode!r}")
    op = _TRANSPOSED[rank](
        layout=Layout.NCHW,
        stride=stride,
        dilation=dilation,
        padding=Padding((0,) * rank, (0,) * rank, lower=mode != "SAME_UPPER"),
        output_padding=numbers(src, "output_padding", rank, 0, 0),
        groups=_groups(src, x),
    )
    size = src.int_list("output_shape")
    if size is not None:
        if len(size) not in (rank, rank + 2) or min(size) < 1:
            raise src.fail(f"output_shape is {list(size)}, must be {rank} positive numbers")
        op = op.replace(size=size[-rank:])
        extents = static_shape(extents_of(x, rank))
        if extents is not None:
            op = op.sized(extents, window)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        op = op.replace(padding=_same_transposed(op, window, lower=mode == "SAME_LOWER"))
    elif mode == "VALID":
        op = op.replace(padding=Padding.none(rank))
    else:
        op = op.replace(padding=given_padding(src, rank))
    filters = transposed(src.builder, weights, (1, *range(2, rank + 2), 0))
    src.emit(op, [x, filters] if bias is None else [x, filters, bias])


def _same_transposed(
    op: _Transposed,
    window: tuple[int, ...],
    *,
    lower: bool,
) -> Padding:
    """What makes the result's extents those of x times the stride, if that is to cut."""
    places = zip(window, op.dilation, op.stride, op.output_padding, strict=True)
    total = [max((k - 1) * d + 1 + more - step, 0) for k, d, step, more in places]
    before = tuple((n + lower) // 2 for n in total)
    return Padding(before, tuple(n - b for n, b in zip(total, before, strict=True)))


IMPORTERS: dict[str, Importer] = {
    "Conv": import_conv,
    "ConvInteger": import_conv_integer,
    "ConvTranspose": import_conv_transpose,
}
