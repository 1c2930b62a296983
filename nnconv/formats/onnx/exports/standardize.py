"""Ops that take off a mean and divide by a deviation: one node, or its parts before its opset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.reduce import reduced
from nnconv.formats.onnx.floats import WITH_DOUBLE, narrowed, widened
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops import standardize as s

_GROUP_OPSET = 21
"""The one before, of opset 18, has parameters of groups and is deprecated: checkers refuse it."""

_LAYER_OPSET = 17
_RMS_OPSET = 23


def _main(node: Node) -> tuple[Value, Value]:
    x = node.operand(0)
    return x, node.outputs[0]


def _along(t: Target, name: str, axis: int, rank: int) -> str:
    """Parameters of each index of ``axis``, to broadcast against ``rank`` dimensions."""
    if axis == rank - 1:
        return name
    return t.reshape(name, [-1, *[1] * (rank - 1 - axis)])


def _rank(t: Target, x: Value) -> int:
    if x.shape is None:
        raise t.unsupported("the rank isn't known")
    return len(x.shape)


def _kind(t: Target, x: Value) -> DType:
    """The type in which parts are computed: halves may have no number as small as an epsilon."""
    kind = t.real_type(x)
    return DType.FLOAT32 if kind in (DType.BFLOAT16, DType.FLOAT16) else kind


def _data(t: Target, x: Value) -> str:
    """Real values of ``x`` in that type."""
    return _typed(t, x, x)


def _typed(t: Target, value: Value | None, x: Value) -> str:
    """Real values of parameters in that type."""
    assert value is not None
    name, kind = t.real(value), _kind(t, x)
    return name if t.real_type(value) is kind else t.cast(name, kind)


def _number(t: Target, value: float, x: Value) -> str:
    return t.const(np.asarray(value, _kind(t, x).numpy))


def _give(t: Target, y: Value, name: str) -> None:
    """Give a result of parts."""
    kind = t.real_type(y)
    t.set_real(y, name if _kind(t, y) is kind else t.cast(name, kind))


def export_batch(node: Node, t: Target) -> None:
    """BatchNormalization along dimension 1; along others its arithmetic."""
    op, (x, y) = node.op, _main(node)
    assert isinstance(op, s.BatchNormalization)
    if op.axis == 1:
        inputs = [narrowed(t, v, WITH_DOUBLE) for v in node.inputs]
        kinds = {t.real_type(v) for v in node.inputs if v is not None}
        if len(kinds) > 1:
            inputs = [t.cast(name, DType.FLOAT32) for name in inputs]
            result = t.node("BatchNormalization", inputs, epsilon=op.epsilon)
            t.set_real(y, t.cast(result, t.real_type(y)))
            return
        result = t.node("BatchNormalization", inputs, epsilon=op.epsilon)
        t.set_real(y, widened(t, result, y, WITH_DOUBLE))
        return
    rank = _rank(t, x)
    scale, offset, mean, variance = (
        _along(t, _typed(t, v, x), op.axis, rank) for v in node.inputs[1:]
    )
    root = t.node("Sqrt", [t.node("Add", [variance, _number(t, op.epsilon, x)])])
    apart = t.node("Div", [t.node("Sub", [_data(t, x), mean]), root])
    _give(t, y, t.node("Add", [t.node("Mul", [apart, scale]), offset]))


def export_instance(node: Node, t: Target) -> None:
    """InstanceNormalization along dimension 1; along others its parts."""
    op, (x, y) = node.op, _main(node)
    assert isinstance(op, s.InstanceNormalization)
    if op.axis == 1:
        inputs = [narrowed(t, v) for v in node.inputs]
        result = t.node("InstanceNormalization", inputs, epsilon=op.epsilon)
        t.set_real(y, widened(t, result, y))
        return
    rank = _rank(t, x)
    axes = [i for i in range(1, rank) if i != op.axis]
    result = _standard(t, _data(t, x), axes, op.epsilon, x)[0]
    scale, offset = (_along(t, _typed(t, v, x), op.axis, rank) for v in node.inputs[1:])
    _give(t, y, t.node("Add", [t.node("Mul", [result, scale]), offset]))


def _standard(
    t: Target, name: str, axes: Sequence[int], epsilon: float, like: Value
) -> tuple[str, str, str]:
    """What is standardized over ``axes``, its mean, and the inverse of its deviation."""
    mean = reduced(t, "ReduceMean", name, axes, keep_dims=True)
    apart = t.node("Sub", [name, mean])
    squares = t.node("Mul", [apart, apart])
    variance = reduced(t, "ReduceMean", squares, axes, keep_dims=True)
    root = t.node("Sqrt", [t.node("Add", [variance, _number(t, epsilon, like)])])
    return t.node("Div", [apart, root]), mean, root


def export_group(node: Node, t: Target) -> None:
    """GroupNormalization from opset 21 on; before, InstanceNormalization of groups as channels."""
    op, (x, y) = node.op, _main(node)
    assert isinstance(op, s.GroupNormalization)
    if op.axis == 1 and t.opset >= _GROUP_OPSET:
        parameters = [_of_channels(t, op, narrowed(t, v), x) for v in node.inputs[1:]]
        inputs = [narrowed(t, x), *parameters]
        result = t.node("GroupNormalization", inputs, num_groups=op.groups, epsilon=op.epsilon)
        t.set_real(y, widened(t, result, y))
        return
    rank = _rank(t, x)
    name = narrowed(t, x)
    there = (0, op.axis, *(i for i in range(1, rank) if i != op.axis))
    if op.axis != 1:
        name = t.node("Transpose", [name], perm=there)
    whole = t.node("Shape", [name])
    parts = t.reshape(name, [0, op.groups, -1])
    ones, zeros = (t.const(np.full(op.groups, n, np.float32)) for n in (1, 0))
    kind = DType.FLOAT16 if t.real_type(x) is DType.FLOAT16 else DType.FLOAT32
    if kind is DType.FLOAT16:
        ones, zeros = t.cast(ones, kind), t.cast(zeros, kind)
    inputs = [parts, ones, zeros]
    name = t.node("InstanceNormalization", inputs, epsilon=op.epsilon)
    name = t.node("Reshape", [name, whole])
    shape = [-1, *[1] * (rank - 2)]
    scale, offset = (
        t.reshape(_of_channels(t, op, narrowed(t, v), x), shape) for v in node.inputs[1:]
    )
    name = t.node("Add", [t.node("Mul", [name, scale]), offset])
    if op.axis != 1:
        back = tuple(there.index(i) for i in range(rank))
        name = t.node("Transpose", [name], perm=back)
    t.set_real(y, widened(t, name, y))


def _of_channels(t: Target, op: s.GroupNormalization, name: str, x: Value) -> str:
    """Parameters of each channel."""
    if not op.by_group:
        return name
    channels = None if x.shape is None else x.shape[op.axis]
    if not isinstance(channels, int):
        raise t.unsupported("how many channels a group has isn't known")
    column = t.reshape(name, [-1, 1])
    spread = t.node("Expand", [column, t.const([op.groups, channels // op.groups])])
    return t.reshape(spread, [-1])


def export_layer(node: Node, t: Target) -> None:
    """LayerNormalization from opset 17 on; before, its parts."""
    op, (x, y) = node.op, _main(node)
    assert isinstance(op, s.LayerNormalization)
    if t.opset >= _LAYER_OPSET:
        known = frozenset({DType.FLOAT64, DType.BFLOAT16})  # onnxruntime's other kernels
        inputs = [narrowed(t, v, known) for v in node.inputs if v is not None]
        stash = None if op.dtype is DType.FLOAT32 else int(DATA_TYPES[op.dtype])
        results = t.nodes_of(
            "LayerNormalization",
            inputs,
            len(node.outputs),
            axis=op.axis,
            epsilon=op.epsilon,
            stash_type=stash,
        )
        t.set_real(y, widened(t, results[0], y, known))
        for value, name in zip(node.outputs[1:], results[1:], strict=True):
            t.set_real(value, name)
        return
    axes = range(op.axis, _rank(t, x))
    name, mean, root = _standard(t, _data(t, x), axes, op.epsilon, x)
    name = t.node("Mul", [name, _typed(t, node.inputs[1], x)])
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        name = t.node("Add", [name, _typed(t, node.inputs[2], x)])
    _give(t, y, name)
    if op.statistics:
        inverse = t.node("Reciprocal", [root])
        for value, part in zip(node.outputs[1:], (mean, inverse), strict=True):
            same = _kind(t, x) is value.dtype
            t.set_real(value, part if same else t.cast(part, value.dtype))


def export_rms(node: Node, t: Target) -> None:
    """RMSNormalization from opset 23 on; before, its parts."""
    op, (x, y) = node.op, _main(node)
    assert isinstance(op, s.RmsNormalization)
    if t.opset >= _RMS_OPSET:
        inputs = [narrowed(t, v, WITH_DOUBLE) for v in node.inputs]
        result = t.node("RMSNormalization", inputs, axis=op.axis, epsilon=op.epsilon)
        t.set_real(y, widened(t, result, y, WITH_DOUBLE))
        return
    name = _data(t, x)
    axes = range(op.axis, _rank(t, x))
    mean = reduced(t, "ReduceMean", t.node("Mul", [name, name]), axes, keep_dims=True)
    root = t.node("Sqrt", [t.node("Add", [mean, _number(t, op.epsilon, x)])])
    _give(t, y, t.node("Mul", [t.node("Div", [name, root]), _typed(t, node.inputs[1], x)]))


def export_mean_variance(node: Node, t: Target) -> None:
    """MeanVarianceNormalization."""
    op, (x, y) = node.op, _main(node)
    assert isinstance(op, s.MeanVarianceNormalization)
    name = narrowed(t, x)
    half = t.real_type(x) is DType.FLOAT16  # for which the checker finds its definition wrong
    name = t.cast(name, DType.FLOAT32) if half else name
    result = t.node("MeanVarianceNormalization", [name], axes=op.axes)
    t.set_real(y, t.cast(result, DType.FLOAT16) if half else widened(t, result, y))


EXPORTERS: dict[type[Op], Exporter] = {
    s.BatchNormalization: export_batch,
    s.InstanceNormalization: export_instance,
    s.GroupNormalization: export_group,
    s.LayerNormalization: export_layer,
    s.RmsNormalization: export_rms,
    s.MeanVarianceNormalization: export_mean_variance,
}
