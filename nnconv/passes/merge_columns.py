"""Gives convolutions of few channels neighbouring columns as channels, which costs no move."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import EIGHT_BITS
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Layout, LayoutKind
from nnconv.ir.quant import Quant
from nnconv.ir.types import static_shape
from nnconv.ops.conv import Conv2D
from nnconv.ops.rewrite import constant_behind, reshaped
from nnconv.ops.shape import Reshape
from nnconv.ops.spatial import Padding
from nnconv.passes.base import Pass

FEW = 4
"""Up to so many channels a convolution counts as one of few."""

PACK = 4
"""onnxruntime's quick integer convolution wants multiples of so many channels."""

HALF = 8
"""Up to so many channels, it gains by twice as many."""

GROWTH = 16
"""How many times as many products an integer convolution may take."""


class MergeColumnsPass(Pass):
    """Rewrites convolutions on [N, H, W, C] with small C: those at a network's entry.

    Floats become [N, H, W * C, 1] under a window that is C times as wide and goes C times as far:
    the same sums. A single channel is in both layouts at once, so the transpose of the input goes.

    8-bit codes become [N, H, W / f, f * C], with all filters of the columns that one step covers
    side by side, and weights of zeros where a filter doesn't reach. These are more products, but
    of a shape that onnxruntime multiplies at once; else it gathers windows byte by byte. The same
    serves depthwise convolutions of 8 channels, which as such take the time of 16.
    """

    name: ClassVar[str] = "merge_columns"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph's."""
        modified = False
        for node in graph.nodes:
            if isinstance(node.op, Conv2D) and _is_narrow(node, node.op):
                modified |= _merge_floats(node, node.op) or _merge_codes(node, node.op)
        return modified


def _is_narrow(node: Node, op: Conv2D) -> bool:
    """Whether a convolution takes few channels, in the layout that the pass is about."""
    value, weights = node.inputs[0], node.inputs[1]
    if value is None or value.shape is None or weights is None or op.layout is not Layout.NHWC:
        return False
    channels = value.shape[-1]
    if not isinstance(channels, int) or op.padding.same or op.dilation[1] != 1:
        return False
    if constant_behind(weights) is None:
        return False
    if op.groups == 1:
        return channels <= FEW and _is_entry(node)
    return channels == op.groups == HALF and weights.shape is not None and weights.shape[0] == HALF


def _is_entry(node: Node) -> bool:
    """Whether a convolution takes what no spatial op made."""
    source = node.inputs[0]
    while source is not None and source.producer is not None:
        producer = source.producer
        if source.use_count != 1 or producer.op.layout_kind is LayoutKind.IMPLICIT:
            return False
        source = producer.inputs[0] if producer.inputs else None
    return True


def _merge_floats(node: Node, op: Conv2D) -> bool:
    x, weights = node.operand(0), node.operand(1)
    assert x.shape is not None
    count, height, width, channels = x.shape
    known = static_shape(weights.shape)
    dims = static_shape((height, width, channels))
    if x.quant is not None or op.groups != 1 or channels == 1:
        return False
    if known is None or dims is None or 0 in dims:
        return False
    if weights.quant is not None and weights.quant.axis not in (None, 0):
        return False
    height, width, channels = dims
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    shape = (count if isinstance(count, int) else -1, height, width * channels, 1)
    kind = x.type.with_shape((count, *shape[1:]))
    (flat,) = builder.add_typed(Reshape(shape=shape), [x], [kind], names=[x.name])
    filters, rows, columns, _ = known
    node.replace_input_with(0, flat)
    node.replace_input_with(1, reshaped(builder, weights, (filters, rows, columns * channels, 1)))
    before, after = op.padding.before, op.padding.after
    node.op = op.replace(
        stride=(op.stride[0], op.stride[1] * channels),
        padding=Padding((before[0], before[1] * channels), (after[0], after[1] * channels)),
    )
    return True


class _Step(NamedTuple):
    """How columns go together.

    Attributes:
        columns: of the input, in each group.
        results: columns of the result that a group gives.
        first, last: the groups that those reach over, counted from their own.
    """

    columns: int
    results: int
    first: int
    last: int

    @property
    def groups(self) -> int:
        """Over how many groups the new window goes."""
        return self.last - self.first + 1


def _step(op: Conv2D, width: int, channels: int, window: int, count: int) -> _Step | None:
    """The least step that gives a multiple of ``PACK`` channels; None if there is none."""
    stride, before = op.stride[1], op.padding.before[1]
    columns = math.lcm(PACK // math.gcd(PACK, channels), stride)
    if columns * channels <= HALF and width % (2 * columns) == 0:
        columns *= 2
    results = columns // stride
    if columns == 1 or width % columns or count * stride != width:
        return None
    last = (results - 1) * stride - before + window - 1
    return _Step(columns, results, -before // columns, last // columns)


def _merge_codes(node: Node, op: Conv2D) -> bool:
    x, weights, y = node.operand(0), node.operand(1), node.outputs[0]
    bias = node.optional(2)
    assert x.shape is not None
    if not _has_codes(x, weights, y) or (bias is not None and not _is_constant(bias)):
        return False
    dims = static_shape(x.shape[1:])
    known = static_shape((y.shape or (None,))[1:])
    assert weights.data is not None
    if dims is None or known is None or 0 in (*dims, *known):
        return False
    height, width, channels = dims
    rows, columns, filters = known
    step = _step(op, width, channels, weights.data.shape[2], columns)
    if step is None or step.groups * step.columns > GROWTH * weights.data.shape[2]:
        return False
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    count = x.shape[0]
    shape = (
        count if isinstance(count, int) else -1,
        height,
        width // step.columns,
        step.columns * channels,
    )
    kind = x.type.with_shape((count, *shape[1:]))
    (packed,) = builder.add_typed(Reshape(shape=shape), [x], [kind], names=[x.name])
    new_bias = None if bias is None else _repeated(bias, bias.data, step.results)
    before, after = op.padding.before, op.padding.after
    new_op = op.replace(
        stride=(op.stride[0], 1),
        padding=Padding((before[0], -step.first), (after[0], step.last)),
        groups=1,
    )
    wide = y.type.with_shape((count, rows, columns // step.results, step.results * filters))
    (result,) = builder.add_typed(
        new_op,
        [packed, _repeated(weights, _spread(weights, op, step), step.results), new_bias],
        [wide],
        names=[y.name],
    )
    back = (shape[0], rows, columns, filters)
    node.op = Reshape(shape=back)
    node.set_inputs([result])
    return True


def _has_codes(x: Value, weights: Value, y: Value) -> bool:
    if {x.dtype, y.dtype, weights.dtype} - EIGHT_BITS or weights.data is None:
        return False
    quant = weights.quant
    if x.quant is None or y.quant is None or quant is None or quant.block:
        return False
    return y.quant.is_per_tensor and quant.axis in (None, 0)


def _is_constant(bias: Value) -> bool:
    return bias.data is not None and bias.quant is not None


def _spread(weights: Value, op: Conv2D, step: _Step) -> np.ndarray:
    """The weights of all results of a group, over the columns of all groups they reach."""
    data, quant = weights.data, weights.quant
    assert data is not None
    assert quant is not None
    filters, rows, window, channels = data.shape
    if op.groups > 1:
        channels = op.groups
    points = np.asarray(quant.zero_point).astype(data.dtype).reshape(-1, 1, 1, 1)
    wide = np.empty((step.results, filters, rows, step.groups * step.columns, channels), data.dtype)
    wide[:] = points
    for result in range(step.results):
        start = result * op.stride[1] - op.padding.before[1] - step.first * step.columns
        part = wide[result, :, :, start : start + window]
        if op.groups == 1:
            part[:] = data
        else:
            each = np.arange(filters)
            part[each, :, :, each] = data[..., 0]
    return wide.reshape(-1, rows, step.groups, step.columns * channels)


def _repeated(value: Value, data: np.ndarray | None, times: int) -> Value:
    """``value`` with its filters ``times`` times; weights come as ``data`` that has them so."""
    quant = value.quant
    assert data is not None
    assert quant is not None
    if data is value.data:
        data = np.tile(data, times)
    if quant.axis is not None:
        quant = Quant(
            scale=quant.scale * times, zero_point=quant.zero_point * times, axis=quant.axis
        )
    kind = replace(value.type, shape=data.shape, quant=quant)
    return Value(value.name, kind, data=data, origin=value.origin)
