"""Ops that normalize along an axis."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import norm as n

_EPSILON = 1e-6
"""What L2_NORMALIZATION takes for the least norm."""

_COARSE = 0.9


def _last(t: Target, node: Node, axis: int) -> int:
    """An axis as NNAPI has it: the last one is -1, which needs no level."""
    x = node.operand(0)
    rank = t.rank(x)
    return -1 if axis == rank - 1 else axis


def export_softmax(node: Node, t: Target) -> None:
    """SOFTMAX; before level 3 along the last axis of ranks 2 and 4."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.Softmax)
    fixed = t.fixed_quant("SOFTMAX", y)
    if fixed is not None and y.quant is not None and y.quant.scale[0] < _COARSE * fixed.scale[0]:
        raise t.to_floats(f"the steps of SOFTMAX are coarser than those of `{y.name}`")
    axis = _last(t, node, op.axis)
    t.emit("SOFTMAX", {"input": x, "beta": op.beta, "axis": axis}, y)


def export_log_softmax(node: Node, t: Target) -> None:
    """LOG_SOFTMAX."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.LogSoftmax)
    axis = _last(t, node, op.axis)
    t.emit("LOG_SOFTMAX", {"input": x, "beta": 1.0, "axis": axis}, y)


def export_l2_normalization(node: Node, t: Target) -> None:
    """L2_NORMALIZATION; other least norms than its own are decomposed."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.L2Normalization)
    if op.epsilon != _EPSILON:
        raise t.refused(f"L2_NORMALIZATION has the least norm {_EPSILON}, here it is {op.epsilon}")
    t.activation_alone(op.activation)
    t.emit("L2_NORMALIZATION", {"input": x, "axis": _last(t, node, op.axis)}, y)


def export_local_response_normalization(node: Node, t: Target) -> None:
    """LOCAL_RESPONSE_NORMALIZATION."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.LocalResponseNormalization)
    if op.behind:
        raise t.refused("LOCAL_RESPONSE_NORMALIZATION has as many neighbours before as behind")
    t.emit(
        "LOCAL_RESPONSE_NORMALIZATION",
        {
            "input": x,
            "radius": op.radius,
            "bias": op.bias,
            "alpha": op.alpha,
            "beta": op.beta,
            "axis": _last(t, node, op.axis),
        },
        y,
    )


EXPORTERS: dict[type[Op], Exporter] = {
    n.Softmax: export_softmax,
    n.LogSoftmax: export_log_softmax,
    n.L2Normalization: export_l2_normalization,
    n.LocalResponseNormalization: export_local_response_normalization,
}
