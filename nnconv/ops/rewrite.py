"""Small graph edits that several translators and passes need.

Transposes and reshapes that constants absorb.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.elementwise import Mul
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.shape import Reshape, ShapeOf, Transpose
from nnconv.ops.slices import Slice


def transposed(builder: Builder, value: Value, perm: Sequence[int]) -> Value:
    """``value`` with new dimension i being old dimension perm[i].

    A constant gives a view of itself, and a Cast or Dequantize of a constant one of its constant's
    view, so that weights keep their small type in the file. Else a Transpose is added, before a
    Dequantize that has scales for channels: such codes are weights, which products know as codes.
    """
    if tuple(perm) == tuple(range(len(perm))):
        return value
    if value.data is not None:
        return Value(
            value.name,
            value.type.permuted(perm),
            data=value.data.transpose(perm),
            origin=value.origin,
        )
    widened = _widened_constant(value) or _channels_behind(value)
    if widened is not None and value.producer is not None:
        source = transposed(builder, widened, perm)
        return builder.add_typed(
            value.producer.op, [source], [value.type.permuted(perm)], names=[value.name]
        )[0]
    return builder.add_typed(
        Transpose(perm=tuple(perm)), [value], [value.type.permuted(perm)], names=[value.name]
    )[0]


def _channels_behind(value: Value) -> Value | None:
    """The codes with scales for channels that a value is a Dequantize of."""
    if value.producer is None or not isinstance(value.producer.op, Dequantize):
        return None
    codes = value.producer.operand(0)
    return None if codes.quant is None or codes.quant.is_per_tensor else codes


def reshaped(builder: Builder, value: Value, shape: Sequence[int]) -> Value:
    """``value`` under another shape (one extent may be -1); a constant gives a view of itself."""
    if static_shape(value.shape) == tuple(shape):
        return value
    if value.data is not None:
        try:
            data = value.data.reshape(shape)
        except ValueError:
            old, new = list(value.data.shape), list(shape)
            raise ValueError(f"`{value.name}` has the shape {old}, not {new}") from None
        quant = _reshaped_quant(value.type, data.shape)
        kind = TensorType(value.dtype, data.shape, quant)
        return Value(value.name, kind, data=data, origin=value.origin)
    widened = _widened_constant(value)
    if widened is not None and value.producer is not None:
        source = reshaped(builder, widened, shape)
        kind = TensorType(value.dtype, source.shape, value.quant)
        return builder.add_typed(value.producer.op, [source], [kind], names=[value.name])[0]
    return builder.add(Reshape(shape=tuple(shape)), [value], name=value.name, quant=value.quant)


def _reshaped_quant(old: TensorType, shape: tuple[int, ...]) -> Quant | None:
    quant, dims = old.quant, static_shape(old.shape)
    if quant is None or quant.axis is None or dims is None:
        return quant
    if quant.block:
        raise ValueError("blockwise parameters can't be reshaped")
    # the channel axis survives where as many elements stand before it as did
    before = int(np.prod(dims[: quant.axis]))
    for axis, extent in enumerate(shape):
        if extent == dims[quant.axis] and int(np.prod(shape[:axis])) == before:
            return quant.with_axis(axis)
    raise ValueError(f"channel axis {quant.axis} of {dims} has no place in {shape}")


def _widened_constant(value: Value) -> Value | None:
    """The constant that ``value`` is a Cast or Dequantize of, if it is one."""
    node = value.producer
    if node is not None and isinstance(node.op, Cast | Dequantize):
        source = node.inputs[0]
        if source is not None and source.data is not None:
            return source
    return None


def constant_behind(value: Value) -> Value | None:
    """``value`` itself if it is a constant, or the constant that it is a Cast or Dequantize of."""
    return value if value.data is not None else _widened_constant(value)


def factors_of(size: Value, x: Value, dims: Sequence[int]) -> tuple[int, ...] | None:
    """The whole numbers that ``size`` is the extents ``dims`` of ``x`` times; None if it isn't."""
    made = _uncast(size).producer
    if made is None or not isinstance(made.op, Mul):
        return None
    own, times = made.inputs
    if own is None or times is None or times.data is None or times.data.size not in (1, len(dims)):
        return None
    if _dims_of(own, x) != tuple(dims):
        return None
    return tuple(int(factor) for factor in np.broadcast_to(times.data.reshape(-1), len(dims)))


def _uncast(value: Value) -> Value:
    """What an integer was before it became a wider or a narrower one."""
    made = value.producer
    while made is not None and isinstance(made.op, Cast) and made.operand(0).dtype.is_integer:
        value = made.operand(0)
        made = value.producer
    return value


def _dims_of(value: Value, x: Value) -> tuple[int, ...] | None:
    """The dimensions of ``x`` whose extents a value has; None if it has others, or that's unknown.

    Those of a ShapeOf, or what a Slice takes of it.
    """
    made = _uncast(value).producer
    if made is None or x.shape is None:
        return None
    if isinstance(made.op, ShapeOf) and made.inputs[0] is x:
        return tuple(range(len(x.shape))) if made.op.dims is None else made.op.dims
    if not isinstance(made.op, Slice) or made.op.starts is None or made.op.ends is None:
        return None
    dims = _dims_of(made.operand(0), x)
    bounds = (made.op.starts[0], made.op.ends[0], (made.op.strides or (1,))[0])
    return None if dims is None else dims[slice(*bounds)]
