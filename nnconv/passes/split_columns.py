"""Undoes what gives convolutions of few channels neighbouring columns as channels.

``MergeColumnsPass`` writes such ONNX files, and people who know their runtime do. LiteRT is as
quick with the convolution itself, which takes fewer products and no Reshape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.conv import Conv2D
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Reshape
from nnconv.ops.spatial import Padding
from nnconv.passes.base import Rule, RulesPass


class _Merged(NamedTuple):
    """A convolution of merged columns.

    Attributes:
        x: what the Reshape before it merges.
        columns, channels: of ``x``.
        filters: the weights as [O, KH, elements of a row], zero points taken off.
        start: how many elements of a row stand before the first window.
        step: from one window to the next, in elements of a row.
    """

    x: Value
    columns: int
    channels: int
    filters: np.ndarray
    start: int
    step: int


def _merged(node: Node, op: Conv2D) -> _Merged | None:
    wide, weights = node.inputs[0], node.inputs[1]
    first = None if wide is None else wide.producer
    x = first.inputs[0] if first is not None and isinstance(first.op, Reshape) else None
    if op.layout is not Layout.NHWC or op.groups != 1 or op.padding.same or op.dilation[1] != 1:
        return None
    if x is None or wide is None or weights is None or x.quant != wide.quant:
        return None
    before, after = x.shape, wide.shape
    if before is None or after is None or len(before) != 4 or before[1] != after[1]:
        return None
    old, new = static_shape(before[2:]), static_shape(after[2:])
    if old is None or new is None or old == new or old[0] * old[1] != new[0] * new[1]:
        return None
    data = _codes(weights)
    if data is None:
        return None
    columns, channels = old
    return _Merged(
        x,
        columns,
        channels,
        data.reshape(*data.shape[:2], -1),
        op.padding.before[1] * new[1],
        op.stride[1] * new[1],
    )


def _codes(weights: Value) -> np.ndarray | None:
    """Constant weights less their zero point, of which there may be one alone."""
    source = constant_behind(weights)
    if source is None or source.data is None:
        return None
    quant = source.quant
    if quant is None or (quant.is_symmetric and not quant.block and quant.axis in (None, 0)):
        return source.data
    if not quant.is_per_tensor or source.dtype.bits > 8:
        return None
    return source.data.astype(np.int16) - np.int16(quant.zero_point[0])


def _split(node: Node, outputs: set[Value]) -> bool:
    """Rewrite a convolution, with what follows it if that belongs to it."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Conv2D)
    merged = _merged(node, op)
    if merged is None:
        return False
    behind = _spread(y, outputs)
    if behind is None:
        merged, count = _sets_beside(merged, y, outputs)
    else:
        times = _channels(y) // _channels(behind.outputs[0])
        found = _one_set(merged, times)
        merged, count = (merged, 1) if found is None else (found, times)
    result = behind.outputs[0] if behind is not None and count > 1 else y
    windows = None if result.shape is None else result.shape[2]
    if behind is None and isinstance(windows, int):
        windows *= count
    if not isinstance(windows, int) or merged.step % merged.channels:
        return False
    filters, before = _in_columns(merged)
    stride, width = merged.step // merged.channels, filters.shape[2]
    after = max((windows - 1) * stride + width - merged.columns - before, 0)
    if (merged.columns + before + after - width) // stride + 1 != windows:
        return False
    constants = _constants(node, filters, count)
    if constants is None:
        return False
    weights, bias = constants
    node.op = op.replace(
        stride=(op.stride[0], stride),
        padding=Padding((op.padding.before[0], before), (op.padding.after[0], after)),
        groups=_groups(weights, filters, merged.channels),
    )
    if node.op.groups > 1:
        weights = _diagonal(weights, merged.channels)
    _put(node, merged.x, weights, bias)
    if result is not y:
        y.type = result.type
        y.name = result.name
        _stand_in(node, result, outputs)
    elif count > 1:
        _merge_again(node, count)
    return True


def _channels(value: Value) -> int:
    count = None if value.shape is None else value.shape[-1]
    assert isinstance(count, int)
    return count


def _spread(y: Value, outputs: set[Value]) -> Node | None:
    """The Reshape that alone reads a result, and makes columns of its channels."""
    if y.use_count != 1 or y in outputs or y.shape is None:
        return None
    reader = y.uses[0].node
    shape = reader.outputs[0].shape if isinstance(reader.op, Reshape) else None
    if shape is None or len(shape) != 4 or shape[1] != y.shape[1]:
        return None
    if reader.outputs[0].quant != y.quant:
        return None
    old, new = static_shape(y.shape[2:]), static_shape(shape[2:])
    if old is None or new is None or old[0] * old[1] != new[0] * new[1]:
        return None
    return reader if new[1] and old[1] % new[1] == 0 and old[1] > new[1] else None


def _sets_beside(merged: _Merged, y: Value, outputs: set[Value]) -> tuple[_Merged, int]:
    """The one set of filters and how often it is there, where a convolution takes them as they are.

    Two that were merged in a row have no Reshape between them.
    """
    known = y.shape is not None and len(y.shape) == 4 and static_shape(y.shape[1:]) is not None
    reader = y.uses[0].node if y.use_count == 1 and y not in outputs else None
    if reader is None or not known or not isinstance(reader.op, Conv2D) or reader.op.groups != 1:
        return merged, 1
    most = merged.step // merged.channels
    for times in range(most, 1, -1):
        found = _one_set(merged, times) if most % times == 0 else None
        if found is not None:
            return found, times
    return merged, 1


def _one_set(merged: _Merged, times: int) -> _Merged | None:
    """The one set of filters, if each of ``times`` is it, a step farther on than the last."""
    filters, rows, length = merged.filters.shape
    if filters % times or merged.step % times:
        return None
    step = merged.step // times
    reach = length - (times - 1) * step
    if reach < 1:
        return None
    sets = merged.filters.reshape(times, filters // times, rows, length)
    one = sets[0, :, :, :reach]
    for place in range(times):
        start = place * step
        rest = np.concatenate(
            (sets[place, :, :, :start], sets[place, :, :, start + reach :]), axis=2
        )
        if np.any(rest) or not np.array_equal(sets[place, :, :, start : start + reach], one):
            return None
    return merged._replace(filters=one, step=step)


def _in_columns(merged: _Merged) -> tuple[np.ndarray, int]:
    """Filters [O, KH, KW, C], without columns of zeros at the ends, and the padding before them."""
    channels = merged.channels
    before = -(-merged.start // channels)
    lead = before * channels - merged.start
    length = merged.filters.shape[2]
    width = -(-(lead + length) // channels)
    padded = np.pad(merged.filters, ((0, 0), (0, 0), (lead, width * channels - lead - length)))
    filters = padded.reshape(*padded.shape[:2], width, channels)
    used = np.flatnonzero(np.any(filters, axis=(0, 1, 3)))
    first = int(min(used[0], before)) if used.size else 0
    last = int(used[-1]) + 1 if used.size else 1
    return filters[:, :, first : max(last, first + 1)], before - first


def _constants(node: Node, filters: np.ndarray, count: int) -> tuple[Value, Value | None] | None:
    """Weights and bias of the first of ``count`` sets, if all have the same parameters."""
    weights, bias = node.operand(1), node.optional(2)
    source = constant_behind(weights)
    assert source is not None
    first = _first_of(source.quant, count)
    if source.quant is not None and first is None:
        return None
    if first is not None and first.is_per_tensor and not first.is_symmetric:
        filters = (filters + first.zero_point[0]).astype(source.dtype.numpy)
    kind = TensorType(source.dtype, tuple(filters.shape), first)
    made = Value(source.name, kind, data=np.ascontiguousarray(filters), origin=source.origin)
    if bias is None or count == 1:
        return made, bias
    origin = constant_behind(bias)
    if origin is None or origin.data is None or origin is not bias:
        return None
    sets = origin.data.reshape(count, -1)
    quant = _first_of(origin.quant, count)
    if np.any(sets != sets[0]) or (origin.quant is not None and quant is None):
        return None
    kind = TensorType(origin.dtype, (sets.shape[1],), quant)
    return made, Value(origin.name, kind, data=sets[0].copy(), origin=origin.origin)


def _first_of(quant: Quant | None, count: int) -> Quant | None:
    """Parameters of the first of ``count`` equal sets; None if they differ."""
    if quant is None or quant.axis is None or count == 1:
        return quant
    size = len(quant.scale) // count
    scale, points = quant.scale[:size], quant.zero_point[:size]
    if quant.scale != scale * count or quant.zero_point != points * count:
        return None
    return Quant(scale=scale, zero_point=points, axis=quant.axis)


def _groups(weights: Value, filters: np.ndarray, channels: int) -> int:
    """``channels`` if each filter is of one channel only, in order; else 1."""
    count = filters.shape[0]
    if channels == 1 or count % channels:
        return 1
    used = np.any(filters, axis=(1, 2))  # [O, C]
    own = np.repeat(np.eye(channels, dtype=bool), count // channels, axis=0)
    return channels if weights.data is not None and not np.any(used & ~own) else 1


def _diagonal(weights: Value, channels: int) -> Value:
    """The weights of each filter's own channel."""
    data = weights.data
    assert data is not None
    places = np.repeat(np.arange(channels), data.shape[0] // channels)
    own = np.take_along_axis(data, places.reshape(-1, 1, 1, 1), axis=3)
    kind = weights.type.with_shape(tuple(own.shape))
    return Value(weights.name, kind, data=own, origin=weights.origin)


def _put(node: Node, x: Value, codes: Value, bias: Value | None) -> None:
    """Let a node read other constants, widened as the old ones were."""
    old = node.operand(1)
    weights = codes
    if old.data is None:
        maker = old.producer
        assert maker is not None
        assert node.graph is not None
        assert isinstance(maker.op, Cast | Dequantize)
        builder = Builder(node.graph, before=node, origin=maker.origin)
        kind = TensorType(old.dtype, codes.shape, old.quant)
        weights = builder.add_typed(maker.op, [codes], [kind], names=[old.name])[0]
    node.set_inputs([x, weights] if bias is None and len(node.inputs) < 3 else [x, weights, bias])


def _merge_again(node: Node, count: int) -> None:
    """Let what reads a result, of which ``count`` columns were one, read them as such."""
    y, graph = node.outputs[0], node.graph
    assert graph is not None
    assert y.shape is not None
    old, uses = y.type, list(y.uses)
    batch, image = y.shape[0], static_shape(y.shape[1:])
    assert image is not None
    rows, columns, channels = image
    y.type = old.with_shape((batch, rows, columns * count, channels // count))
    shape = (batch if isinstance(batch, int) else -1, *image)
    builder = Builder(graph, before=uses[0].node, origin=node.origin)
    (wide,) = builder.add_typed(Reshape(shape=shape), [y], [old])
    for use in uses:
        use.node.replace_input_with(use.index, wide)


def _stand_in(node: Node, result: Value, outputs: set[Value]) -> None:
    """Let a node's result stand for that of the Reshape behind it."""
    y, reader, graph = node.outputs[0], result.producer, node.graph
    assert reader is not None
    assert graph is not None
    result.replace_all_uses_with(y)
    if result in outputs:
        graph.replace_output(result, y)
        outputs.add(y)
    graph.remove(reader)


class SplitColumnsPass(RulesPass):
    """Lets a convolution behind a Reshape of columns to channels read the columns.

    A Reshape behind it, of channels to columns, goes too where the filters are one set at
    neighbouring places. Layouts are settled.
    """

    name: ClassVar[str] = "split_columns"
    rules: ClassVar[Mapping[type[Op], Rule]] = {Conv2D: _split}
