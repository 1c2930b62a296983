"""What sliding windows need in TFLite: a padding scheme, or a PAD before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.formats.tflite._gen.schema import Padding as Scheme
from nnconv.formats.tflite.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.spatial import Padding

MOST_PADS = (1 << 31) - 1


def require_channels_last(t: Target, x: Value, layout: Layout, rank: int) -> tuple[Dim, ...]:
    """The spatial extents of ``x``, which must be of known rank and channels-last.

    Raises:
        Refused: it is not.
    """
    if x.shape is None:
        raise t.refused("the rank of its operand isn't known")
    if layout is not Layout.NHWC or len(x.shape) != rank:
        raise t.refused(f"its operand is {x.type}, must be channels-last of rank {rank}")
    return x.shape[1:-1]


def scheme_of(
    extents: Sequence[Dim],
    padding: Padding,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Scheme | None:
    """The scheme that stands for a padding; None if none does."""
    if padding.is_zero:
        return Scheme.VALID
    if padding.same:
        return None if padding.lower else Scheme.SAME
    same = Padding.same_for(tuple(extents), tuple(window), tuple(stride), tuple(dilation))
    return Scheme.SAME if same == padding else None


def padded(t: Target, x: Value, padding: Padding, *, fill: float | None = None) -> int:
    """The tensor of a channels-last ``x`` with zeros (or the stored number ``fill``) around.

    Raises:
        Refused: the padding isn't known, or cuts off.
    """
    counts = (*padding.before, *padding.after)
    if padding.same or min(counts) < 0 or max(counts) > MOST_PADS:
        raise t.refused(f"a padding of {padding}")
    pairs = [(0, 0), *zip(padding.before, padding.after, strict=True), (0, 0)]
    assert x.shape is not None
    dims: list[Dim] = [
        dim + before + after if isinstance(dim, int) else None
        for dim, (before, after) in zip(x.shape, pairs, strict=True)
    ]
    dims[0], dims[-1] = x.shape[0], x.shape[-1]
    kind = TensorType(x.dtype, tuple(dims), x.quant)
    operands = [t.tensor(x), t.const(np.asarray(pairs, np.int32))]
    if fill is None:
        version = 2 if x.dtype is DType.INT8 else 1
        return t.result("PAD", operands, kind, ("PadOptions", {}), version=version)
    operands.append(t.const(np.asarray(fill, x.dtype.numpy), quant=x.quant))
    version = 2 if x.dtype is DType.INT8 else 1
    return t.result("PADV2", operands, kind, ("PadV2Options", {}), version=version)
