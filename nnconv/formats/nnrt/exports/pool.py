"""Pooling: padding never counts, and the window's part within the data does."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.formats.nnrt.window import extents_of, padding_params
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import pool as p

NAMES: dict[type[Op], str] = {p.AveragePool2D: "AVG_POOL", p.MaxPool2D: "MAX_POOL"}


def export_pool(node: Node, t: Target) -> None:
    """AVG_POOL, MAX_POOL."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, p.AveragePool2D | p.MaxPool2D)
    name = NAMES[type(op)]
    extents = extents_of(t, x, op.layout)
    if any(spread > 1 for spread in op.dilations):
        raise t.refused(f"{name} has no dilations")
    padding = op.reached(extents)
    if padding is None:
        raise t.refused("ceil_mode of extents that aren't known")
    if isinstance(op, p.AveragePool2D) and op.count_padding and not op.padding.is_zero:
        raise t.refused("its padding counts in the mean")
    params = {
        "kernelSize": list(op.window),
        "strides": list(op.stride),
        **padding_params(t, padding),
        "activationType": t.activation(op.activation),
    }
    t.emit(name, {"input": x}, node.outputs, params)


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(NAMES, export_pool)
