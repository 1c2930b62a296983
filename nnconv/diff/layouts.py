"""The other layout of a model's images: bringing arrays into it, telling which values have it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.ir.op import Layout
from nnconv.ir.types import Dim, Shape
from nnconv.ops.spatial import IMAGE_RANK, to_layout

MOVES = {"nhwc": Layout.NHWC, "nchw": Layout.NCHW}
"""What an interface may be moved to, as users say it."""


def relaid(array: np.ndarray, layout: str) -> np.ndarray:
    """An array of the other layout in ``layout``, one of ``MOVES``; what is no image stays."""
    if array.ndim < IMAGE_RANK:
        return array
    return array.transpose(to_layout(MOVES[layout], array.ndim))


def relaid_shape(shape: Sequence[Dim], layout: str) -> tuple[Dim, ...]:
    """The shape that an array of another has when it is ``relaid``."""
    return tuple(shape[place] for place in to_layout(MOVES[layout], len(shape)))


def was_moved(layout: str, *shapes: tuple[Shape, Shape]) -> bool:
    """Whether one model's images are another's, moved to ``layout``, as far as shapes tell.

    Where they are the same in both layouts, as those of 8 x 8 pixels with 8 channels, they were.

    Args:
        layout: one of ``MOVES``; any other, such as ``keep``, moves nothing.
        shapes: those of an input or output in either model. Where the first pair leaves it open,
            the next tells.
    """
    if layout not in MOVES:
        return False
    undecided = False
    for before, after in shapes:
        if before is None or after is None or len(before) < IMAGE_RANK:
            continue
        moved, kept = (_likeness(x, after) for x in (relaid_shape(before, layout), before))
        if moved != kept:
            return moved > kept
        undecided |= moved >= 0
    return undecided


def layout_between(before: Shape, after: Shape) -> str:
    """The layout that one shape must have been moved to to be another; empty if they may be alike.

    It is empty as well where no move makes them alike.
    """
    if before is None or after is None or len(before) < IMAGE_RANK:
        return ""
    if _likeness(before, after) >= 0:
        return ""
    fitting = (name for name in MOVES if _likeness(relaid_shape(before, name), after) >= 0)
    return next(fitting, "")


def _likeness(a: Sequence[Dim], b: Sequence[Dim]) -> int:
    """How many extents are the same, or both open; -1 where shapes can't be those of one array."""
    if len(a) != len(b):
        return -1
    known = [[d if isinstance(d, int) else None for d in shape] for shape in (a, b)]
    pairs = list(zip(*known, strict=True))
    if any(x != y and None not in (x, y) for x, y in pairs):
        return -1
    return sum(x == y for x, y in pairs)
