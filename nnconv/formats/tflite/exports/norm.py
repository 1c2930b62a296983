"""Ops that normalize along an axis."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import FLOAT32, NO_TYPES, Exporter, Target, export_in_floats
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ops import norm as n


def export_local_response(node: Node, t: Target) -> None:
    """LOCAL_RESPONSE_NORMALIZATION where the source had it: its reference kernel is wrong."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.LocalResponseNormalization)
    t.require(node, plain=FLOAT32)
    rank = x.type.rank
    if node.origin.format != "tflite" or op.behind or rank != 4 or op.axis != rank - 1:
        raise t.refused("the reference kernel leaves a neighbour out")
    fields = {"radius": op.radius, "bias": op.bias, "alpha": op.alpha, "beta": op.beta}
    options = ("LocalResponseNormalizationOptions", fields)
    t.emit("LOCAL_RESPONSE_NORMALIZATION", [t.tensor(x)], node.outputs[0], options)


_SOFTMAX: dict[DType, Quant] = {
    DType.INT8: Quant.per_tensor(1 / 256, -128),
    DType.UINT8: Quant.per_tensor(1 / 256),
    DType.INT16: Quant.per_tensor(1 / 32768),
}
"""The parameters of what SOFTMAX gives."""

MOST_RANK = 6
"""Of more dimensions XNNPACK refuses the file."""


def export_softmax(node: Node, t: Target) -> None:
    """SOFTMAX of floats along the last dimension.

    Codes go through floats, unless the source computed with them: that is three times as fast.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.Softmax)
    kept = t.keeps_codes(node) and y.quant is not None and x.dtype is y.dtype
    t.require(node, plain=FLOAT32, codes=frozenset(_SOFTMAX) if kept else NO_TYPES)
    rank = x.type.rank
    if rank is None or not 1 <= rank <= MOST_RANK or op.axis != rank - 1:
        raise t.refused("SOFTMAX works along the last dimension")
    quant = t.given(y, _SOFTMAX)
    options = ("SoftmaxOptions", {"beta": op.beta})
    t.emit("SOFTMAX", [t.tensor(x)], y, options, quant=quant)


_LOG_SOFTMAX: dict[DType, Quant] = {
    DType.INT8: Quant.per_tensor(16 / 256, 127),
    DType.UINT8: Quant.per_tensor(16 / 256, 255),
}
"""The parameters of what LOG_SOFTMAX gives."""


def export_log_softmax(node: Node, t: Target) -> None:
    """LOG_SOFTMAX where the source had it; its parts take 0.38 of the time."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.LogSoftmax)
    kept = t.keeps_codes(node)
    codes = frozenset(_LOG_SOFTMAX) if kept and x.dtype is y.dtype else NO_TYPES
    t.require(node, plain=FLOAT32, codes=codes)
    rank = x.type.rank
    own = node.origin.format == "tflite" or (kept and x.type.has_codes)
    if not own or op.beta != 1 or rank is None or op.axis != rank - 1:
        raise t.refused("LOG_SOFTMAX works along the last dimension, without a factor")
    quant = t.given(y, _LOG_SOFTMAX)
    t.emit("LOG_SOFTMAX", [t.tensor(x)], y, ("LogSoftmaxOptions", {}), quant=quant)


_L2: dict[DType, Quant] = {
    DType.INT8: Quant.per_tensor(1 / 128),
    DType.UINT8: Quant.per_tensor(1 / 128, 128),
}
"""The parameters of what L2_NORMALIZATION gives."""

_LEAST_NORM = 1e-6
"""What L2_NORMALIZATION takes for the least norm."""


def export_l2(node: Node, t: Target) -> None:
    """L2_NORMALIZATION along the last dimension."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.L2Normalization)
    same = y.quant is not None and x.dtype is y.dtype
    t.require(node, plain=FLOAT32, codes=frozenset(_L2) if same else NO_TYPES)
    rank = x.type.rank
    if rank is None or op.axis != rank - 1 or abs(op.epsilon / _LEAST_NORM - 1) > 1e-3:
        raise t.refused("L2_NORMALIZATION works along the last dimension")
    quant = t.given(y, _L2)
    options = ("L2NormOptions", {"fused_activation_function": t.activation(op.activation)})
    t.emit("L2_NORMALIZATION", [t.tensor(x)], y, options, quant=quant)


EXPORTERS: dict[type[Op], Exporter] = {
    n.LocalResponseNormalization: export_local_response,
    n.LpNormalization: export_in_floats,
    n.Softmax: export_softmax,
    n.LogSoftmax: export_log_softmax,
    n.Hardmax: export_in_floats,
    n.L2Normalization: export_l2,
}
