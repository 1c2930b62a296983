"""Ops that bring data to mean 0 and deviation 1."""

from __future__ import annotations

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.standardize import InstanceNormalization


def export_instance_normalization(node: Node, t: Target) -> None:
    """INSTANCE_NORMALIZATION of images, which has one scale and one offset for all channels."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, InstanceNormalization)
    if t.rank(x) != 4 or op.axis not in (1, 3):
        raise t.refused("INSTANCE_NORMALIZATION is of images")
    t.require(node, plain=t.types_of("INSTANCE_NORMALIZATION"), operands=(0,))
    inputs = {
        "input": x,
        "gamma": _common(t, node.operand(1)),
        "beta": _common(t, node.operand(2)),
        "epsilon": op.epsilon,
        "nchw": op.axis == 1,
    }
    t.emit("INSTANCE_NORMALIZATION", inputs, node.outputs)


def _common(t: Target, value: Value) -> float:
    """The number that all elements of a constant are."""
    numbers = set() if value.data is None else set(value.data.reshape(-1).tolist())
    if value.type.has_codes or len(numbers) != 1:
        raise t.refused("INSTANCE_NORMALIZATION has one scale and one offset")
    return float(numbers.pop())


EXPORTERS: dict[type[Op], Exporter] = {InstanceNormalization: export_instance_normalization}
