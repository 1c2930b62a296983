"""Quantization: codes get their parameters, which ONNX has as operands, into their types."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason, plural
from nnconv.formats.onnx.importer import Importer, NotConvertible, Source
from nnconv.formats.onnx.types import CODE_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import Add, Clip, Div, Mul, Round, Sub
from nnconv.ops.quantize import Cast, Dequantize, DynamicQuantize, Quantize
from nnconv.ops.shape import BroadcastTo, Reshape, Unsqueeze
from nnconv.ops.slices import Slice


def quant_of(
    src: Source,
    x: Value,
    scale: np.ndarray,
    zero_point: np.ndarray | None,
    *,
    axis: int = 1,
    block: int = 0,
) -> Quant:
    """Parameters of ``x`` from constants: one each, one an index of ``axis``, or one a block.

    Scales of blocks may be negative, or 0: quantizers let the lowest code stand for the number of
    the greatest size.

    Raises:
        InvalidModelError: they don't fit the value.
    """
    scales = scale.astype(np.float32)
    points = np.zeros(scales.shape, np.int64) if zero_point is None else zero_point
    if points.size != scales.size:
        raise src.fail(f"{plural(points.size, 'zero point')} for {plural(scales.size, 'scale')}")
    if not np.all(np.isfinite(scales)) or (not block and np.any(scales <= 0)):
        raise src.fail("a scale isn't a positive number")
    along: int | None = None
    if scales.ndim >= 1 and (scales.size > 1 or block):
        along = src.axis(axis, src.rank(x))
        assert x.shape is not None
        extent = x.shape[along]
        wanted = extent
        if block and isinstance(extent, int):
            wanted = -(-extent // block)
        given = scales.shape[along] if block and scales.ndim > along else scales.size
        if isinstance(wanted, int) and wanted != given:
            raise src.fail(
                f"{plural(given, 'scale')} along dimension {along}, which has "
                f"{plural(extent, 'element')}"
            )
    return Quant(
        scale=tuple(scales.reshape(-1).tolist()),
        zero_point=tuple(int(p) for p in points.reshape(-1)),
        axis=along,
        block=block if along is not None else 0,
    )


def parameters(src: Source, place: int, x: Value, *, axis: int = 1, block: int = 0) -> Quant | None:
    """The parameters that operands ``place`` (scale) and the next (zero point) give for ``x``.

    None if they are computed at run time.
    """
    scale, zero_point = src.operand(place), src.optional(place + 1)
    if scale.data is None or (zero_point is not None and zero_point.data is None):
        return None
    points = None if zero_point is None else zero_point.data
    return quant_of(src, x, scale.data, points, axis=axis, block=block)


def no_codes(src: Source, dtype: DType) -> NotConvertible:
    """The refusal of codes of a type that has no parameters here."""
    return src.unsupported(f"codes of {dtype} aren't supported", reason=Reason.NOT_IMPLEMENTED)


def spread(src: Source, x: Value, parameter: Value, *, axis: int, block: int) -> Value:
    """A run-time scale or zero point so that it broadcasts against ``x``."""
    if not parameter.shape or (parameter.shape == (1,) and not block):
        return parameter
    rank = src.rank(x)
    along = src.axis(axis, rank)
    if not block:
        after = rank - 1 - along
        sizes = (-1, *(1,) * after)
        return src.add(Reshape(shape=sizes), [parameter]) if after else parameter
    dims, wanted = static_shape(parameter.shape), static_shape(x.shape)
    if dims is None or wanted is None:
        raise src.unsupported("blocks along an extent that isn't known")
    wide = src.add(Unsqueeze(axes=(along + 1,)), [parameter])
    grown = src.add(BroadcastTo(shape=(*dims[: along + 1], block, *dims[along + 1 :])), [wide])
    flat = (*dims[:along], dims[along] * block, *dims[along + 1 :])
    whole = src.add(Reshape(shape=flat), [grown])
    if flat[along] == wanted[along]:
        return whole
    none = (None,) * rank
    ends = (*none[:along], wanted[along], *none[along + 1 :])
    return src.add(Slice(starts=none, ends=ends, strides=(1,) * rank), [whole])


def dequantized(
    src: Source,
    x: Value,
    scale: Value,
    zero_point: Value | None,
    dtype: DType,
    *,
    axis: int = 1,
    block: int = 0,
) -> Value:
    """Real values of codes whose parameters are computed at run time."""
    wide = src.add(Cast(dtype=scale.dtype), [x])
    if zero_point is not None:
        points = src.add(Cast(dtype=scale.dtype), [zero_point])
        wide = src.add(Sub(), [wide, spread(src, x, points, axis=axis, block=block)])
    result = src.add(Mul(), [wide, spread(src, x, scale, axis=axis, block=block)])
    return result if result.dtype is dtype else src.add(Cast(dtype=dtype), [result])


def quantized(
    src: Source,
    x: Value,
    scale: Value,
    zero_point: Value | None,
    dtype: DType,
    *,
    axis: int = 1,
    block: int = 0,
) -> Value:
    """Codes of real values, rounded half to even, whose parameters are computed at run time."""
    if dtype not in CODE_TYPES:
        raise no_codes(src, dtype)
    steps = spread(src, x, scale, axis=axis, block=block)
    if steps.dtype is not DType.FLOAT32:
        steps = src.add(Cast(dtype=DType.FLOAT32), [steps])
    real = x if x.dtype is DType.FLOAT32 else src.add(Cast(dtype=DType.FLOAT32), [x])
    codes = src.add(Round(), [src.add(Div(), [real, steps])])
    if zero_point is not None:
        points = src.add(Cast(dtype=DType.FLOAT32), [zero_point])
        codes = src.add(Add(), [codes, spread(src, x, points, axis=axis, block=block)])
    low, high = dtype.int_range
    return src.add(Cast(dtype=dtype), [src.add(Clip(low=low, high=high), [codes])])


def import_dequantize_linear(src: Source) -> None:
    """DequantizeLinear."""
    x, scale = src.operand(0), src.operand(1)
    along, block = src.int("axis", 1), src.int("block_size", 0)
    given = src.int("output_dtype", 0)
    dtype = src.dtype("output_dtype") if given else scale.dtype
    if x.dtype not in CODE_TYPES:
        raise no_codes(src, x.dtype)
    quant = parameters(src, 1, x, axis=along, block=block)
    if quant is None:
        point = src.optional(2)
        src.bind(0, dequantized(src, x, scale, point, dtype, axis=along, block=block))
        return
    src.emit(Dequantize(dtype=dtype), [src.scope.reread(x, quant)])


def import_quantize_linear(src: Source) -> None:
    """QuantizeLinear: the zero point's type, or ``output_dtype``, is the result's; else uint8."""
    x, point = src.operand(0), src.optional(2)
    along, block = src.int("axis", 1), src.int("block_size", 0)
    dtype = DType.UINT8 if point is None else point.dtype
    if point is None and src.int("output_dtype", 0):
        dtype = src.dtype("output_dtype")
    if dtype not in CODE_TYPES:
        raise no_codes(src, dtype)
    quant = parameters(src, 1, x, axis=along, block=block)
    if quant is None:
        scale = src.operand(1)
        src.bind(0, quantized(src, x, scale, point, dtype, axis=along, block=block))
        return
    src.emit(Quantize(dtype=dtype), [x], quants=[quant])


def import_dynamic_quantize_linear(src: Source) -> None:
    """DynamicQuantizeLinear."""
    src.emit(DynamicQuantize(), [src.operand(0)])


IMPORTERS: dict[str, Importer] = {
    "DequantizeLinear": import_dequantize_linear,
    "QuantizeLinear": import_quantize_linear,
    "DynamicQuantizeLinear": import_dynamic_quantize_linear,
    "com.microsoft:DequantizeLinear": import_dequantize_linear,
    "com.microsoft:QuantizeLinear": import_quantize_linear,
}
