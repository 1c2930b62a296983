"""Ops that read images at computed places: one node, from the opset on that brought it."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.floats import WITH_DOUBLE, narrowed, widened
from nnconv.formats.onnx.spelled import export_in_parts
from nnconv.formats.onnx.weights import weights
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import sampling as s

_GRID_OPSET, _ANY_GRID_OPSET = 16, 20
_AFFINE_OPSET = 20
_HALF_PIXEL_OPSET = 16
_DEFORM_OPSET = 19
_COLUMNS_OPSET = 18

_OLD_MODES = {
    s.Sampling.NEAREST: "nearest",
    s.Sampling.LINEAR: "bilinear",
    s.Sampling.CUBIC: "bicubic",
}


def export_grid_sample(node: Node, t: Target) -> None:
    """GridSample; in float32 before opset 20, which brought images of other ranks too."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, s.GridSample)
    new = t.opset >= _ANY_GRID_OPSET
    if x.type.rank == 4:
        t.require_opset(_GRID_OPSET, "GridSample nodes")
    else:
        t.require_opset(_ANY_GRID_OPSET, "GridSample nodes of volumes")
    types = {t.real_type(v) for v in node.inputs if v is not None}
    kernels = WITH_DOUBLE if new and len(types) == 1 else frozenset()
    result = t.node(
        "GridSample",
        [narrowed(t, v, kernels) for v in node.inputs],
        mode=op.mode.value if new else _OLD_MODES[op.mode],
        padding_mode=op.beyond.value,
        align_corners=int(op.align_corners),
    )
    t.set_real(y, widened(t, result, y, kernels))


def export_affine_grid(node: Node, t: Target) -> None:
    """AffineGrid."""
    op, theta, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, s.AffineGrid)
    t.require_opset(_AFFINE_OPSET, "AffineGrid nodes")
    size = t.const(list(op.size)) if op.size is not None else t.int64(node.inputs[1])
    inputs = [narrowed(t, theta, WITH_DOUBLE), size]
    result = t.node("AffineGrid", inputs, align_corners=int(op.align_corners))
    t.set_real(y, widened(t, result, y, WITH_DOUBLE))


def export_roi_align(node: Node, t: Target) -> None:
    """RoiAlign; where bins have more points along one side than along the other, as products."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.RoiAlign)
    if not op.is_square:
        export_in_parts(node, t)
        return
    x, regions, images = node.inputs
    mode = None
    if t.opset >= _HALF_PIXEL_OPSET:
        mode = "half_pixel" if op.half_pixel else "output_half_pixel"
    elif op.half_pixel:
        t.require_opset(_HALF_PIXEL_OPSET, "RoiAlign nodes of half pixels")
    types = {t.real_type(v) for v in (x, regions) if v is not None}
    kernels = WITH_DOUBLE if len(types) == 1 else frozenset()
    result = t.node(
        "RoiAlign",
        [narrowed(t, x, kernels), narrowed(t, regions, kernels), t.int64(images)],
        output_height=op.size[0],
        output_width=op.size[1],
        sampling_ratio=op.samples,
        spatial_scale=op.scale,
        mode="max" if op.greatest else "avg",
        coordinate_transformation_mode=mode,
    )
    t.set_real(y, widened(t, result, y, kernels))


def export_max_roi_pool(node: Node, t: Target) -> None:
    """MaxRoiPool."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.MaxRoiPool)
    inputs = [narrowed(t, v) for v in node.inputs]
    result = t.node("MaxRoiPool", inputs, pooled_shape=op.size, spatial_scale=op.scale)
    t.set_real(y, widened(t, result, y))


def export_deform_conv(node: Node, t: Target) -> None:
    """DeformConv."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.DeformConv)
    x, filters, offset = (node.operand(i) for i in range(3))
    bias, mask = node.optional(3), node.optional(4)
    t.require_opset(_DEFORM_OPSET, "DeformConv nodes")
    order = weights(t, filters, (0, 3, 1, 2), x=x, integer=False)
    inputs = [
        narrowed(t, x, WITH_DOUBLE),
        narrowed(t, x, WITH_DOUBLE, name=order),
        *(narrowed(t, v, WITH_DOUBLE) for v in (offset, bias, mask)),
    ]
    while not inputs[-1]:
        inputs.pop()
    result = t.node(
        "DeformConv",
        inputs,
        strides=op.stride,
        dilations=op.dilation,
        pads=(*op.padding.before, *op.padding.after),
        group=op.groups,
        offset_group=op.offset_groups,
    )
    t.set_real(y, widened(t, result, y, WITH_DOUBLE))


def export_col2im(node: Node, t: Target) -> None:
    """Col2Im."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, s.Col2Im)
    x, image, block = (*node.inputs, None, None)[:3]
    t.require_opset(_COLUMNS_OPSET, "Col2Im nodes")
    sizes = [
        t.int64(operand) if given is None else t.const(list(given))
        for given, operand in ((op.image, image), (op.block, block))
    ]
    result = t.node(
        "Col2Im",
        [narrowed(t, x), *sizes],
        strides=op.stride,
        dilations=op.dilation,
        pads=(*op.padding.before, *op.padding.after),
    )
    t.set_real(y, widened(t, result, y))


EXPORTERS: dict[type[Op], Exporter] = {
    s.GridSample: export_grid_sample,
    s.AffineGrid: export_affine_grid,
    s.RoiAlign: export_roi_align,
    s.MaxRoiPool: export_max_roi_pool,
    s.DeformConv: export_deform_conv,
    s.Col2Im: export_col2im,
}
