"""Ops that read images at computed places."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.imports.conv import given_padding, numbers
from nnconv.ir.types import static_shape
from nnconv.ops import sampling as s
from nnconv.ops.rewrite import transposed

_MODES = {
    "linear": s.Sampling.LINEAR,
    "bilinear": s.Sampling.LINEAR,
    "cubic": s.Sampling.CUBIC,
    "bicubic": s.Sampling.CUBIC,
    "nearest": s.Sampling.NEAREST,
}


def import_grid_sample(src: Source) -> None:
    """GridSample, whose modes had other names before opset 20."""
    mode = src.text("mode", "linear")
    padding = src.text("padding_mode", "zeros")
    if mode not in _MODES or padding not in {b.value for b in s.Beyond}:
        raise src.fail(f"mode is {mode!r}, padding_mode {padding!r}")
    op = s.GridSample(
        mode=_MODES[mode],
        beyond=s.Beyond(padding),
        align_corners=bool(src.int("align_corners", 0)),
    )
    src.emit(op, [src.operand(0), src.operand(1)])


def import_affine_grid(src: Source) -> None:
    """AffineGrid."""
    size = src.ints(1)
    op = s.AffineGrid(size=size, align_corners=bool(src.int("align_corners", 0)))
    operands = [src.operand(0)]
    src.emit(op, operands if size is not None else [*operands, src.operand(1)])


def import_roi_align(src: Source) -> None:
    """RoiAlign, without half pixels before opset 16."""
    mode = src.text("mode", "avg")
    coordinates = src.text("coordinate_transformation_mode", "half_pixel")
    if mode not in ("avg", "max") or coordinates not in ("half_pixel", "output_half_pixel"):
        raise src.fail(f"mode is {mode!r}, coordinate_transformation_mode {coordinates!r}")
    op = s.RoiAlign(
        size=(src.int("output_height", 1), src.int("output_width", 1)),
        scale=src.float("spatial_scale", 1.0),
        samples=src.int("sampling_ratio", 0),
        greatest=mode == "max",
        half_pixel=src.version >= 16 and coordinates == "half_pixel",
    )
    if min(op.size) < 1 or op.samples < 0:
        raise src.fail(f"its result is {list(op.size)}, its sampling_ratio {op.samples}")
    src.emit(op, [src.operand(i) for i in range(3)])


def import_max_roi_pool(src: Source) -> None:
    """MaxRoiPool."""
    size = src.int_list("pooled_shape")
    if size is None or len(size) != 2 or min(size) < 1:
        raise src.fail(f"pooled_shape is {size}, must be two positive numbers")
    op = s.MaxRoiPool(size=(size[0], size[1]), scale=src.float("spatial_scale", 1.0))
    src.emit(op, [src.operand(0), src.operand(1)])


def import_deform_conv(src: Source) -> None:
    """DeformConv: weights are brought to OHWI."""
    x, weights, offset = (src.operand(i) for i in range(3))
    if src.rank(x) != 4:
        raise src.unsupported(f"input has rank {src.rank(x)}, 4 is supported")
    op = s.DeformConv(
        stride=numbers(src, "strides", 2, 1, 1),
        dilation=numbers(src, "dilations", 2, 1, 1),
        padding=given_padding(src, 2),
        groups=src.int("group", 1),
        offset_groups=src.int("offset_group", 1),
    )
    assert x.shape is not None
    filters = static_shape(weights.shape)
    parts = (op.groups, op.offset_groups)
    if filters is None or len(filters) != 4:
        raise src.unsupported(f"filter `{weights.name}` is {weights.type}")
    channels = x.shape[1]
    if min(parts) < 1 or filters[0] % op.groups:
        raise src.fail(f"{plural(parts, 'group')} of {plural(filters[0], 'filter')}")
    if isinstance(channels, int) and (
        channels != filters[1] * op.groups or channels % op.offset_groups
    ):
        raise src.fail(
            f"{plural(channels, 'channel')} for filter {list(filters)}, {plural(parts, 'group')}"
        )
    turned = transposed(src.builder, weights, (0, 2, 3, 1))
    src.emit(op, [x, turned, offset, src.optional(3), src.optional(4)])


def import_col2im(src: Source) -> None:
    """Col2Im."""
    image, block = src.ints(1), src.ints(2)
    known = image if image is not None else block
    sizes = src.operand(1).shape
    rank = len(known) if known is not None else sizes[0] if sizes else None
    if not isinstance(rank, int):
        raise src.unsupported("the rank of the image isn't known")
    op = s.Col2Im(
        image=image,
        block=block,
        stride=numbers(src, "strides", rank, 1, 1),
        dilation=numbers(src, "dilations", rank, 1, 1),
        padding=given_padding(src, rank),
    )
    operands = [
        src.operand(0),
        None if image is not None else src.operand(1),
        None if block is not None else src.operand(2),
    ]
    while operands[-1] is None:
        operands.pop()
    src.emit(op, operands)


IMPORTERS: dict[str, Importer] = {
    "GridSample": import_grid_sample,
    "AffineGrid": import_affine_grid,
    "RoiAlign": import_roi_align,
    "MaxRoiPool": import_max_roi_pool,
    "DeformConv": import_deform_conv,
    "Col2Im": import_col2im,
}
