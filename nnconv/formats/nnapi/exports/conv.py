"""Convolutions, in either layout. Their bias is written even where the op has none."""

from __future__ import annotations

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Exporter, Input, Target
from nnconv.formats.nnapi.types import PaddingCode
from nnconv.formats.nnapi.weighted import bias_operand, oriented, weighted
from nnconv.formats.nnapi.window import extents_of, padded, padding_inputs, pair
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import conv as c
from nnconv.ops.spatial import Padding


def export_conv_2d(node: Node, t: Target) -> None:
    """CONV_2D; DEPTHWISE_CONV_2D where each group is one channel; else GROUPED_CONV_2D."""
    op, x, weights, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, c.Conv2D)
    extents = extents_of(t, x, op.layout)
    filters = t.static(weights)
    depthwise = op.groups > 1 and filters[3] == 1
    name = "CONV_2D" if op.groups == 1 else "DEPTHWISE_CONV_2D" if depthwise else "GROUPED_CONV_2D"
    w = weighted(node, t, name)
    data, padding = reachable(t, x, op, filters[1:3])
    inputs: dict[str, Input] = {
        "input": data,
        "filter": oriented(t, w.weights, (3, 1, 2, 0) if depthwise else (0, 1, 2, 3)),
        "bias": bias_operand(t, w, filters[0]),
        **padding_inputs(t, extents, padding, filters[1:3], op.stride, op.dilation),
        **pair("stride", op.stride),
        "activation": t.activation(op.activation),
        "nchw": t.nchw(op.layout),
    }
    if depthwise:
        inputs["depth_multiplier"] = filters[0] // op.groups
    if name == "GROUPED_CONV_2D":
        if max(op.dilation) > 1:
            raise t.refused("GROUPED_CONV_2D has no dilations")
        inputs["groups"] = op.groups
    else:
        inputs.update(pair("dilation", op.dilation))
    t.emit(name, inputs, y)


def reachable(t: Target, x: Value, op: c.Conv2D, window: tuple[int, ...]) -> tuple[Ref, Padding]:
    """The data and the padding that is left: padding as large as the window is a PAD before."""
    padding = op.padding
    sizes = zip(window, op.dilation, padding.before, padding.after, strict=True)
    if padding.same or all(max(b, a) <= (n - 1) * d for n, d, b, a in sizes):
        return t.operand(x), padding
    return padded(t, x, op.layout, padding), Padding.none(2)


def export_conv_transpose_2d(node: Node, t: Target) -> None:
    """TRANSPOSE_CONV_2D: the padding says what is cut off; the scheme SAME what is added."""
    op, x, weights, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, c.ConvTranspose2D)
    extents = extents_of(t, x, op.layout)
    filters = t.static(weights)
    if op.groups > 1 or max(op.dilation) > 1:
        raise t.refused("TRANSPOSE_CONV_2D has neither groups nor dilations")
    if op.size is not None or op.padding.same:
        raise t.refused("its extents are given, and those of its operand aren't known")
    w = weighted(node, t, "TRANSPOSE_CONV_2D")
    inputs: dict[str, Input] = {
        "input": x,
        "filter": oriented(t, w.weights, (0, 1, 2, 3)),
        "bias": bias_operand(t, w, filters[0]),
        **pair("stride", op.stride),
        "activation": t.activation(op.activation),
        "nchw": t.nchw(op.layout),
    }
    cut = (*op.padding.before, *op.padding.after)
    if any(op.output_padding):
        if not _is_same(op, extents, filters[1:3]):
            raise t.refused("its result reaches beyond its windows")
        inputs["output_shape"] = t.ints(t.static(y))
        inputs["padding_scheme"] = int(PaddingCode.SAME)
    else:
        if min(cut) < 0:
            raise t.refused("its result reaches beyond its windows")
        inputs.update(
            pad_left=op.padding.before[1],
            pad_right=op.padding.after[1],
            pad_top=op.padding.before[0],
            pad_bottom=op.padding.after[0],
        )
    t.emit("TRANSPOSE_CONV_2D", inputs, y)


def _is_same(op: c.ConvTranspose2D, extents: tuple[object, ...], window: tuple[int, ...]) -> bool:
    """Whether the scheme SAME for the result's extents cuts and adds the same."""
    for i, extent in enumerate(extents):
        if not isinstance(extent, int):
            return False
        full = (extent - 1) * op.stride[i] + window[i]
        before, after = op.padding.before[i], op.padding.after[i] - op.output_padding[i]
        size = full - before - after
        total = (-(-size // op.stride[i]) - 1) * op.stride[i] + window[i] - size
        start = max(total, 0) // 2
        if -(-size // op.stride[i]) != extent or (before, after) != (start, total - start):
            return False
    return True


EXPORTERS: dict[type[Op], Exporter] = {
    c.Conv2D: export_conv_2d,
    c.ConvTranspose2D: export_conv_transpose_2d,
}
