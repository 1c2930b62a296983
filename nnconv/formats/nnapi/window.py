"""What sliding windows need in NNAPI: a padding scheme, or paddings as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Input, Target
from nnconv.formats.nnapi.types import PaddingCode
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.spatial import Padding, spatial_dims


def extents_of(t: Target, x: Value, layout: Layout) -> tuple[Dim, ...]:
    """Height and width of an image.

    Raises:
        Refused: it isn't of rank 4.
    """
    if x.shape is None or len(x.shape) != 4:
        raise t.refused(f"its operand is {x.type}, must be of rank 4")
    return tuple(x.shape[dim] for dim in spatial_dims(4, layout))


def padding_inputs(
    t: Target,
    extents: Sequence[Dim],
    padding: Padding,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int] = (1, 1),
) -> dict[str, Input]:
    """The inputs that state a padding: by a scheme where one says the same.

    Raises:
        Refused: it is as large as the window, or isn't known.
    """
    if padding.is_zero:
        return {"padding_scheme": int(PaddingCode.VALID)}
    if padding.same:
        if padding.lower:
            raise t.refused("the odd element of its padding is at the start, its extents are open")
        return {"padding_scheme": int(PaddingCode.SAME)}
    same = Padding.same_for(tuple(extents), tuple(window), tuple(stride), tuple(dilation))
    if same == padding:
        return {"padding_scheme": int(PaddingCode.SAME)}
    reach = [(size - 1) * spread + 1 for size, spread in zip(window, dilation, strict=True)]
    for size, *sides in zip(reach, padding.before, padding.after, strict=True):
        if not all(0 <= side < size for side in sides):
            raise t.refused(f"paddings {sides} for a window of {size}")
    return {
        "pad_left": padding.before[1],
        "pad_right": padding.after[1],
        "pad_top": padding.before[0],
        "pad_bottom": padding.after[0],
    }


def padded(t: Target, x: Value, layout: Layout, padding: Padding) -> Ref:
    """An image with zeros around.

    Raises:
        Refused: the padding isn't known, or cuts off.
    """
    if padding.same or min(*padding.before, *padding.after) < 0:
        raise t.refused(f"a padding of {padding}")
    pairs, dims = [(0, 0)] * 4, list(x.shape or ())
    for i, dim in enumerate(spatial_dims(4, layout)):
        pairs[dim] = padding.before[i], padding.after[i]
        extent = dims[dim]
        dims[dim] = extent + sum(pairs[dim]) if isinstance(extent, int) else None
    inputs = {"input": x, "paddings": t.const(np.asarray(pairs, np.int32))}
    return t.result("PAD", inputs, TensorType(x.dtype, tuple(dims), x.quant))


def pair(name: str, numbers: Sequence[int]) -> dict[str, Input]:
    """Scalars ``<name>_height`` and ``<name>_width``."""
    return {f"{name}_height": numbers[0], f"{name}_width": numbers[1]}
