"""Leaves out of a Resize the dimensions that keep their extents.

ONNX files spell them: the sizes that a run tells are joined with the batch and the channels of what
is resized. Simpler ops, and most runtimes, resize the rows and columns of images alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.elements import elements
from nnconv.ops.gather import Gather
from nnconv.ops.resample import Policy, Resample, ResampleNearest
from nnconv.ops.shape import Concat
from nnconv.passes.base import Rule, RulesPass


def _leave_out(node: Node, _outputs: set[Value]) -> bool:
    op, x, sizes = node.op, node.operand(0), node.optional(3)
    assert isinstance(op, Resample | ResampleNearest)
    if sizes is None or x.shape is None or op.policy is not Policy.STRETCH:
        return False
    if op.roi is not None or node.optional(1) is not None:
        return False
    found = elements(sizes, {})
    if found is None or found.shape != (len(op.axes),):
        return False
    kept = [
        place
        for place, axis in enumerate(op.axes)
        if x.shape[axis] is None or found[place] != x.shape[axis]
    ]
    if not kept or len(kept) == len(op.axes):
        return False
    node.op = op.replace(axes=tuple(op.axes[place] for place in kept))
    node.replace_input_with(3, _taken(node, sizes, kept))
    return True


def _taken(node: Node, sizes: Value, kept: Sequence[int]) -> Value:
    """The entries at some places: a part that was joined to others, if it has those."""
    joint = sizes.producer
    if joint is not None and isinstance(joint.op, Concat):
        start = 0
        for part in joint.inputs:
            count = None if part is None or not part.shape else part.shape[0]
            if part is None or not isinstance(count, int):
                break
            if list(kept) == list(range(start, start + count)):
                return part
            start += count
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    return builder.add(Gather(axis=0), [sizes, builder.const(np.asarray(kept, np.int32))])


class ResizeAxesPass(RulesPass):
    """Rewrites Resample and ResampleNearest to sizes that are known to be those that there are."""

    name: ClassVar[str] = "resize_axes"
    rules: ClassVar[Mapping[type[Op], Rule]] = dict.fromkeys(
        (Resample, ResampleNearest), _leave_out
    )
