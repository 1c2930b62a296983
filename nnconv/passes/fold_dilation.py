"""SpaceToBatch, convolution, BatchToSpace: TensorFlow's old way to write a dilated convolution."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.graph import Graph, Node, Value
from nnconv.ops.blocks import BatchToSpace, SpaceToBatch
from nnconv.ops.conv import Conv2D, Conv3D
from nnconv.ops.spatial import Padding
from nnconv.passes.base import Pass


class FoldDilationPass(Pass):
    """Makes one dilated convolution of the three nodes, which take two and a half times as long."""

    name: ClassVar[str] = "fold_dilation"

    def run(self, graph: Graph) -> bool:
        """Fold one graph."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            if isinstance(node.op, SpaceToBatch):
                outputs = graph.output_set() if outputs is None else outputs
                modified |= _fold(node, graph, outputs)
        return modified


def _only_reader(value: Value, outputs: set[Value]) -> Node | None:
    """The node that reads a value as its first operand, if nothing else has it."""
    uses = value.uses
    if len(uses) != 1 or uses[0].index or value in outputs:
        return None
    return uses[0].node


def _fold(spread: Node, graph: Graph, outputs: set[Value]) -> bool:
    conv = _only_reader(spread.outputs[0], outputs)
    if conv is None or not isinstance(conv.op, Conv2D | Conv3D):
        return False
    gather = _only_reader(conv.outputs[0], outputs)
    if gather is None or not isinstance(gather.op, BatchToSpace):
        return False
    op = _dilated(spread.op, conv.op, gather.op)
    x, result = spread.inputs[0], gather.outputs[0]
    if op is None or x is None or x.quant != spread.outputs[0].quant:
        return False
    if result.quant != conv.outputs[0].quant:
        return False
    kind = result.type
    inputs = [x, *conv.inputs[1:]]
    try:
        inferred = op.infer([None if v is None else v.type for v in inputs])
    except ValueError:
        return False
    if inferred[0].rank != kind.rank:
        return False
    new = Node(op, inputs, [Value(result.name, kind, origin=result.origin)], origin=conv.origin)
    graph.insert_before(gather, new)
    result.replace_all_uses_with(new.outputs[0])
    if result in outputs:
        graph.replace_output(result, new.outputs[0])
        outputs.discard(result)
        outputs.add(new.outputs[0])
    for node in (gather, conv, spread):
        graph.remove(node)
    return True


def _dilated(spread: object, conv: Conv2D | Conv3D, gather: object) -> Conv2D | Conv3D | None:
    assert isinstance(spread, SpaceToBatch)
    assert isinstance(gather, BatchToSpace)
    block, pads, crops = spread.block, spread.pads, gather.crops
    if block is None or pads is None or crops is None or gather.block != block:
        return None
    first = (spread.channels_first, gather.channels_first)
    if first != (conv.layout.value == "NCHW",) * 2 or len(block) != conv.spatial_rank:
        return None
    if conv.padding.same or any(step != 1 for step in conv.stride):
        return None
    # what the blocks' own edges were padded with stands one block apart now
    before = [
        pad + own * size - crop
        for (pad, _), (crop, _), own, size in zip(
            pads, crops, conv.padding.before, block, strict=True
        )
    ]
    after = [
        pad + own * size - crop
        for (_, pad), (_, crop), own, size in zip(
            pads, crops, conv.padding.after, block, strict=True
        )
    ]
    if min(*before, *after) < 0:
        return None
    changed: Conv2D | Conv3D = conv.replace(
        dilation=tuple(d * size for d, size in zip(conv.dilation, block, strict=True)),
        padding=Padding(tuple(before), tuple(after)),
    )
    return changed
