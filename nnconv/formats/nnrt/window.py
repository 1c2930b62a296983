"""What sliding windows need in NNRt: a list of paddings, or a mode where extents aren't known."""

from __future__ import annotations

from typing import Any

from nnconv.formats.nnrt.exporter import Target
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import Dim
from nnconv.ops.spatial import Padding

SAME = 0
"""The padding mode that keeps extents."""


def extents_of(t: Target, x: Value, layout: Layout) -> tuple[Dim, ...]:
    """Height and width of an image, whose channels are last.

    Raises:
        Refused: it isn't of rank 4, or its channels aren't last.
    """
    if x.shape is None or len(x.shape) != 4:
        raise t.refused(f"its operand is {x.type}, must be of rank 4")
    if layout is not Layout.NHWC:
        raise t.refused("its channels aren't last")
    return x.shape[1:3]


def padding_params(t: Target, padding: Padding) -> dict[str, Any]:
    """The parameters that state a padding.

    Raises:
        Refused: it cuts elements off, or isn't known.
    """
    if padding.same:
        if padding.lower:
            raise t.refused("the odd element of its padding is at the start, its extents are open")
        return {"padMode": SAME}
    (top, left), (bottom, right) = padding.before, padding.after
    if min(top, left, bottom, right) < 0:
        raise t.refused("its padding cuts elements off")
    return {"padList": [top, bottom, left, right]}
