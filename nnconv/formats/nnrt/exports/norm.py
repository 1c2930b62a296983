"""Ops that normalize along an axis."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import norm as n

_SOFTMAXES: dict[type[Op], str] = {n.Softmax: "SOFTMAX", n.LogSoftmax: "LOG_SOFTMAX"}


def export_softmax(node: Node, t: Target) -> None:
    """SOFTMAX, LOG_SOFTMAX."""
    op = node.op
    assert isinstance(op, n.Softmax | n.LogSoftmax)
    name = _SOFTMAXES[type(op)]
    if op.beta != 1.0:
        raise t.refused(f"{name} has no factor, here it is {op.beta:g}")
    t.emit(name, {"input": node.operand(0)}, node.outputs, {"axis": op.axis})


def export_l2_normalization(node: Node, t: Target) -> None:
    """L2_NORMALIZE, whose epsilon is that of the sum of squares."""
    op = node.op
    assert isinstance(op, n.L2Normalization)
    params = {
        "axis": [op.axis],
        "epsilon": op.epsilon * op.epsilon,
        "activationType": t.activation(op.activation),
    }
    t.emit("L2_NORMALIZE", {"input": node.operand(0)}, node.outputs, params)


def export_local_response_normalization(node: Node, t: Target) -> None:
    """LRN, across channels that are last."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, n.LocalResponseNormalization)
    if op.behind or op.axis != len(t.shape(x)) - 1 or len(t.shape(x)) > _LRN_RANK:
        raise t.refused("LRN has as many neighbours before as behind, along the last axis of four")
    params = {"depthRadius": op.radius, "bias": op.bias, "alpha": op.alpha, "beta": op.beta}
    if len(t.shape(x)) == _LRN_RANK:
        t.emit("LRN", {"input": x}, node.outputs, params)
        return
    shape = t.static(x)
    wide = (1,) * (_LRN_RANK - len(shape)) + shape
    kind = x.type.with_shape(wide)
    given = t.result("RESHAPE", {"input": x, "InputShape": t.ints(wide)}, kind)
    result = t.result("LRN", {"input": given}, kind, params)
    t.emit("RESHAPE", {"input": result, "InputShape": t.ints(shape)}, node.outputs)


_LRN_RANK = 4


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(_SOFTMAXES, export_softmax),
    n.L2Normalization: export_l2_normalization,
    n.LocalResponseNormalization: export_local_response_normalization,
}
