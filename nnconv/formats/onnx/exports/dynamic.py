"""Ops of which a run decides what elsewhere an attribute would: on codes."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import extent, extent_name, through
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import dynamic as d


def _operands(node: Node, t: Target) -> list[str]:
    """The operand's codes and the index operands; an empty name for one that is left out."""
    rest = ["" if v is None else t.int64(v) for v in node.inputs[1:]]
    while rest and not rest[-1]:
        rest.pop()
    return [t.codes(node.inputs[0]), *rest]


def export_reshape(node: Node, t: Target) -> None:
    """Reshape."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, d.DynamicReshape)
    literal = None if op.keeps or t.opset < 14 else 1
    t.set_codes(y, t.node("Reshape", _operands(node, t), allowzero=literal))


def export_squeeze(node: Node, t: Target) -> None:
    """Squeeze, Unsqueeze."""
    op_type = "Squeeze" if isinstance(node.op, d.DynamicSqueeze) else "Unsqueeze"
    t.set_codes(node.outputs[0], t.node(op_type, _operands(node, t)))


def export_expand(node: Node, t: Target) -> None:
    """Expand."""
    through(node, t, "Expand", _operands(node, t))


def export_slice(node: Node, t: Target) -> None:
    """Slice: bounds of int32 as they are."""
    rest = node.inputs[1:]
    if any(v is not None and v.dtype is not DType.INT32 for v in rest):
        names = _operands(node, t)
    else:
        names = [t.codes(node.inputs[0]), *("" if v is None else t.stored(v) for v in rest)]
    t.set_codes(node.outputs[0], t.node("Slice", names))


def export_split(node: Node, t: Target) -> None:
    """Split; what it does by itself from opset 18 on is spelled out before."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, d.DynamicSplit)
    names = _operands(node, t)
    count = None
    if len(names) == 1 and t.opset < 18:
        whole = extent_name(t, extent(t, x, op.axis))
        parts = t.const([op.count])
        rounded = t.node("Add", [whole, t.const([op.count - 1])])
        part = t.node("Div", [rounded, parts])
        before = t.node("Mul", [part, t.const(list(range(op.count)))])
        left = t.node("Max", [t.node("Sub", [whole, before]), t.const([0])])
        names.append(t.node("Min", [left, part]))
    elif len(names) == 1:
        count = op.count
    results = t.nodes_of("Split", names, op.count, axis=op.axis, num_outputs=count)
    for value, name in zip(node.outputs, results, strict=True):
        t.set_codes(value, name)


EXPORTERS: dict[type[Op], Exporter] = {
    d.DynamicReshape: export_reshape,
    d.DynamicSqueeze: export_squeeze,
    d.DynamicUnsqueeze: export_squeeze,
    d.Expand: export_expand,
    d.DynamicSlice: export_slice,
    d.DynamicSplit: export_split,
}
