"""Takes explicit pads of zeros into the convolution or pool behind, which pads for nothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import quantize
from nnconv.ops.conv import Conv2D, Conv3D
from nnconv.ops.elementwise import Clip
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.slices import Pad, PadMode
from nnconv.ops.spatial import Padding, spatial_dims
from nnconv.passes.base import Pass

_LOWEST = {
    DType.FLOAT16: float(np.finfo(np.float16).min),
    DType.FLOAT32: float(np.finfo(np.float32).min),
}

Readers = Conv2D | Conv3D | AveragePool2D | MaxPool2D


class FoldPadsPass(Pass):
    """Folds a constant Pad of spatial dimensions into all that reads it, or leaves it.

    A convolution takes real zeros. So does an average pool without padding of its own, which then
    counts them. A max pool takes what can't win: the lowest value of all, or zeros where nothing
    padded is negative.
    """

    name: ClassVar[str] = "fold_pads"

    def run(self, graph: Graph) -> bool:
        """Fold the pads of one graph."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            op = node.op
            if not isinstance(op, Pad) or op.mode is not PadMode.CONSTANT or op.before is None:
                continue
            outputs = graph.output_set() if outputs is None else outputs
            if node.outputs[0] not in outputs and _fold(node, op):
                graph.remove(node)
                modified = True
        return modified


def _fold(node: Node, pad: Pad) -> bool:
    x, padded = node.inputs[0], node.outputs[0]
    if x is None or any(v is not None for v in node.inputs[1:]) or x.quant != padded.quant:
        return False
    folded: list[tuple[Node, Op]] = []
    for use in padded.uses:
        reader = use.node.op
        if use.index or not isinstance(reader, Readers):
            return False
        new = _taken_over(reader, pad, x)
        if new is None:
            return False
        folded.append((use.node, new))
    for reader_node, new in folded:
        reader_node.op = new
        reader_node.replace_input_with(0, x)
    return bool(folded)


def _taken_over(op: Readers, pad: Pad, x: Value) -> Op | None:
    """``op`` with the pad's counts added to its own; None if it can't have them."""
    assert pad.before is not None
    assert pad.after is not None
    rank = len(pad.before)
    dims = spatial_dims(rank, op.layout)
    outside = [i for i in range(rank) if i not in dims]
    if any(pad.before[i] or pad.after[i] for i in outside):
        return None
    before, after = (tuple(counts[i] for i in dims) for counts in (pad.before, pad.after))
    if op.padding.same or min(*before, *after) < 0:
        return None
    if isinstance(op, Conv2D | Conv3D):
        if pad.value != 0:
            return None
    elif not op.is_plain or not op.padding.is_zero or not _fits(op.window, before, after):
        return None
    elif isinstance(op, AveragePool2D):
        if pad.value != 0:
            return None
        return op.replace(padding=Padding(before, after), count_padding=True)
    elif not _never_wins(pad.value, x):
        return None
    padding = Padding(
        tuple(a + b for a, b in zip(op.padding.before, before, strict=True)),
        tuple(a + b for a, b in zip(op.padding.after, after, strict=True)),
    )
    return op.replace(padding=padding)


def _fits(window: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether every window meets an element that isn't padding, as runtimes want it of pools."""
    return all(b < size and a < size for size, b, a in zip(window, before, after, strict=True))


def _never_wins(value: float, x: Value) -> bool:
    """Whether a maximum over elements of x and ``value`` is one of the elements."""
    if x.quant is not None and x.quant.is_per_tensor and x.dtype.is_integer:
        low = x.dtype.int_range[0]
        if int(quantize(np.asarray(value), x.quant, x.dtype)) == low:
            return True
    elif value == -np.inf or value <= _LOWEST.get(x.dtype, -np.inf):
        return True
    if value > 0 or x.producer is None:
        return False
    op = x.producer.op
    if isinstance(op, Clip):
        return op.low >= 0
    activation = getattr(op, "activation", None)
    return activation is not None and activation.bounds is not None and activation.bounds[0] >= 0
