"""Operations that normalize along an axis."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ops import norm as n
from nnconv.ops.spatial import channel_dim
from nnconv.ops.standardize import InstanceNormalization


def _axis(s: Source, x: Value) -> int:
    return s.axis(s.int("axis"), s.rank(x))


def import_softmax(s: Source) -> None:
    """SOFTMAX."""
    x, beta = s.operand("input"), s.float("beta")
    if beta <= 0:
        raise s.fail(f"beta is {beta:g}, must be above 0")
    s.emit(n.Softmax(axis=_axis(s, x), beta=beta), [x])


def import_log_softmax(s: Source) -> None:
    """LOG_SOFTMAX: beta is a factor of the input."""
    x = s.operand("input")
    s.emit(n.LogSoftmax(axis=_axis(s, x), beta=s.float("beta")), [x])


def import_l2_normalization(s: Source) -> None:
    """L2_NORMALIZATION."""
    x = s.operand("input")
    s.emit(n.L2Normalization(axis=_axis(s, x)), [x])


def import_local_response_normalization(s: Source) -> None:
    """LOCAL_RESPONSE_NORMALIZATION."""
    x, radius = s.operand("input"), s.int("radius")
    if radius < 0:
        raise s.fail(f"radius {radius}, allowed are 0 and more")
    op = n.LocalResponseNormalization(
        axis=_axis(s, x),
        radius=radius,
        bias=s.float("bias"),
        alpha=s.float("alpha"),
        beta=s.float("beta"),
    )
    s.emit(op, [x])


def import_instance_normalization(s: Source) -> None:
    """INSTANCE_NORMALIZATION: one scale and one offset for all channels."""
    x, layout = s.operand("input"), s.layout()
    if s.rank(x) != 4:
        raise s.fail(f"the input has rank {s.rank(x)}, must have 4")
    axis = channel_dim(4, layout)
    channels = (x.shape or ())[axis]
    if not isinstance(channels, int):
        raise s.unsupported("the number of channels isn't known")
    scale, offset = (
        s.const(np.full(channels, s.float(name), x.dtype.numpy)) for name in ("gamma", "beta")
    )
    op = InstanceNormalization(axis=axis, epsilon=s.float("epsilon"))
    s.emit(op, [x, scale, offset])


IMPORTERS: dict[str, Importer] = {
    "INSTANCE_NORMALIZATION": import_instance_normalization,
    "L2_NORMALIZATION": import_l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": import_local_response_normalization,
    "LOG_SOFTMAX": import_log_softmax,
    "SOFTMAX": import_softmax,
}
