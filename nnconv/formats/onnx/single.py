"""Functions that are one ONNX node, for float types that come with later opsets too."""

from __future__ import annotations

from typing import Any

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value


def one_node(
    t: Target, op_type: str, x: Value, *, narrow: int, least: int = 0, **attributes: Any
) -> str:
    """A node of one float operand, on ``x``'s real values.

    Args:
        t: the graph to add to.
        op_type: ONNX's name of the op.
        x: the operand.
        narrow: the opset from which the op takes bfloat16; before, it goes through float32.
        least: the opset from which it takes float16 and float64.
        attributes: of the node.
    """
    name, kind = t.real(x), t.real_type(x)
    first = {DType.BFLOAT16: narrow, DType.FLOAT32: 0}.get(kind, least)
    if t.opset >= first:
        return t.node(op_type, [name], **attributes)
    return t.cast(t.node(op_type, [t.cast(name, DType.FLOAT32)], **attributes), kind)
