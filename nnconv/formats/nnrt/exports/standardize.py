"""Ops that standardize: less the mean, divided by the deviation."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import standardize as z


def export_batch_normalization(node: Node, t: Target) -> None:
    """BATCH_NORM: the channels are last."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, z.BatchNormalization)
    if op.axis != len(t.shape(x)) - 1:
        raise t.refused("BATCH_NORM has its channels last")
    names = ("input", "scale", "offset", "mean", "variance")
    inputs: dict[str, Input] = {name: node.operand(i) for i, name in enumerate(names)}
    t.emit("BATCH_NORM", inputs, node.outputs, {"epsilon": op.epsilon})


def export_instance_normalization(node: Node, t: Target) -> None:
    """INSTANCE_NORM: the channels are the second dimension."""
    op = node.op
    assert isinstance(op, z.InstanceNormalization)
    if op.axis != 1:
        raise t.refused("INSTANCE_NORM has its channels behind the batch")
    inputs: dict[str, Input] = {
        "input": node.operand(0), "scale": node.operand(1), "bias": node.operand(2),
    }  # fmt: skip
    t.emit("INSTANCE_NORM", inputs, node.outputs, {"epsilon": op.epsilon})


def export_layer_normalization(node: Node, t: Target) -> None:
    """LAYER_NORM: scale and offset have the dimensions that are normalized."""
    op, x, scale = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, z.LayerNormalization)
    offset = node.optional(2)
    behind = t.shape(x)[op.axis :]
    if op.statistics or any(v is not None and t.shape(v) != behind for v in (scale, offset)):
        raise t.refused("LAYER_NORM's scale and offset have the dimensions that are normalized")
    zeros = offset or t.const(np.zeros(t.static(scale), scale.dtype.numpy))
    params = {"beginAxis": op.axis, "beginParamsAxis": op.axis, "epsilon": op.epsilon}
    t.emit("LAYER_NORM", {"input": x, "gamma": scale, "beta": zeros}, node.outputs, params)


EXPORTERS: dict[type[Op], Exporter] = {
    z.BatchNormalization: export_batch_normalization,
    z.InstanceNormalization: export_instance_normalization,
    z.LayerNormalization: export_layer_normalization,
}
