"""Normalizations, by statistics given or worked out."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.graph import Value
from nnconv.ops import elementwise as e
from nnconv.ops import norm as n
from nnconv.ops import standardize as s
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceMean


def import_batch(src: Source) -> None:
    """BatchNormalization; in training the statistics of the batch, and running means of them."""
    operands = [src.operand(i) for i in range(5)]
    x = operands[0]
    epsilon = src.float("epsilon", 1e-5)
    if src.version < 9 and not src.int("spatial", 1):
        _import_elementwise(src, operands, epsilon)
        return
    op = s.BatchNormalization(axis=1, epsilon=epsilon)
    if src.version < 14 or not src.int("training_mode", 0):
        if x.shape is not None and len(x.shape) < 2:
            raise src.fail(f"input has rank {len(x.shape)}, must have 2 or more")
        if any(src.wants(i) for i in range(1, 5)):
            raise src.unsupported("it gives statistics, as in training")
        src.emit(op, operands)
        return
    axes = tuple(i for i in range(src.rank(x)) if i != 1)
    mean = src.add(ReduceMean(axes=axes, keep_dims=True), [x])
    apart = src.add(e.Sub(), [x, mean])
    spread = src.add(ReduceMean(axes=axes), [src.add(e.Square(), [apart])])
    middle = src.add(ReduceMean(axes=axes), [x])
    momentum = src.float("momentum", 0.9)
    current = [_as(src, middle, operands[3]), _as(src, spread, operands[4])]
    for index, new in enumerate(current):
        if src.wants(index + 1):
            old = operands[3 + index]
            kept = src.add(e.Mul(), [old, _number(src, momentum, old)])
            added = src.add(e.Mul(), [new, _number(src, 1 - momentum, old)])
            src.bind(index + 1, src.add(e.Add(), [kept, added]))
    src.bind(0, src.add(op, [*operands[:3], *current]))


def _as(src: Source, value: Value, like: Value) -> Value:
    return value if value.dtype is like.dtype else src.add(Cast(dtype=like.dtype), [value])


def _number(src: Source, number: float, like: Value) -> Value:
    return src.const(np.asarray(number, like.dtype.numpy))


def _import_elementwise(src: Source, operands: list[Value], epsilon: float) -> None:
    """Parameters for each element of a sample."""
    x, scale, offset, mean, variance = operands
    if variance.dtype not in FLOATS:
        raise src.fail(f"the variance is {variance.type}")
    moved = src.add(e.Add(), [variance, _number(src, epsilon, variance)])
    factor = src.add(e.Div(), [scale, src.add(e.Sqrt(), [moved])])
    result = src.add(e.Mul(), [src.add(e.Sub(), [x, mean]), factor])
    src.emit(e.Add(), [result, offset])


def import_instance(src: Source) -> None:
    """InstanceNormalization."""
    op = s.InstanceNormalization(axis=1, epsilon=src.float("epsilon", 1e-5))
    src.emit(op, [src.operand(i) for i in range(3)])


def import_group(src: Source) -> None:
    """GroupNormalization, whose parameters are of groups before opset 21, of channels since."""
    op = s.GroupNormalization(
        axis=1,
        epsilon=src.float("epsilon", 1e-5),
        groups=src.int("num_groups"),
        by_group=src.version < 21,
    )
    src.emit(op, [src.operand(i) for i in range(3)])


def _axis(src: Source, x: Value) -> int:
    return src.axis(src.int("axis", -1), src.rank(x))


def import_layer(src: Source) -> None:
    """LayerNormalization."""
    x, scale, offset = src.operand(0), src.operand(1), src.optional(2)
    op = s.LayerNormalization(
        axis=_axis(src, x),
        epsilon=src.float("epsilon", 1e-5),
        statistics=src.wants(1) or src.wants(2),
        dtype=src.dtype("stash_type", DType.FLOAT32),
    )
    src.emit(op, [x, scale] if offset is None else [x, scale, offset])


def import_rms(src: Source) -> None:
    """RMSNormalization."""
    x = src.operand(0)
    op = s.RmsNormalization(axis=_axis(src, x), epsilon=src.float("epsilon", 1e-5))
    src.emit(op, [x, src.operand(1)])


def import_mean_variance(src: Source) -> None:
    """MeanVarianceNormalization."""
    x = src.operand(0)
    if src.version < 9:
        raise src.unsupported("its form before opset 9")
    rank = src.rank(x)
    axes = src.int_list("axes") or (0, 2, 3)
    places = tuple(sorted({src.axis(a, rank) for a in axes}))
    src.emit(s.MeanVarianceNormalization(axes=places), [x])


def import_lp(src: Source) -> None:
    """LpNormalization."""
    x = src.operand(0)
    order = src.int("p", 2)
    if order not in (1, 2):
        raise src.fail(f"p is {order}, must be 1 or 2")
    src.emit(n.LpNormalization(axis=_axis(src, x), p=order), [x])


def import_local_response(src: Source) -> None:
    """LRN: alpha is divided by the number of neighbours, of which one more may be behind."""
    x = src.operand(0)
    size = src.int("size")
    if size < 1:
        raise src.fail(f"size is {size}, must be positive")
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    radius = (size - 1) // 2
    behind = size - 1 - 2 * radius
    if isinstance(channels, int) and radius > channels:
        radius, behind = max(channels, 1), 0  # there are no more neighbours
    op = n.LocalResponseNormalization(
        axis=1,
        radius=radius,
        behind=behind,
        bias=src.float("bias", 1.0),
        alpha=src.float("alpha", 1e-4) / size,
        beta=src.float("beta", 0.75),
    )
    src.emit(op, [x])


IMPORTERS: dict[str, Importer] = {
    "BatchNormalization": import_batch,
    "InstanceNormalization": import_instance,
    "GroupNormalization": import_group,
    "LayerNormalization": import_layer,
    "RMSNormalization": import_rms,
    "MeanVarianceNormalization": import_mean_variance,
    "LpNormalization": import_lp,
    "LRN": import_local_response,
}
