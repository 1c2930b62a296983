"""Operations that normalize."""

from __future__ import annotations

import math

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.ops import norm as n
from nnconv.ops.elementwise import Maximum, Mul, Rsqrt, Square
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.standardize import BatchNormalization, InstanceNormalization, LayerNormalization


def import_batch_norm(s: Source) -> None:
    """BATCH_NORM: the last dimension has the channels."""
    x, scale, offset, mean, variance = s.operands()
    op = BatchNormalization(axis=s.rank(x) - 1, epsilon=s.float("epsilon"))
    s.emit(op, [x, scale, offset, mean, variance])


def import_layer_norm(s: Source) -> None:
    """LAYER_NORM."""
    x, gamma, beta = s.operands()
    axis = s.axis(s.int("beginAxis"), s.rank(x))
    s.emit(LayerNormalization(axis=axis, epsilon=s.float("epsilon")), [x, gamma, beta])


def import_instance_norm(s: Source) -> None:
    """INSTANCE_NORM: the second dimension has the channels."""
    s.emit(InstanceNormalization(axis=1, epsilon=s.float("epsilon")), s.operands())


def import_softmax(s: Source) -> None:
    """SOFTMAX, LOG_SOFTMAX."""
    x = s.operand("input")
    axis = s.axis(s.int("axis"), s.rank(x))
    s.emit(n.Softmax(axis=axis) if s.name == "SOFTMAX" else n.LogSoftmax(axis=axis), [x])


def import_l2_normalize(s: Source) -> None:
    """L2_NORMALIZE: x / root of the sum of squares, which is at least epsilon; no axes mean all."""
    x, epsilon = s.operand("input"), s.float("epsilon")
    if epsilon < 0:
        raise s.fail(f"epsilon {epsilon:g}, allowed are 0 and more")
    rank = s.rank(x)
    axes = tuple(sorted({s.axis(axis, rank) for axis in s.list("axis")})) or tuple(range(rank))
    if len(axes) == 1:
        op = n.L2Normalization(axis=axes[0], epsilon=math.sqrt(epsilon), activation=s.activation())
        s.emit(op, [x])
        return
    real = s.real(x)
    total = s.add(ReduceSum(axes=axes, keep_dims=True), [s.add(Square(), [real])])
    least = s.scalar(epsilon, real.dtype)
    root = s.add(Rsqrt(), [s.add(Maximum(), [total, least])])
    s.emit_real(s.add(Mul(activation=s.activation()), [real, root]))


def import_lrn(s: Source) -> None:
    """LRN: across the channels, which are last."""
    x, radius = s.of_rank(s.operand("input"), 4), s.int("depthRadius")
    if radius < 0:
        raise s.fail(f"depthRadius {radius}, allowed are 0 and more")
    op = n.LocalResponseNormalization(
        axis=3, radius=radius, bias=s.float("bias"), alpha=s.float("alpha"), beta=s.float("beta")
    )
    s.emit(op, [x])


IMPORTERS: dict[str, Importer] = {
    "BATCH_NORM": import_batch_norm,
    "INSTANCE_NORM": import_instance_norm,
    "L2_NORMALIZE": import_l2_normalize,
    "LAYER_NORM": import_layer_norm,
    "LOG_SOFTMAX": import_softmax,
    "LRN": import_lrn,
    "SOFTMAX": import_softmax,
}
