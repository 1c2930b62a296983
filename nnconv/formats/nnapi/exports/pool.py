"""Pooling: padding never counts, and the window's part within the data does."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.window import extents_of, padded, padding_inputs, pair
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import pool as p
from nnconv.ops.spatial import Padding

NAMES: dict[type[Op], str] = {
    p.AveragePool2D: "AVERAGE_POOL_2D",
    p.L2Pool2D: "L2_POOL_2D",
    p.MaxPool2D: "MAX_POOL_2D",
}


def export_pool(node: Node, t: Target) -> None:
    """AVERAGE_POOL_2D, L2_POOL_2D, MAX_POOL_2D: codes keep their parameters."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, p.AveragePool2D | p.L2Pool2D | p.MaxPool2D)
    name = NAMES[type(op)]
    extents = extents_of(t, x, op.layout)
    if any(spread > 1 for spread in op.dilations):
        raise t.refused(f"{name} has no dilations")
    padding = op.reached(extents)
    if padding is None:
        raise t.refused("ceil_mode of extents that aren't known")
    data = t.operand(x)
    if isinstance(op, p.AveragePool2D) and op.count_padding and not op.padding.is_zero:
        if padding != op.padding:
            raise t.refused("windows reach beyond the padding that counts in the mean")
        data, padding = padded(t, x, op.layout, padding), Padding.none(2)
    if x.quant != y.quant and not isinstance(op, p.L2Pool2D):
        raise t.to_floats(f"{name} keeps the parameters of its codes")
    t.emit(
        name,
        {
            "input": data,
            **padding_inputs(t, extents, padding, op.window, op.stride),
            **pair("stride", op.stride),
            **pair("filter", op.window),
            "activation": t.activation(op.activation),
            "nchw": t.nchw(op.layout),
        },
        y,
    )


EXPORTERS: dict[type[Op], Exporter] = dict.fromkeys(NAMES, export_pool)
