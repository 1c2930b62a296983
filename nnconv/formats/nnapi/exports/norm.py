"""Ops that normalize along an axis."""

from __future__ import annotations

from math import prod

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import MOST_DIMENSIONS, TensorType
from nnconv.ops import norm as n

_EPSILON = 1e-6
"""What L2_NORMALIZATION takes for the least norm."""

_COARSE = 0.9


def _last(t: Target, node: Node, axis: int) -> int:
    """An axis as NNAPI has it: the last one is -1, which needs no level."""
    x = node.operand(0)
    rank = t.rank(x, MOST_DIMENSIONS)
    return -1 if axis == rank - 1 else axis


def export_softmax(node: Node, t: Target) -> None:
    """SOFTMAX; before level 3 along the last axis of ranks 2 and 4."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.Softmax)
    fixed = t.fixed_quant("SOFTMAX", y)
    if fixed is not None and y.quant is not None and y.quant.scale[0] < _COARSE * fixed.scale[0]:
        raise t.to_floats(f"the steps of SOFTMAX are coarser than those of `{y.name}`")
    axis = _last(t, node, op.axis)
    if t.level < _TAKES_AXES and (axis != -1 or t.rank(x) in (1, 3)):
        _softmax_of_rows(t, x, y, op)
        return
    t.emit("SOFTMAX", {"input": x, "beta": op.beta, "axis": axis}, y)


_TAKES_AXES = 3


def _softmax_of_rows(t: Target, x: Value, y: Value, op: n.Softmax) -> None:
    """SOFTMAX of a matrix whose rows are what it works along, between moves."""
    shape = t.static(x)
    order = [*(i for i in range(len(shape)) if i != op.axis), op.axis]
    turned = tuple(shape[i] for i in order)
    source, back = t.operand(x), list(np.argsort(order))
    if order != sorted(order):
        kind = TensorType(x.dtype, turned, x.quant)
        source = t.result("TRANSPOSE", {"input": source, "perm": t.ints(order)}, kind)
    rows = (prod(turned[:-1]), turned[-1])
    inputs = {"input": source, "shape": t.ints(rows)}
    source = t.result("RESHAPE", inputs, TensorType(x.dtype, rows, x.quant))
    quant = t.fixed_quant("SOFTMAX", y)
    source = t.result(
        "SOFTMAX", {"input": source, "beta": op.beta}, TensorType(y.dtype, rows, quant)
    )
    if order == sorted(order):
        t.emit("RESHAPE", {"input": source, "shape": t.ints(turned)}, y)
        return
    inputs = {"input": source, "shape": t.ints(turned)}
    source = t.result("RESHAPE", inputs, TensorType(y.dtype, turned, quant))
    t.emit("TRANSPOSE", {"input": source, "perm": t.ints(int(i) for i in back)}, y)


def export_log_softmax(node: Node, t: Target) -> None:
    """LOG_SOFTMAX."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, n.LogSoftmax)
    axis = _last(t, node, op.axis)
    t.emit("LOG_SOFTMAX", {"input": x, "beta": op.beta, "axis": axis}, y)


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
